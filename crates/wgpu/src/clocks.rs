//! Time stamps of a run: query sets and the buffers through which their values are read.

use onetrip_ir::device::DeviceError;
use wgpu::BufferUsages;

use crate::memory::Memory;

/// Time stamps that one query set holds.
pub(crate) const MAX_STAMPS: u32 = wgpu::QUERY_SET_MAX_QUERIES;

/// The query set of one run in flight, and the buffers through which its values are read.
pub(crate) struct Clocks {
    pub set: wgpu::QuerySet,
    pub resolved: wgpu::Buffer,
    pub back: wgpu::Buffer,
    /// Number of stamps that the query set holds.
    pub count: u32,
}

impl Clocks {
    /// A query set for `count` stamps, at most [`MAX_STAMPS`].
    pub fn new(memory: &Memory, count: u32) -> Result<Clocks, DeviceError> {
        let bytes = 8 * u64::from(count);
        let ty = wgpu::QueryType::Timestamp;
        let set = memory.device.create_query_set(&wgpu::QuerySetDescriptor { label: None, ty, count });
        let made = |usage| memory.buffer("time stamps", bytes, usage);
        let resolved = made(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC)?;
        let back = made(BufferUsages::MAP_READ | BufferUsages::COPY_DST)?;
        Ok(Clocks { set, resolved, back, count })
    }

    /// Reads the first `count` stamps of a run that is done, as seconds (see [`times`]). The buffer must be mapped; this unmaps
    /// it.
    pub fn read(&self, count: u32, period_ns: f32) -> Result<Vec<f64>, String> {
        let ticks: Vec<u64> = match self.back.get_mapped_range(..8 * u64::from(count)) {
            Ok(view) => bytemuck::pod_collect_to_vec(&view),
            Err(e) => return Err(e.to_string()),
        };
        self.back.unmap();
        Ok(times(&ticks, f64::from(period_ns) * 1e-9))
    }
}

/// Seconds since the first stamp, for a clock of `period` seconds. Some drivers return zeros: if any stamp is zero,
/// the result is empty.
fn times(ticks: &[u64], period: f64) -> Vec<f64> {
    if ticks.contains(&0) {
        return vec![];
    }
    let first = ticks.first().copied().unwrap_or(0);
    ticks.iter().map(|&t| t.saturating_sub(first) as f64 * period).collect()
}

#[cfg(test)]
mod tests {
    use super::times;

    #[test]
    fn a_driver_that_returns_a_zero_stamp_offers_none() {
        assert_eq!(times(&[100, 300, 700], 0.5), [0.0, 100.0, 300.0]);
        assert!(times(&[0, 0, 0, 0], 1e-9).is_empty());
        assert!(times(&[100, 300, 0, 700], 1e-9).is_empty());
        assert!(times(&[], 1e-9).is_empty());
    }
}
