//! cuBLASLt: matrix products by NVIDIA's library, where it is installed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Mutex;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys as lt;
use cudarc::driver::sys::CUstream;
use onetrip_ir::formats::DType;
use onetrip_ir::kernel::Gemm;

use crate::driver::{DriverError, Gpu, Kind, Memory};
use crate::libs::{Lib, Missing};

/// Bytes of workspace that an algorithm of the library may use.
const WORKSPACE: u64 = 32 << 20;
/// Number of shapes whose algorithm is kept.
const KEPT: usize = 4096;

/// Everything that the choice of an algorithm depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    is_bf16: bool,
    m: u64,
    n: usize,
    k: usize,
    bias: bool,
    residual: bool,
}

/// The library's descriptors of a shape, and the algorithm chosen for it.
struct Product {
    product: lt::cublasLtMatmulDesc_t,
    weight: lt::cublasLtMatrixLayout_t,
    x: lt::cublasLtMatrixLayout_t,
    out: lt::cublasLtMatrixLayout_t,
    algorithm: lt::cublasLtMatmulAlgo_t,
}

// SAFETY: descriptions are plain memory of the library, used under a lock.
unsafe impl Send for Product {}

impl Drop for Product {
    fn drop(&mut self) {
        // SAFETY: each was made once; launches copy what they need of them.
        unsafe {
            for layout in [self.weight, self.x, self.out] {
                let _ = (!layout.is_null()).then(|| result::destroy_matrix_layout(layout));
            }
            let _ = (!self.product.is_null()).then(|| result::destroy_matmul_desc(self.product));
        }
    }
}

/// A cuBLASLt handle for one GPU, with its workspace and the algorithms of the shapes that were used.
pub struct Lt {
    handle: lt::cublasLtHandle_t,
    workspace: Memory,
    known: Mutex<HashMap<Key, Product>>,
}

// SAFETY: the library locks for itself; a handle may be used from any thread in its context.
unsafe impl Send for Lt {}

/// The library's major and minor version, or the error that it is missing. `extra` are folders that are searched besides the
/// usual places.
pub fn version(extra: &[PathBuf]) -> Result<(usize, usize), Missing> {
    Lib::BlasLt.open(extra)?;
    // SAFETY: the library is open; the function has no preconditions.
    let n = unsafe { lt::cublasLtGetVersion() };
    Ok((n / 10000, n / 100 % 100))
}

impl Lt {
    /// Opens the library on a GPU whose context is current; none where it is not installed.
    pub fn open(gpu: &Gpu, extra: &[PathBuf]) -> Result<Option<Lt>, DriverError> {
        if Lib::BlasLt.open(extra).is_err() {
            return Ok(None);
        }
        let handle = result::create_handle().map_err(|e| refused(e, "starting it"))?;
        match gpu.memory(WORKSPACE) {
            Ok(workspace) => Ok(Some(Lt { handle, workspace, known: Mutex::default() })),
            Err(e) => {
                // SAFETY: it was made above and nothing else holds it.
                let _ = unsafe { result::destroy_handle(handle) };
                Err(e)
            }
        }
    }

    /// Submits a product of `m` rows. `args` are device addresses, in the order of operands of [`Gemm`].
    pub fn gemm(&self, gemm: &Gemm, m: u64, args: &[u64], stream: CUstream) -> Result<(), DriverError> {
        let Gemm { dtype, n, k, bias, residual, .. } = *gemm;
        let key = Key { is_bf16: dtype == DType::BF16, m, n, k, bias, residual };
        let what = || format!("a product of {m} x {k} and {n} x {k} numbers of {}", dtype.name());
        let wrong = |e| refused(e, &what());
        let added = 2 + bias as usize;
        let (Some(&out), Some(&c), 2..) = (args.last(), args.get(added), args.len()) else {
            return Err(wrong(CublasError(lt::cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE)));
        };
        // With beta = 0 the library does not read C, so it may be the output.
        let (c, beta) = if residual { (c, 1f32) } else { (out, 0f32) };
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        if known.len() >= KEPT {
            known.clear();
        }
        let p = match known.entry(key) {
            Entry::Occupied(p) => p.into_mut(),
            Entry::Vacant(place) => place.insert(self.choose(key, if bias { args[2] } else { 0 }).map_err(wrong)?),
        };
        let one = 1f32;
        let at = |address: u64| address as *mut c_void;
        // SAFETY: all descriptions are alive; the operands are as large as they say, as the plan promises; the workspace
        // belongs to the one stream that everything runs in.
        unsafe {
            if bias {
                set(p.product, lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &args[2])
                    .map_err(wrong)?;
            }
            result::matmul(
                self.handle,
                p.product,
                (&raw const one).cast(),
                (&raw const beta).cast(),
                at(args[1]),
                p.weight,
                at(args[0]),
                p.x,
                at(c),
                p.out,
                at(out),
                p.out,
                &p.algorithm,
                at(self.workspace.at),
                WORKSPACE as usize,
                stream.cast(),
            )
            .map_err(wrong)
        }
    }

