//! Safe wrappers of the CUDA driver's functions that return errors as `Result`: contexts, memory, modules, streams, events,
//! graphs.

use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use cudarc::driver::sys as cu;
use onetrip_ir::target::CudaCaps;

use crate::libs::Lib;

/// Preferred shared-memory carveout, in percent of L1, of all kernels of a plan in which no kernel uses more than
/// [`SMALL_SHARED`] bytes of dynamic shared memory. By default the driver chooses a carveout for each kernel, and neighbours
/// with different carveouts seem to overlap less. With this one a tick on an H200 went from 409 to 383 µs
/// (Qwen2.5-0.5B Q4_0), 496 to 480 (F16), 1780 to 1714 (Qwen3.5-9B Q4_0). 25 and 35 % did the same, 100 % was slower. In plans
/// where some kernels need more shared memory it costs: 8 sequences of Llama-8B Q4_0 went from 2614 to 2657.
pub const CARVEOUT: u32 = 50;
/// Bytes of dynamic shared memory up to which [`CARVEOUT`] is asked for.
pub const SMALL_SHARED: u32 = 48 * 1024;

/// An error that the driver returned.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {name} ({text})")]
pub struct DriverError {
    /// The call that failed, in words.
    pub what: String,
    /// The driver's name of the error.
    pub name: String,
    /// The driver's explanation of the error.
    pub text: String,
    /// Whether later calls can still succeed.
    pub kind: Kind,
}

/// The consequence of a driver error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is not enough memory.
    Memory,
    /// A kernel failed on the GPU: every later call in the context gives this error.
    Fatal,
    /// Only this call failed; later calls may succeed.
    Other,
}

impl Kind {
    fn of(code: cu::CUresult) -> Kind {
        use cu::CUresult::*;
        match code {
            CUDA_ERROR_OUT_OF_MEMORY => Kind::Memory,
            CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_ECC_UNCORRECTABLE => Kind::Fatal,
            _ => Kind::Other,
        }
    }
}

/// Turns a result code of the driver into an error that names the call.
pub fn check(code: cu::CUresult, what: impl FnOnce() -> String) -> Result<(), DriverError> {
    if code == cu::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let (mut name, mut text) = (std::ptr::null(), std::ptr::null());
    let read = |p: *const std::ffi::c_char| match p.is_null() {
        true => format!("{code:?}"),
        // SAFETY: the driver hands out static strings that end with a zero, or null.
        false => unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned(),
    };
    // SAFETY: both pointers are to live variables.
    unsafe {
        cu::cuGetErrorName(code, &mut name);
        cu::cuGetErrorString(code, &mut text);
    }
    Err(DriverError { what: what(), name: read(name), text: read(text), kind: Kind::of(code) })
}

/// Properties of a GPU.
#[derive(Clone, Debug)]
pub struct Properties {
    /// The driver's ordinal.
    pub ordinal: usize,
    /// Name of the GPU, as the driver gives it.
    pub name: String,
    /// Compute capability: 90 for 9.0.
    pub sm: u32,
    /// Number of SMs.
    pub sms: u32,
    /// Bytes of shared memory that a block may ask for.
    pub shared: u32,
    /// Bytes of L2.
    pub l2: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// CUDA version of the driver: 13000 for 13.0.
    pub driver: i32,
}

impl Properties {
    /// The capabilities by which kernels are chosen.
    pub fn caps(&self) -> CudaCaps {
        CudaCaps { sm: self.sm, sms: self.sms, shared: self.shared, lt: false }
    }
}

