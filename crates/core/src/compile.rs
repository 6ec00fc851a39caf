//! From a graph to a plan, pass by pass: choose weight [`layout`]s, fuse, choose activations in MMA fragment layout,
//! [`lower`] every node, assign slots by graph colouring.

mod fragment_layout;
pub mod layout;
pub mod lower;
mod slots;
