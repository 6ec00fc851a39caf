//! Whole rows between formats, with lengths checked.

use super::DType;
use thiserror::Error;

/// A row that cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The row is not a whole number of blocks.
    #[error("{elements} elements are not whole {dtype} blocks of {}: choose another format for this tensor", dtype.block())]
    Ragged {
        /// Format that the row should have.
        dtype: DType,
        /// Elements of the row.
        elements: usize,
    },
    /// The number of stored bytes does not match the number of elements.
    #[error(
        "{elements} elements of {dtype} take {need} bytes, but {bytes} were given: the row's shape or data is wrong"
    )]
    Bytes {
        /// Format of the row.
        dtype: DType,
        /// Elements of the row.
        elements: usize,
        /// Bytes that the row takes.
        need: usize,
        /// Bytes that were given.
        bytes: usize,
    },
    /// The stored bytes end inside a block.
    #[error("{bytes} bytes are not whole {dtype} blocks of {} bytes: the row is cut off", dtype.block_bytes())]
    Cut {
        /// Format of the row.
        dtype: DType,
        /// Bytes that were given.
        bytes: usize,
    },
}

/// `Ok` if `elements` elements of `dtype` take exactly `bytes` bytes.
fn check(dtype: DType, elements: usize, bytes: usize) -> Result<(), FormatError> {
    match dtype.row_bytes(elements) {
        None => Err(FormatError::Ragged { dtype, elements }),
        Some(need) if need != bytes => Err(FormatError::Bytes { dtype, elements, need, bytes }),
        Some(_) => Ok(()),
    }
}

/// Dequantizes the stored blocks of one or more rows: `out.len()` elements of `dtype`, which must be all of `stored`.
pub fn dequantize(dtype: DType, stored: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
    check(dtype, out.len(), stored.len())?;
    dtype.def().dequantize(stored, out);
    Ok(())
}

/// Quantizes one or more rows of `x` to `dtype`; `out` has exactly their stored size. Values must be finite, see
/// [`FormatDef::quantize`](super::FormatDef::quantize).
pub fn quantize(dtype: DType, x: &[f32], out: &mut [u8]) -> Result<(), FormatError> {
    check(dtype, x.len(), out.len())?;
    dtype.def().quantize(x, out);
    Ok(())
}

/// Elements that are converted at a time: a multiple of every format's block, small enough to stay in L1.
const CHUNK: usize = 1024;

/// Converts stored blocks of one or more rows from `src` to `dst`, through f32 and without a buffer for a whole row. If the
/// formats are equal the bytes are copied. `out` has exactly the size in `dst` of the elements in `stored`.
pub fn requantize(src: DType, stored: &[u8], dst: DType, out: &mut [u8]) -> Result<(), FormatError> {
    let cut = FormatError::Cut { dtype: src, bytes: stored.len() };
    if !stored.len().is_multiple_of(src.block_bytes()) {
        return Err(cut);
    }
    let elements = (stored.len() / src.block_bytes()).checked_mul(src.block()).ok_or(cut)?;
    check(dst, elements, out.len())?;
    if src == dst {
        out.copy_from_slice(stored);
        return Ok(());
    }
    let (from, to) = (src.def(), dst.def());
    let bytes_in = CHUNK / src.block() * src.block_bytes();
    let bytes_out = CHUNK / dst.block() * dst.block_bytes();
    let mut values = [0f32; CHUNK];
    for (stored, out) in stored.chunks(bytes_in).zip(out.chunks_mut(bytes_out)) {
        let values = &mut values[..stored.len() / src.block_bytes() * src.block()];
        from.dequantize(stored, values);
        to.quantize(values, out);
    }
    Ok(())
}
