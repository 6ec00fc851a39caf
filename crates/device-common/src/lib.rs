//! Code that all devices share: the placement of slots and guard bytes in one arena ([`arena`]), and the entries and checks of
//! recordings ([`recording`]). It knows no op and no driver.

pub mod arena;
pub mod recording;
