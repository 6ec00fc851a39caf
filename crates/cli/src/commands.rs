//! The commands, one file each: flags, work, output.

pub mod bench;
pub mod calibrate;
pub mod chat;
pub mod count;
pub mod devices;
pub mod explain;
pub mod inspect;
pub mod ppl;
pub mod profile;
pub mod run;
pub mod selftest;
pub mod tokenize;
