//! Probes: callbacks before and after every dispatch in the loop that records a plan.

use onetrip_ir::device::Device;
use onetrip_ir::plan::Dispatch;

/// Called around every dispatch while a plan is recorded.
pub trait Probe {
    /// Before dispatch `n`.
    fn before(&mut self, n: usize, dispatch: &Dispatch, device: &mut dyn Device);
    /// After dispatch `n`.
    fn after(&mut self, n: usize, dispatch: &Dispatch, device: &mut dyn Device);
}

/// A probe that does nothing.
pub struct Silent;

impl Probe for Silent {
    fn before(&mut self, _: usize, _: &Dispatch, _: &mut dyn Device) {}
    fn after(&mut self, _: usize, _: &Dispatch, _: &mut dyn Device) {}
}

/// Records a time stamp before and after every dispatch, so that the gaps between dispatches are measured too.
pub struct Stamps;

impl Probe for Stamps {
    fn before(&mut self, _: usize, _: &Dispatch, device: &mut dyn Device) {
        device.stamp();
    }

    fn after(&mut self, _: usize, _: &Dispatch, device: &mut dyn Device) {
        device.stamp();
    }
}

/// The time of each dispatch, and the sum of the gaps between dispatches, from the stamps of one run, in seconds.
pub fn dispatch_times(stamps: &[f64]) -> (Vec<f64>, f64) {
    let times = stamps.chunks_exact(2).map(|s| s[1] - s[0]).collect();
    let gaps = stamps.get(1..).unwrap_or(&[]).chunks_exact(2).map(|s| s[1] - s[0]).sum();
    (times, gaps)
}
