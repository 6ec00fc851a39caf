//! The engine of onetrip: model files, tokenizers, chat templates, model definitions, states, scheduler, step.
//!
//! Engine never names a kernel. A page of [`arch`] writes a graph with the parts of [`page`]; [`model`] makes plans of
//! it; [`step`] runs them for the batches of [`scheduler`].

pub mod chat;
pub mod config;
pub mod files;
pub mod generate;
pub mod graph_builder;
mod load;
pub mod memory;
pub mod model;
pub mod models;
pub mod profiles;
pub mod renamed;
pub mod replay;
pub mod sampling;
pub mod scheduler;
pub mod shape;
pub mod step;
pub mod switch;
mod timing;
pub mod tokenizer;
pub mod weights;
