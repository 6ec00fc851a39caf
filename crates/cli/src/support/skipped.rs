//! Stored profiles that cannot be read are skipped, with one line on stderr for each.

use std::sync::Mutex;

use onetrip_engine::profiles::ProfileError;

use crate::support::output::escaped;
use crate::support::stderr::note;

/// Says on stderr that a stored profile cannot be read, once of each.
pub fn note_skipped(error: &ProfileError) {
    static SAID: Mutex<Vec<String>> = Mutex::new(vec![]);
    let mut said = SAID.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !said.contains(&error.profile) {
        said.push(error.profile.clone());
        note(&format!("note: skipped {}", escaped(&error.to_string())));
    }
}
