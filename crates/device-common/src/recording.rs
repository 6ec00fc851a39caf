//! Entries of a recording, and the checks that devices make before they run one.

use onetrip_ir::batch::StepBatch;
use onetrip_ir::device::{DeviceError, Recording, SubmitMode};
use onetrip_ir::plan::{Dispatch, Plan};

/// An entry of a recording, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A dispatch of the plan, by its number.
    Dispatch(usize),
    /// A time stamp.
    Stamp,
}

/// Number of dispatches among the entries.
pub fn dispatches(entries: &[Entry]) -> usize {
    entries.iter().filter(|e| matches!(e, Entry::Dispatch(_))).count()
}

/// Splits the entries into groups of `size` dispatches; stamps behind the last dispatch belong to the last group.
pub fn groups(entries: &[Entry], size: usize) -> Vec<&[Entry]> {
    let (mut all, mut start, mut since) = (vec![], 0, 0);
    for (at, entry) in entries.iter().enumerate() {
        if matches!(entry, Entry::Dispatch(_)) {
            if since == size {
                all.push(&entries[start..at]);
                (start, since) = (at, 0);
            }
            since += 1;
        }
    }
    all.push(&entries[start..]);
    all
}

/// Number of stamps of a run: the recording's `own`; if it has none and timing is on, two for each submission.
pub fn stamps(own: usize, dispatches: usize, how: SubmitMode) -> usize {
    if how.timed && own == 0 { 2 * how.commit.submissions(dispatches) } else { own }
}

/// Dispatch `n` of a plan, or an error if the device has no kernel for it.
pub fn with_kernel<'a>(plan: &'a Plan, n: usize, device: &str) -> Result<&'a Dispatch, DeviceError> {
    let d = &plan.dispatches[n];
    match d.gap {
        None => Ok(d),
        Some(why) => Err(DeviceError::Gap { n, name: d.name.clone(), device: device.into(), why }),
    }
}

/// Checks that the batch has the rotary tables that the plan's kernels read.
pub fn check_batch(plan: &Plan, batch: &StepBatch) -> Result<(), DeviceError> {
    let (have, want) = (batch.rope.len(), plan.ropes.len());
    match have == want {
        true => Ok(()),
        false => Err(DeviceError::Batch(format!("{have} rotary tables, the plan has {want}"))),
    }
}

/// The device's own type `T` inside a recording, or an error if another device recorded it.
pub fn kept<'a, T: 'static>(recording: &'a Recording, device: &str) -> Result<&'a T, DeviceError> {
    let found = recording.0.downcast_ref::<Option<T>>().and_then(Option::as_ref);
    found.ok_or_else(|| DeviceError::Batch(format!("the recording is not one of the {device} device")))
}

#[cfg(test)]
mod tests {
    use onetrip_ir::device::Commit;

    use super::*;

    #[test]
    fn groups_hold_so_many_dispatches_and_every_entry_once() {
        use Entry::{Dispatch, Stamp};
        let entries = [Stamp, Dispatch(0), Stamp, Stamp, Dispatch(1), Stamp, Dispatch(2)];
        let lens = |size| groups(&entries, size).iter().map(|g| g.len()).collect::<Vec<_>>();
        assert_eq!(lens(1), [4, 2, 1]);
        assert_eq!(lens(2), [6, 1]);
        assert_eq!(lens(usize::MAX), [7]);
        assert_eq!(groups(&[], 8), [&[] as &[Entry]]);
        assert_eq!(dispatches(&entries), 3);
        for (size, commit) in [(1, Commit::Each), (2, Commit::Every(2)), (usize::MAX, Commit::Tick)] {
            assert_eq!(groups(&entries, size).concat(), entries);
            assert_eq!(groups(&entries, size).len(), commit.submissions(3));
        }
    }

    #[test]
    fn submissions_are_stamped_only_where_the_recording_has_no_stamps_and_they_are_asked_for() {
        let untimed = SubmitMode::by(Commit::Every(2));
        let timed = SubmitMode { timed: true, ..untimed };
        assert_eq!([stamps(0, 3, untimed), stamps(6, 3, untimed)], [0, 6]);
        assert_eq!([stamps(0, 3, timed), stamps(6, 3, timed)], [4, 6]);
    }

    #[test]
    fn what_another_device_recorded_is_refused() {
        let recording = Recording(Box::new(Some(7u32)));
        assert_eq!(kept::<u32>(&recording, "one").ok(), Some(&7));
        let refused = kept::<u64>(&recording, "other").expect_err("recorded by another").to_string();
        assert!(refused.contains("the other device"), "{refused}");
        assert!(kept::<u32>(&Recording(Box::new(None::<u32>)), "one").is_err(), "nothing was begun");
    }
}
