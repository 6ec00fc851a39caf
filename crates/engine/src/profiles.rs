//! Profiles of devices: those that are part of the program, and those that `onetrip calibrate` stored.

use std::path::{Path, PathBuf};

pub use onetrip_cost::{Kind, Profile, ProfileError};
use onetrip_ir::device::HandOver;

use crate::switch;

/// Profiles in the program, dated; figures and their sources are in the files.
const SHIPPED: &[(&str, &str)] = &[
    ("epyc-zen4-2", include_str!("../../../profiles/epyc-zen4-2.toml")),
    ("h200", include_str!("../../../profiles/h200.toml")),
];

/// A profile is a few hundred lines: what is larger is none.
const MOST_BYTES: u64 = 4 << 20;

/// Why there is no profile to predict with.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The file or its content.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// There is none of this name.
    #[error("there is no profile `{0}`; there are: {1}; or give the path of a .toml file")]
    Unknown(String, String),
    /// None of this machine.
    #[error("no profile of this device: run `onetrip calibrate` once (with its --device){0}")]
    None(String),
}

fn error(profile: &str, what: impl std::fmt::Display) -> ProfileError {
    // One line: the parser draws the place on several.
    let what = what.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    ProfileError { profile: profile.into(), what }
}

/// Reads and checks the text of a profile; `file` is named in errors.
pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
    let profile: Profile = toml::from_str(text).map_err(|e| error(file, e))?;
    profile.check(file)?;
    Ok(profile)
}

/// The text of a profile.
pub fn to_text(profile: &Profile) -> Result<String, ProfileError> {
    toml::to_string(profile).map_err(|e| error(&profile.name, e))
}

