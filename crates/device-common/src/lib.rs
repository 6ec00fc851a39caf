//! What devices share, once: where slots lie in one arena and the guard bytes behind them ([`arena`]), and what a recording
//! has in it and is refused for ([`recording`]). It knows no op and no driver.

pub mod arena;
pub mod recording;