    /// Describes a shape in the library's column-major order, out `[n, m]` = weight `[k, n]` transposed · x `[k, m]`, and lets
    /// the library's heuristic choose an algorithm.
    fn choose(&self, key: Key, bias: u64) -> Result<Product, CublasError> {
        use lt::cublasLtMatmulDescAttributes_t::*;
        let Key { m, n, k, .. } = key;
        let (n, k) = (n as u64, k as u64);
        let half = if key.is_bf16 { lt::cudaDataType_t::CUDA_R_16BF } else { lt::cudaDataType_t::CUDA_R_16F };
        let float = lt::cudaDataType_t::CUDA_R_32F;
        let null = std::ptr::null_mut();
        let algorithm = lt::cublasLtMatmulAlgo_t { data: [0; 8] };
        // If a later call fails, dropping `p` destroys the descriptors that were made before.
        let mut p = Product { product: std::ptr::null_mut(), weight: null, x: null, out: null, algorithm };
        p.product = result::create_matmul_desc(lt::cublasComputeType_t::CUBLAS_COMPUTE_32F, float)?;
        p.weight = result::create_matrix_layout(half, k, n, k as i64)?;
        p.x = result::create_matrix_layout(half, k, m, k as i64)?;
        p.out = result::create_matrix_layout(float, n, m, n as i64)?;
        let preference = result::create_matmul_pref()?;
        // SAFETY: attributes have the sizes of the values given; descriptions are alive.
        unsafe {
            let chosen = (|| {
                set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, &1i32)?;
                if key.bias {
                    let with_bias = lt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as u32;
                    set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias)?;
                    set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
                }
                let most = lt::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
                result::set_matmul_pref_attribute(preference, most, std::ptr::from_ref(&WORKSPACE).cast(), 8)?;
                let (handle, pref) = (self.handle, preference);
                result::get_matmul_algo_heuristic(handle, p.product, p.weight, p.x, p.out, p.out, pref)
            })();
            let _ = result::destroy_matmul_pref(preference);
            p.algorithm = chosen?.algo;
        }
        Ok(p)
    }
}

impl Drop for Lt {
    fn drop(&mut self) {
        self.known.get_mut().unwrap_or_else(|e| e.into_inner()).clear();
        // SAFETY: it was made in `open`; its owner waited for what uses it.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// Sets an attribute of a product.
///
/// # Safety
/// `product` is alive and the attribute is of type `T`.
unsafe fn set<T>(
    product: lt::cublasLtMatmulDesc_t,
    attribute: lt::cublasLtMatmulDescAttributes_t,
    value: &T,
) -> Result<(), CublasError> {
    // SAFETY: as the caller promises.
    unsafe { result::set_matmul_desc_attribute(product, attribute, std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn refused(e: CublasError, what: &str) -> DriverError {
    use lt::cublasStatus_t::*;
    let kind = match e.0 {
        CUBLAS_STATUS_ALLOC_FAILED => Kind::Memory,
        CUBLAS_STATUS_EXECUTION_FAILED => Kind::Fatal,
        _ => Kind::Other,
    };
    DriverError {
        what: format!("cuBLASLt: {what}"),
        name: format!("{:?}", e.0),
        text: "ONETRIP_CUDA_LAUNCH=own does without it".into(),
        kind,
    }
}