/// Why no GPU can be used.
#[derive(Debug, thiserror::Error)]
pub enum NoGpu {
    /// The driver's library is missing.
    #[error(transparent)]
    Missing(#[from] crate::libs::Missing),
    /// A call of the driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The driver is too old; the number is its CUDA version, 12080 for 12.8.
    #[error("the driver is for CUDA {}.{}, at least 12.8 is needed: update NVIDIA's driver", .0 / 1000, .0 % 1000 / 10)]
    Old(i32),
    /// There is no GPU of this number; the second number is how many the machine has.
    #[error("there is no GPU {0}: this machine has {1}")]
    None(usize, i32),
}

/// The GPUs of this machine, in the order of the driver. `extra` are folders that are searched for the driver's library.
pub fn list(extra: &[PathBuf]) -> Result<Vec<Properties>, NoGpu> {
    Lib::Driver.open(extra)?;
    let (mut version, mut count) = (0, 0);
    // SAFETY: the library is open; pointers are to live integers.
    unsafe {
        check(cu::cuInit(0), || "starting the driver".into())?;
        check(cu::cuDriverGetVersion(&mut version), || "asking for the driver's version".into())?;
        check(cu::cuDeviceGetCount(&mut count), || "counting GPUs".into())?;
    }
    if version < 12080 {
        return Err(NoGpu::Old(version));
    }
    (0..count as usize).map(|ordinal| properties(ordinal, version).map_err(NoGpu::from)).collect()
}

fn properties(ordinal: usize, driver: i32) -> Result<Properties, DriverError> {
    use cu::CUdevice_attribute::*;
    let mut device = 0;
    let mut name = [0 as std::ffi::c_char; 256];
    let mut memory = 0usize;
    // SAFETY: pointers are to live variables of the sizes given.
    unsafe {
        check(cu::cuDeviceGet(&mut device, ordinal as i32), || format!("opening GPU {ordinal}"))?;
        check(cu::cuDeviceGetName(name.as_mut_ptr(), 256, device), || "asking for its name".into())?;
        check(cu::cuDeviceTotalMem_v2(&mut memory, device), || "asking for its memory".into())?;
    }
    let ask = |attribute| {
        let mut value = 0;
        // SAFETY: as above.
        check(unsafe { cu::cuDeviceGetAttribute(&mut value, attribute, device) }, || {
            format!("asking for {attribute:?}")
        })
        .map(|()| value as u32)
    };
    let major = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    Ok(Properties {
        ordinal,
        // SAFETY: the driver ends the name with a zero within its 256 bytes.
        name: unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
        sm: major * 10 + ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        sms: ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared: ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        l2: ask(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        memory: memory as u64,
        driver,
    })
}

/// A GPU's primary context. Everything that is made in it holds a reference: a recording may outlive its device, and its
/// graphs must be destroyed before the context is released.
struct Context {
    context: cu::CUcontext,
    device: cu::CUdevice,
}

// SAFETY: a context may be used from any thread that makes it current, which `enter` does.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Context {}

impl Context {
    fn enter(&self) -> Result<(), DriverError> {
        // SAFETY: the context lives as long as `self`.
        check(unsafe { cu::cuCtxSetCurrent(self.context) }, || "entering the context".into())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and whatever was made in it is gone.
        unsafe { cu::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A GPU's context, and the one stream in which all kernels and copies run.
pub struct Gpu {
    context: Arc<Context>,
    /// The one stream of all work.
    pub stream: cu::CUstream,
}

// SAFETY: streams may be used from any thread that makes the context current, which `enter` does.
unsafe impl Send for Gpu {}

impl Gpu {
    /// Retains the primary context of a GPU and makes a stream.
    pub fn open(ordinal: usize) -> Result<Gpu, DriverError> {
        let (mut device, mut context, mut stream) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: pointers are to live variables; the primary context is released when the last holder drops it.
        unsafe {
            check(cu::cuDeviceGet(&mut device, ordinal as i32), || format!("opening GPU {ordinal}"))?;
            check(cu::cuDevicePrimaryCtxRetain(&mut context, device), || format!("making a context on GPU {ordinal}"))?;
        }
        let context = Arc::new(Context { context, device });
        context.enter()?;
        // SAFETY: as above; the context is current.
        unsafe {
            let flag = cu::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check(cu::cuStreamCreate(&mut stream, flag), || "making a stream".into())?;
        }
        Ok(Gpu { context, stream })
    }

    /// Makes the context current on this thread.
    pub fn enter(&self) -> Result<(), DriverError> {
        self.context.enter()
    }

    /// Bytes of memory that are free.
    pub fn free_memory(&self) -> u64 {
        let (mut free, mut total) = (0, 0);
        // SAFETY: pointers are to live integers.
        unsafe { cu::cuMemGetInfo_v2(&mut free, &mut total) };
        free as u64
    }

    /// Waits until all work in the stream is done.
    pub fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the stream is alive.
        check(unsafe { cu::cuStreamSynchronize(self.stream) }, || "waiting for the GPU".into())
    }

    /// Allocates device memory, at least 256 bytes. The contents are undefined.
    pub fn memory(&self, bytes: u64) -> Result<Memory, DriverError> {
        let mut at = 0;
        // SAFETY: the pointer is to a live variable; the memory is given back once, in `drop`.
        check(unsafe { cu::cuMemAlloc_v2(&mut at, bytes.max(256) as usize) }, || format!("allocating {bytes} bytes"))?;
        Ok(Memory { at, bytes, context: self.context.clone() })
    }

    /// Fills memory with a byte, in stream order.
    pub fn fill(&self, at: u64, byte: u8, bytes: u64) -> Result<(), DriverError> {
        // SAFETY: callers name memory that they own.
        check(unsafe { cu::cuMemsetD8Async(at, byte, bytes as usize, self.stream) }, || "filling memory".into())
    }

    /// Copies within the device, in stream order.
    pub fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), DriverError> {
        // SAFETY: callers name memory that they own, as large as that.
        check(unsafe { cu::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, self.stream) }, || "copying a state".into())
    }

    /// Waits for the stream, then copies to the device.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DriverError> {
        self.wait()?;
        let from = bytes.as_ptr().cast();
        // SAFETY: the source is a live slice; callers name memory that they own and that is as large.
        check(unsafe { cu::cuMemcpyHtoD_v2(at, from, bytes.len()) }, || {
            format!("copying {} bytes to the GPU", bytes.len())
        })
    }

    /// Copies to the device in stream order; `from` must not change until the copy is done.
    pub fn write_later(&self, at: u64, from: &Pinned, bytes: usize) -> Result<(), DriverError> {
        debug_assert!(bytes <= from.bytes);
        // SAFETY: the pinned memory is as large and outlives the stream's work: its owner waits before it drops it.
        let code = unsafe { cu::cuMemcpyHtoDAsync_v2(at, from.at.cast(), bytes, self.stream) };
        check(code, || "copying the batch to the GPU".into())
    }

    /// Waits for the stream, then copies from the device.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.wait()?;
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: the target is a live slice; callers name memory that they own and that is as large.
        check(unsafe { cu::cuMemcpyDtoH_v2(to, at, bytes.len()) }, || {
            format!("copying {} bytes from the GPU", bytes.len())
        })
    }

