//! How runs are submitted to a device: the dispatches of one submission, and the thread that encodes them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Commit policy: how the dispatches of a run are grouped into submissions. No policy waits for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Commit {
    /// One submission for each dispatch.
    Each,
    /// One submission for every `k` dispatches.
    Every(usize),
    /// One submission for each run, encoded anew every time.
    Tick,
    /// One submission for each run, of a recording that the device keeps and replays (a CUDA graph).
    Replay,
}

impl Commit {
    /// The most dispatches of one submission, at least 1.
    pub fn size(self) -> usize {
        match self {
            Commit::Each => 1,
            Commit::Every(k) => k.max(1),
            Commit::Tick | Commit::Replay => usize::MAX,
        }
    }

    /// Number of submissions of a run with this many dispatches; a run without dispatches is one submission too.
    pub fn submissions(self, dispatches: usize) -> usize {
        dispatches.div_ceil(self.size()).max(1)
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Commit::Each => f.write_str("each"),
            Commit::Every(k) => write!(f, "every:{k}"),
            Commit::Tick => f.write_str("tick"),
            Commit::Replay => f.write_str("replay"),
        }
    }
}

impl FromStr for Commit {
    type Err = String;

    fn from_str(text: &str) -> Result<Commit, String> {
        match text {
            "each" => Ok(Commit::Each),
            "tick" => Ok(Commit::Tick),
            "replay" => Ok(Commit::Replay),
            _ => {
                let every = text.strip_prefix("every:").and_then(|k| k.parse().ok()).filter(|&k| k > 0);
                every.map(Commit::Every).ok_or_else(|| "give each, every:K (such as every:8), tick or replay".into())
            }
        }
    }
}

/// How runs are submitted. Written as the commit policy, followed by `+thread` if a second thread encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubmitMode {
    /// How dispatches are grouped into submissions.
    pub commit: Commit,
    /// A second thread encodes and submits, so that [`crate::device::Device::submit`] returns at once.
    pub encode_thread: bool,
    /// Each submission gets a time stamp at its beginning and its end, unless the recording has stamps of its own.
    pub timed: bool,
}

impl SubmitMode {
    /// Submission by this policy, encoded on the calling thread, without time stamps.
    pub fn by(commit: Commit) -> SubmitMode {
        SubmitMode { commit, encode_thread: false, timed: false }
    }
}

impl fmt::Display for SubmitMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.commit, if self.encode_thread { "+thread" } else { "" })
    }
}

impl FromStr for SubmitMode {
    type Err = String;

    fn from_str(text: &str) -> Result<SubmitMode, String> {
        let commit = text.strip_suffix("+thread");
        Ok(SubmitMode { commit: commit.unwrap_or(text).parse()?, encode_thread: commit.is_some(), timed: false })
    }
}

impl TryFrom<String> for SubmitMode {
    type Error = String;

    fn try_from(text: String) -> Result<SubmitMode, String> {
        text.parse()
    }
}

impl From<SubmitMode> for String {
    fn from(how: SubmitMode) -> String {
        how.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submit_mode_is_read_as_it_is_written() {
        for text in ["each", "every:8", "tick", "replay", "every:3+thread", "tick+thread"] {
            assert_eq!(text.parse::<SubmitMode>().expect(text).to_string(), text);
        }
        for text in ["", "every:0", "every:", "every:x", "+thread", "tick+threads", "Tick"] {
            assert!(text.parse::<SubmitMode>().is_err_and(|e| e.contains("every:K")), "{text:?}");
        }
    }

    #[test]
    fn submissions_are_the_dispatches_in_groups() {
        let of = |commit: Commit| [0, 1, 8, 9].map(|n| commit.submissions(n));
        assert_eq!(of(Commit::Each), [1, 1, 8, 9]);
        assert_eq!(of(Commit::Every(8)), [1, 1, 1, 2]);
        assert_eq!(of(Commit::Tick), [1, 1, 1, 1]);
        assert_eq!(of(Commit::Replay), [1, 1, 1, 1]);
    }
}
