//! The device's recording of a plan: its loaded kernels and its captured graphs.

use std::collections::HashMap;
use std::sync::Arc;

use onetrip_device_common::recording::Entry;
use onetrip_ir::kernel::Text;
use onetrip_ir::plan::Plan;

use crate::driver::{Graph, Kernel};

/// Number of shapes of batch whose graphs a recording keeps.
pub(crate) const GRAPHS: usize = 64;

/// Key: the shape of the batch. Value: the generation of memory in which the graph was captured, and the graph.
type Graphs = HashMap<Vec<u64>, Option<(u64, Graph)>>;

/// A recording of this device.
pub(crate) struct CudaRecording {
    pub plan: Arc<Plan>,
    pub entries: Vec<Entry>,
    /// Kernels of the plan's dispatches, by number.
    pub kernels: Vec<Option<(Kernel, Arc<Text>)>>,
    /// The shared-memory carveout of all kernels: see [`crate::driver::CARVEOUT`].
    pub carveout: Option<u32>,
    /// Graphs by the shape of the batch. After the first run of a shape the value is `None`: a graph is captured when the shape
    /// comes again.
    pub graphs: std::sync::Mutex<Graphs>,
}