    /// Copies from the device in stream order, to byte `start` of pinned memory.
    pub fn read_part(&self, from: u64, to: &Pinned, start: usize, bytes: usize) -> Result<(), DriverError> {
        debug_assert!(start + bytes <= to.bytes);
        // SAFETY: as in `write_later`; the part lies within the pinned memory.
        let code = unsafe { cu::cuMemcpyDtoHAsync_v2(to.at.add(start).cast(), from, bytes, self.stream) };
        check(code, || "copying outputs from the GPU".into())
    }

    /// Copies rows from the device in stream order. `rows` is the address of the first row, the stride in bytes, the bytes of a
    /// row and the number of rows. They go to byte `start` of pinned memory, `pitch` bytes apart.
    pub fn read_rows(
        &self,
        (from, step, bytes, rows): (u64, u64, u64, usize),
        to: &Pinned,
        start: usize,
        pitch: u64,
    ) -> Result<(), DriverError> {
        debug_assert!(start + pitch as usize * rows <= to.bytes);
        let copy = cu::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: cu::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: from,
            srcArray: std::ptr::null_mut(),
            srcPitch: step as usize,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: cu::CUmemorytype::CU_MEMORYTYPE_HOST,
            // SAFETY: the place lies within the pinned memory.
            dstHost: unsafe { to.at.add(start) }.cast(),
            dstDevice: 0,
            dstArray: std::ptr::null_mut(),
            dstPitch: pitch as usize,
            WidthInBytes: bytes as usize,
            Height: rows,
        };
        // SAFETY: as in `write_later`; callers name memory that they own.
        check(unsafe { cu::cuMemcpy2DAsync_v2(&copy, self.stream) }, || "copying outputs of several ticks".into())
    }

    /// Loads machine code or PTX, and gets the kernel `entry` with `shared` bytes of dynamic shared memory allowed.
    pub fn load(&self, code: &[u8], entry: &str, shared: u32) -> Result<Kernel, DriverError> {
        let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
        // PTX is text, which must end with a zero byte.
        let mut image = code.to_vec();
        image.push(0);
        let name = CString::new(entry).unwrap_or_default();
        // SAFETY: the image and the name outlive the calls; the module is unloaded with the context.
        unsafe {
            check(cu::cuModuleLoadData(&mut module, image.as_ptr().cast()), || format!("loading {entry}"))?;
            check(cu::cuModuleGetFunction(&mut function, module, name.as_ptr()), || format!("finding {entry}"))?;
            if shared > 0 {
                let attribute = cu::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let code = cu::cuFuncSetAttribute(function, attribute, shared as i32);
                check(code, || format!("asking for {shared} bytes of shared memory for {entry}"))?;
            }
        }
        Ok(Kernel(function))
    }

    /// Launches a kernel. With `dependent` (programmatic dependent launch) it may start before the kernel in front of it ends,
    /// and executes the dependency wait itself.
    pub fn launch(&self, kernel: Kernel, args: &[u64], shape: Shape, dependent: bool) -> Result<(), DriverError> {
        let mut values = args.to_vec();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|v| (v as *mut u64).cast()).collect();
        // SAFETY: an all-zero attribute is a valid one.
        let mut attributes: [cu::CUlaunchAttribute; 2] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        if dependent {
            attributes[count].id = cu::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes[count].value.programmaticStreamSerializationAllowed = 1;
            count += 1;
        }
        if let Some(percent) = shape.carveout {
            attributes[count].id = cu::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
            attributes[count].value.sharedMemCarveout = percent;
            count += 1;
        }
        let config = cu::CUlaunchConfig {
            gridDimX: shape.groups,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared,
            hStream: self.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        };
        // SAFETY: the kernel takes as many pointers as its text has operands, and the driver copies them now.
        let code = unsafe { cu::cuLaunchKernelEx(&config, kernel.0, pointers.as_mut_ptr(), std::ptr::null_mut()) };
        check(code, || format!("launching {} groups of {} threads", shape.groups, shape.threads))
    }

    /// Captures the work that `launches` submits into a graph, without running it. `launches` returns its number of dispatches.
    pub fn record(&self, launches: impl FnOnce() -> Result<u64, DriverError>) -> Result<Graph, DriverError> {
        let mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is alive; capture is always ended; the graph is destroyed after it was instantiated.
        unsafe {
            check(cu::cuStreamBeginCapture_v2(self.stream, mode), || "beginning a graph".into())?;
            let result = launches();
            let ended = check(cu::cuStreamEndCapture(self.stream, &mut graph), || "ending a graph".into());
            let launches = result?;
            ended?;
            let mut nodes = 0;
            check(cu::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut nodes), || "counting a graph".into())?;
            let made = check(cu::cuGraphInstantiateWithFlags(&mut executable, graph, 0), || "making a graph".into());
            cu::cuGraphDestroy(graph);
            made?;
            Ok(Graph { executable, nodes, launches, context: self.context.clone() })
        }
    }

    /// Launches a graph.
    pub fn replay(&self, graph: &Graph) -> Result<(), DriverError> {
        // SAFETY: graph and stream are alive.
        check(unsafe { cu::cuGraphLaunch(graph.executable, self.stream) }, || "launching a graph".into())
    }

    /// Makes an event; only a `timed` event can be used for elapsed times.
    pub fn event(&self, timed: bool) -> Result<Event, DriverError> {
        let mut event = std::ptr::null_mut();
        let flag = if timed { 0 } else { cu::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 };
        // SAFETY: the pointer is to a live variable.
        check(unsafe { cu::cuEventCreate(&mut event, flag) }, || "making an event".into())?;
        Ok(Event { event, context: self.context.clone() })
    }

    /// Records an event at the present end of the stream.
    pub fn mark(&self, event: &Event) -> Result<(), DriverError> {
        // SAFETY: event and stream are alive.
        check(unsafe { cu::cuEventRecord(event.event, self.stream) }, || "recording an event".into())
    }

    /// Pinned host memory.
    pub fn pinned(&self, bytes: usize) -> Result<Pinned, DriverError> {
        let mut at = std::ptr::null_mut();
        let bytes = bytes.max(4096);
        // SAFETY: the pointer is to a live variable; the memory is given back once.
        check(unsafe { cu::cuMemHostAlloc(&mut at, bytes, 0) }, || {
            format!("pinning {bytes} bytes of the host's memory")
        })?;
        Ok(Pinned { at: at.cast(), bytes, context: self.context.clone() })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let _ = self.enter();
        // SAFETY: it was made in `open`; nothing uses it afterwards.
        unsafe { cu::cuStreamDestroy_v2(self.stream) };
    }
}

