//! The only loop that records the dispatches of a plan, with a probe before and after each.

use std::sync::Arc;

use crate::probe::Probe;
use onetrip_ir::device::{Device, DeviceError, Recording};
use onetrip_ir::plan::Plan;

/// Records a plan once. Every tick is then `submit(recording, batch)`.
pub fn record(plan: &Arc<Plan>, device: &mut dyn Device, probe: &mut dyn Probe) -> Result<Recording, DeviceError> {
    device.begin(plan);
    for (n, dispatch) in plan.dispatches.iter().enumerate() {
        probe.before(n, dispatch, device);
        device.encode(n)?;
        probe.after(n, dispatch, device);
    }
    Ok(device.finish())
}

/// Shows a device all dispatches of several plans at once, without running them. A device that compiles kernels then
/// compiles them in parallel on all processors, most of which would be idle if the plans came one after the other. A kernel
/// that does not compile is reported when its plan is recorded.
pub fn prepare(plans: impl IntoIterator<Item = Plan>, device: &mut dyn Device) {
    let mut plans = plans.into_iter();
    let Some(mut joint) = plans.next() else { return };
    joint.dispatches.extend(plans.flat_map(|plan| plan.dispatches));
    device.begin(&Arc::new(joint));
    device.finish();
}
