//! The inference engine of onetrip: model files, tokenizers, chat templates, model definitions, states, scheduler, step.
//!
//! The engine never names a kernel. A model definition in [`models`] builds a graph with a [`graph_builder`]; [`model`] makes
//! plans from the graph; [`step`] runs the plans on the batches of [`scheduler`].

pub mod architecture;
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
pub mod sentence;
pub mod shape;
pub mod step;
pub mod switch;
mod timing;
pub mod tokenizer;
pub mod weights;
