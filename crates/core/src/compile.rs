//! From a graph to a plan, pass by pass: choose [`layout`]s of weights, fuse, [`lower`] every node, colour slots.

pub mod layout;
pub mod lower;
mod slots;
