//! What this device keeps of a plan: its kernels, and the graphs that were made of it.

use std::collections::HashMap;
use std::sync::Arc;

use onetrip_device_common::recording::Entry;
use onetrip_ir::kernel::Text;
use onetrip_ir::plan::Plan;

use crate::driver::{Graph, Kernel};

/// Recorded graphs that a recording keeps: one a shape of batch.
pub(crate) const GRAPHS: usize = 64;

/// By the shape of the batch: the generation of memory that a graph was made in, and the graph.
type Graphs = HashMap<Vec<u64>, Option<(u64, Graph)>>;

/// A recording of this device.
pub(crate) struct CudaRecording {
    pub plan: Arc<Plan>,
    pub entries: Vec<Entry>,
    /// Kernels of the plan's rows.
    pub kernels: Vec<Option<(Kernel, Arc<Text>)>>,
    /// What all of them ask for: see [`crate::driver::CARVEOUT`].
    pub carveout: Option<u32>,
    /// Graphs by the shape of the batch; none after its first run, which is not worth a graph yet.
    pub graphs: std::sync::Mutex<Graphs>,
}