fn read(path: &Path) -> Result<Profile, ProfileError> {
    let file = path.display().to_string();
    let size = std::fs::metadata(path).map_err(|e| error(&file, format!("cannot be read: {e}")))?.len();
    if size > MOST_BYTES {
        return Err(error(&file, format!("{size} bytes are no profile")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| error(&file, format!("cannot be read: {e}")))?;
    parse(&file, &text)
}

/// Files that were stored, newest name last.
fn stored() -> Vec<PathBuf> {
    let entries = switch::profiles_dir().and_then(|dir| std::fs::read_dir(dir).ok());
    let mut files: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    files.sort();
    files
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Names for `--hardware`.
pub fn names() -> Vec<String> {
    SHIPPED.iter().map(|(name, _)| name.to_string()).chain(stored().iter().map(|p| stem(p))).collect()
}

/// The profile of that name: a path, one in the program, or a stored one.
pub fn named(name: &str) -> Result<Profile, FindError> {
    if name.ends_with(".toml") {
        return Ok(read(Path::new(name))?);
    }
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Ok(parse(name, text)?);
    }
    // Without its date a name means the newest.
    let found = stored().into_iter().rev().find(|p| stem(p) == name || stem(p).starts_with(&format!("{name}-")));
    match found {
        Some(path) => Ok(read(&path)?),
        None => Err(FindError::Unknown(name.into(), names().join(", "))),
    }
}

/// The newest profile of a device of this machine: stored ones first, then those in the program. A profile counts where it
/// was measured on a device of the same kind and name with the same instruction set; others are named in the error.
pub fn of_machine(kind: Kind, device: &str, isa: &str) -> Result<Profile, FindError> {
    let is_own = |p: &Profile| p.kind == kind && p.device == device && p.caps.isa == isa;
    let mut others = vec![];
    for path in stored().into_iter().rev() {
        let profile = read(&path)?;
        if is_own(&profile) {
            return Ok(profile);
        }
        others.push(format!("{} is of {} ({})", stem(&path), profile.device, profile.caps.isa));
    }
    for (name, text) in SHIPPED {
        let profile = parse(name, text)?;
        if is_own(&profile) {
            return Ok(profile);
        }
    }
    let refused = if others.is_empty() {
        String::new()
    } else {
        format!(" ({}; --hardware NAME uses it all the same)", others.join("; "))
    };
    Err(FindError::None(refused))
}

/// Stored profiles of a device, newest first, with their files. Files that cannot be read are passed over: `explain` names
/// them.
pub fn of_device(device: &str) -> impl Iterator<Item = (PathBuf, Profile)> {
    let profiles = stored().into_iter().rev().filter_map(|path| Some((path.clone(), read(&path).ok()?)));
    profiles.filter(move |(_, profile)| profile.device == device)
}

/// How runs are handed over fastest on a device that `kind` (`gpu`, `cuda`) drives: as the newest stored profile has it that
/// says so.
pub fn commit_of(device: &str, kind: &str) -> Option<HandOver> {
    of_device(device).find_map(|(_, profile)| profile.commit.get(kind).copied())
}

/// Writes into the profile in `path` how runs are handed over fastest by devices of a kind.
pub fn write_commit(path: &Path, kind: &str, how: HandOver) -> Result<(), ProfileError> {
    let mut profile = read(path)?;
    profile.commit.insert(kind.into(), how);
    store(&profile, Some(&path.to_string_lossy())).map(drop)
}

/// Stores a profile in `file`, or under its device's name and date in the user's folder; gives the place.
pub fn store(profile: &Profile, file: Option<&str>) -> Result<PathBuf, ProfileError> {
    let text = to_text(profile)?;
    let path = match file {
        Some(file) => PathBuf::from(file),
        None => {
            let dir = switch::profiles_dir()
                .ok_or_else(|| error(&profile.name, "there is no home folder: give --write FILE"))?;
            std::fs::create_dir_all(&dir)
                .map_err(|e| error(&dir.display().to_string(), format!("cannot be made: {e}")))?;
            dir.join(format!("{}-{}.toml", profile.name, profile.date))
        }
    };
    std::fs::write(&path, text).map_err(|e| error(&path.display().to_string(), format!("cannot be written: {e}")))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_in_the_program_can_be_read_and_written_again() {
        for (name, text) in SHIPPED {
            let profile = parse(name, text).expect("a profile");
            assert_eq!(&profile.name, name);
            assert_eq!(parse(name, &to_text(&profile).expect("text")).expect("again"), profile);
        }
    }

    #[test]
    fn a_damaged_profile_is_refused_with_its_name_and_the_place() {
        let good = SHIPPED[1].1;
        for (bad, what) in [
            (good.replacen("kind = \"gpu\"", "kind = \"toaster\"", 1), "toaster"),
            (good.replacen("device =", "devise =", 1), "devise"),
            (good.replacen("x = [", "x = [1e9, ", 1), "curve"),
            ("= 3".to_string(), "line 1"),
        ] {
            let e = parse("a.toml", &bad).expect_err(what).to_string();
            assert!(e.contains("a.toml") && e.contains(what) && !e.contains('\n'), "{e}");
        }
    }

    #[test]
    fn a_way_of_handing_over_is_kept_in_the_profile_by_kind_of_device() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.toml");
        std::fs::write(&path, SHIPPED[1].1).expect("written");
        for (kind, how) in [("gpu", "every:8+thread"), ("cuda", "replay"), ("gpu", "tick")] {
            write_commit(&path, kind, how.parse().expect(how)).expect("kept");
        }
        let profile = read(&path).expect("a profile");
        let kept: Vec<String> = profile.commit.iter().map(|(kind, how)| format!("{kind} {how}")).collect();
        assert_eq!(kept, ["cuda replay", "gpu tick"]);
        assert_eq!(profile.curves, parse("h200", SHIPPED[1].1).expect("a profile").curves);
        let bad = std::fs::read_to_string(&path).expect("text").replace("\"tick\"", "\"tock\"");
        assert!(parse("a.toml", &bad).is_err_and(|e| e.to_string().contains("every:K")));
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_there_are() {
        let e = named("h2000").expect_err("no such profile").to_string();
        assert!(e.contains("h2000") && e.contains("h200,") | e.contains("h200;"), "{e}");
        assert!(named("no/such.toml").is_err_and(|e| e.to_string().contains("no/such.toml")));
        let e = of_machine(Kind::Cpu, "a machine that never was", "avx512").expect_err("none").to_string();
        assert!(e.contains("onetrip calibrate"), "{e}");
    }
}
