//! Failures that the driver reports by callback: errors that no call returned, and the loss of the device.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use onetrip_ir::device::DeviceError;

/// Notes the errors of one device.
#[derive(Clone, Default)]
pub struct Failures {
    first: Arc<Mutex<Option<String>>>,
    /// The driver's message when the device was lost; no later call can succeed.
    lost: Arc<OnceLock<String>>,
}

impl Failures {
    /// Registers the callbacks of a device; errors are noted from now on.
    pub fn of(device: &wgpu::Device) -> Failures {
        let failures = Failures::default();
        let noted = failures.first.clone();
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
            noted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| e.to_string());
        }));
        let lost = failures.lost.clone();
        device.set_device_lost_callback(move |_, what| _ = lost.set(what));
        failures
    }

    /// Takes the first failure since the last call; `device` is the name for the error. A lost device is reported on every
    /// call.
    pub fn take(&self, device: &str) -> Option<DeviceError> {
        let device = device.to_string();
        match self.lost.get() {
            Some(what) => {
                let what = if what.is_empty() { String::new() } else { format!(" ({what})") };
                Some(DeviceError::Reset { device, why: format!("the device was lost{what}: its driver was reset") })
            }
            None => {
                let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
                first.map(|why| DeviceError::Failed { device, at: String::new(), why })
            }
        }
    }
}
