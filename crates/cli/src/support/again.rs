//! After a kernel failed on a GPU: the same command again, one launch at a time, to find the dispatch.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use crate::support::stderr::{note, stderr_is_terminal};

/// Runs the command that this process is in a process of its own, as the driver lets nothing in this one use the GPU any more;
/// the host waits behind every launch. Gives one sentence on what came of it.
pub fn one_by_one() -> String {
    if stderr_is_terminal() {
        note("a kernel failed on the GPU: running the same again, one launch at a time, to find the dispatch");
    }
    let again = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.args(arguments(std::env::args_os().skip(1))).env("ONETRIP_CUDA_LAUNCH", "serial,sync");
        command.stdin(Stdio::null()).stdout(Stdio::null()).output()
    });
    match again {
        Ok(done) => sentence(done.status.success(), &String::from_utf8_lossy(&done.stderr)),
        Err(e) => format!("it could not be run again to find the dispatch: {e}"),
    }
}

/// The arguments, but for what cannot be done one launch at a time.
fn arguments(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const FLAG: &str = "--ticks-per-launch";
    let mut is_value = false;
    let stays = |arg: &OsString| {
        let text = arg.to_string_lossy();
        let goes = is_value || text == FLAG || text.starts_with(&format!("{FLAG}="));
        is_value = text == FLAG;
        !goes
    };
    all.filter(stays).collect()
}

fn sentence(is_done: bool, stderr: &str) -> String {
    let said = stderr.lines().rev().find_map(|line| line.strip_prefix("onetrip: "));
    match (is_done, said) {
        (true, _) => {
            "run again one launch at a time, it did not fail: results may depend on time (please report this)".into()
        }
        (false, Some(said)) => format!("run again one launch at a time: {said}"),
        (false, None) => "run again one launch at a time, it ended without a word".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_second_run_said_is_part_of_the_first_ones_words() {
        let stderr = "note: x\nonetrip: cuda failed at dispatch 7 (blk.0.ffn_down): no\n";
        assert!(
            sentence(false, stderr).ends_with("one launch at a time: cuda failed at dispatch 7 (blk.0.ffn_down): no")
        );
        assert!(sentence(true, "").contains("did not fail"));
        assert!(sentence(false, "note: x").contains("without a word"));
    }

    #[test]
    fn several_ticks_a_submission_are_not_asked_for_again() {
        let of = |text: &str| {
            let left = arguments(text.split(' ').map(OsString::from));
            left.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("run x --ticks-per-launch 4 -n 8"), "run x -n 8");
        assert_eq!(of("run x --ticks-per-launch=4 -n 8"), "run x -n 8");
    }
}
