//! From a graph to a plan, pass by pass: choose weight [`layout`]s, fuse, [`lower`] every node, assign slots by graph colouring.

pub mod layout;
pub mod lower;
mod slots;
