//! Tiles with AVX2.

pub(super) use super::tile_portable::dot_tile;