/// Handle of a loaded kernel, valid as long as the context.
#[derive(Clone, Copy)]
pub struct Kernel(cu::CUfunction);

// SAFETY: a function handle is a name inside its context.
unsafe impl Send for Kernel {}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of thread blocks.
    pub groups: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Preferred shared-memory carveout in percent of L1; without one the driver chooses.
    pub carveout: Option<u32>,
}

/// An allocation of device memory, freed when dropped.
pub struct Memory {
    /// Device address.
    pub at: u64,
    /// Size in bytes.
    pub bytes: u64,
    context: Arc<Context>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: it was allocated once, and its owner waited for what uses it.
        unsafe { cu::cuMemFree_v2(self.at) };
    }
}

/// An allocation of pinned host memory, freed when dropped.
pub struct Pinned {
    at: *mut u8,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}

impl Pinned {
    /// The bytes, to read. The GPU must not write to them meanwhile.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this size; the owner waits for copies into it first.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }

    /// The bytes, to write. The GPU must not read or write them meanwhile.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and there is one owner.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: it was allocated once, and its owner waited for copies.
        unsafe { cu::cuMemFreeHost(self.at.cast()) };
    }
}

/// An event: a point in the stream.
pub struct Event {
    event: cu::CUevent,
    context: Arc<Context>,
}

// SAFETY: events may be used from any thread in their context.
unsafe impl Send for Event {}

impl Event {
    /// Waits until the stream has reached the event.
    pub fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the event is alive.
        check(unsafe { cu::cuEventSynchronize(self.event) }, || "waiting for the GPU".into())
    }

    /// Seconds from an earlier event to this one.
    pub fn since(&self, earlier: &Event) -> f64 {
        let mut ms = 0f32;
        // SAFETY: both events are alive and were reached.
        let code = unsafe { cu::cuEventElapsedTime_v2(&mut ms, earlier.event, self.event) };
        if code == cu::CUresult::CUDA_SUCCESS { f64::from(ms) / 1000.0 } else { f64::NAN }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: made once.
        unsafe { cu::cuEventDestroy_v2(self.event) };
    }
}

/// An executable graph.
pub struct Graph {
    executable: cu::CUgraphExec,
    /// Number of nodes; a library may launch several kernels for one dispatch.
    pub nodes: usize,
    /// Number of dispatches.
    pub launches: u64,
    context: Arc<Context>,
}

// SAFETY: a graph is launched by one owner at a time.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: made once; a running launch keeps what it needs.
        unsafe { cu::cuGraphExecDestroy(self.executable) };
    }
}
