//! The one run loop: it records the dispatches of a plan, with a probe before and after each.

use std::sync::Arc;

use crate::device::{Device, DeviceError, Recording};
use crate::plan::Plan;
use crate::probe::Probe;

/// Records a plan. A tick is then `submit(recording, batch)`.
pub fn record(plan: &Arc<Plan>, device: &mut dyn Device, probe: &mut dyn Probe) -> Result<Recording, DeviceError> {
    device.begin(plan);
    for (n, dispatch) in plan.dispatches.iter().enumerate() {
        probe.before(n, dispatch, device);
        device.encode(n)?;
        probe.after(n, dispatch, device);
    }
    Ok(device.finish())
}
