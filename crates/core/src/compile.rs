//! From a graph to a plan, pass by pass: choose [`layout`]s, fuse, choose MMA fragment layouts, [`lower`] every node, colour slots.

mod fragment_layout;
pub mod layout;
pub mod lower;
mod slots;
