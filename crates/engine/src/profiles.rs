//! Profiles of devices: those that are part of the program, and those that `onetrip calibrate` stored.
//!
//! Files of version 1 are read through the tables of old names ([`renamed`]); what is written is of version 2.

use std::path::{Path, PathBuf};

use onetrip_cost::profile::VERSION;
pub use onetrip_cost::{Kind, Profile, ProfileError};
use onetrip_ir::device::SubmitMode;
use serde::Deserialize;

use crate::renamed::{self, Renamed};
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
    /// None of this machine; stored ones of other devices, each as `NAME is of DEVICE (ISA)`.
    #[error("no profile of this device{}", others(.0))]
    None(Vec<String>),
}

/// Profiles of other devices, in words.
fn others(all: &[String]) -> String {
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

fn error(profile: &str, what: impl std::fmt::Display) -> ProfileError {
    // One line: the parser draws the place on several.
    let what = what.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    ProfileError { profile: profile.into(), what }
}

/// Old names that a profile of version 1 may have.
struct OldNames<'a> {
    curves: &'a [Renamed<'a>],
    devices: &'a [Renamed<'a>],
}

const OLD_NAMES: OldNames = OldNames { curves: renamed::CURVES, devices: renamed::DEVICES };

/// Reads and checks the text of a profile of any version that there was; `file` is named in errors.
pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
    parse_with(file, text, &OLD_NAMES)
}

fn parse_with(file: &str, text: &str, old: &OldNames) -> Result<Profile, ProfileError> {
    /// The version alone: a later one may have keys that are not known here.
    #[derive(Deserialize)]
    struct Head {
        version: Option<u32>,
    }
    let head: Head = toml::from_str(text).map_err(|e| error(file, e))?;
    if let Some(version) = head.version.filter(|v| !(1..=VERSION).contains(v)) {
        return Err(error(file, format!("version {version} is not known: this program reads versions 1 to {VERSION}")));
    }
    let mut profile: Profile = toml::from_str(text).map_err(|e| error(file, e))?;
    if profile.version < VERSION {
        rename(&mut profile, old).map_err(|what| error(file, what))?;
        profile.version = VERSION;
    }
    profile.check(file)?;
    Ok(profile)
}

/// Gives everything in a profile of version 1 the name that it has in version 2. No figure changes.
fn rename(profile: &mut Profile, old: &OldNames) -> Result<(), String> {
    for curve in &mut profile.curves {
        curve.name = renamed::curve_name(old.curves, &curve.name);
    }
    for (kind, how) in std::mem::take(&mut profile.commit) {
        let name = renamed::new_name(old.devices, &kind);
        if profile.commit.insert(name.into(), how).is_some() {
            return Err(format!("`commit` has `{name}` twice, by its old name and by its new one"));
        }
    }
    Ok(())
}

/// The text of a profile.
pub fn to_text(profile: &Profile) -> Result<String, ProfileError> {
    toml::to_string(profile).map_err(|e| error(&profile.name, e))
}

fn read(path: &Path) -> Result<Profile, ProfileError> {
    let file = path.display().to_string();
    let found = std::fs::metadata(path).map_err(|e| error(&file, format!("cannot be read: {e}")))?;
    // Whoever opens a pipe waits until somebody writes into it.
    if !found.is_file() {
        return Err(error(&file, "is a folder or a device, and no file"));
    }
    if found.len() > MOST_BYTES {
        return Err(error(&file, format!("{} bytes are no profile", found.len())));
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

/// Names of profiles: what [`named`] takes.
pub fn names() -> Vec<String> {
    SHIPPED.iter().map(|(name, _)| name.to_string()).chain(stored().iter().map(|p| stem(p))).collect()
}

/// Stored profiles, newest name first. One that cannot be read is handed to `skipped` and passed over.
fn readable<'a>(skipped: Skipped<'a>) -> impl Iterator<Item = (PathBuf, Profile)> + 'a {
    stored().into_iter().rev().filter_map(|path| match read(&path) {
        Ok(profile) => Some((path, profile)),
        Err(why) => {
            skipped(&why);
            None
        }
    })
}

/// Told of each stored profile that cannot be read.
pub type Skipped<'a> = &'a mut dyn FnMut(&ProfileError);

/// The profile of that name: a path, one in the program, or a stored one. It was asked for, so that it is an error where it
/// cannot be read.
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
/// was measured on a device of the same kind and name with the same instruction set; others are named in the error. Stored
/// ones that cannot be read are handed to `skipped`.
pub fn of_machine(kind: Kind, device: &str, isa: &str, skipped: Skipped) -> Result<Profile, FindError> {
    let is_own = |p: &Profile| p.kind == kind && p.device == device && p.caps.isa == isa;
    let mut others = vec![];
    for (path, profile) in readable(skipped) {
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
    Err(FindError::None(others))
}

/// Stored profiles of a device, newest first, with their files. Files that cannot be read are handed to `skipped`.
pub fn of_device<'a>(device: &'a str, skipped: Skipped<'a>) -> impl Iterator<Item = (PathBuf, Profile)> + 'a {
    readable(skipped).filter(move |(_, profile)| profile.device == device)
}

/// How runs are submitted fastest on a device that `kind` (`wgpu`, `cuda`) drives: as the newest stored profile has it
/// that says so. Files that cannot be read are handed to `skipped`.
pub fn commit_of(device: &str, kind: &str, skipped: Skipped) -> Option<SubmitMode> {
    let kind = renamed::new_name(renamed::DEVICES, kind);
    of_device(device, skipped).find_map(|(_, profile)| profile.commit.get(kind).copied())
}

/// Writes into the profile in `path` how runs are submitted fastest by devices of a kind.
pub fn write_commit(path: &Path, kind: &str, how: SubmitMode) -> Result<(), ProfileError> {
    let mut profile = read(path)?;
    profile.commit.insert(renamed::new_name(renamed::DEVICES, kind).into(), how);
    store(&profile, Some(&path.to_string_lossy())).map(drop)
}

/// Stores a profile in `file`, or under its device's name and date in the user's folder; gives the place.
pub fn store(profile: &Profile, file: Option<&str>) -> Result<PathBuf, ProfileError> {
    let text = to_text(profile)?;
    let path = match file {
        Some(file) => PathBuf::from(file),
        None => {
            let dir = switch::profiles_dir()
                .ok_or_else(|| error(&profile.name, "there is no home folder to store it in: name a file"))?;
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
    fn a_submit_mode_is_kept_in_the_profile_by_kind_of_device() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.toml");
        std::fs::write(&path, SHIPPED[1].1).expect("written");
        for (kind, how) in [("wgpu", "every:8+thread"), ("cuda", "replay"), ("wgpu", "tick")] {
            write_commit(&path, kind, how.parse().expect(how)).expect("kept");
        }
        let profile = read(&path).expect("a profile");
        let kept: Vec<String> = profile.commit.iter().map(|(kind, how)| format!("{kind} {how}")).collect();
        assert_eq!(kept, ["cuda replay", "wgpu tick"]);
        assert_eq!(profile.curves, parse("h200", SHIPPED[1].1).expect("a profile").curves);
        let bad = std::fs::read_to_string(&path).expect("text").replace("\"tick\"", "\"tock\"");
        assert!(parse("a.toml", &bad).is_err_and(|e| e.to_string().contains("every:K")));
    }

    /// The profiles of the program as version 1 had them, and the files that are in it now.
    const CONVERTED: [(&str, &str, &str); 2] = [
        ("epyc-zen4-2", include_str!("../tests/profiles/epyc-zen4-2.v1.toml"), SHIPPED[0].1),
        ("h200", include_str!("../tests/profiles/h200.v1.toml"), SHIPPED[1].1),
    ];

    #[test]
    fn profiles_in_the_program_are_those_of_version_1_read_through_the_table() {
        assert_eq!(CONVERTED.len(), SHIPPED.len());
        for (name, before, now) in CONVERTED {
            assert!(!before.contains("version =") && now.starts_with("version = 2\n"), "{name}");
            let converted = parse(name, before).expect("a profile of version 1");
            assert_eq!(converted, parse(name, now).expect("a profile of version 2"), "{name}");
            let text = to_text(&converted).expect("text");
            if text != now {
                let file = std::env::temp_dir().join(format!("{name}.v2.toml"));
                std::fs::write(&file, text).expect("written");
                panic!("profiles/{name}.toml is not its version 1, converted: that is now in {}", file.display());
            }
        }
    }

    #[test]
    fn old_names_are_read_in_version_1_only_and_no_figure_changes() {
        let old =
            OldNames { curves: &[("launch", "start"), ("stream.*.hot", "stream.*.cached")], devices: renamed::DEVICES };
        let text = "name = \"n\"\ndevice = \"d\"\ndate = \"2026-01-01\"\nkind = \"cpu\"\nnote = \"\"\n[caps]\n\
            [commit]\ngpu = \"every:8\"\n[[curve]]\nname = \"launch\"\nx = [0.1]\ny = [0.30000000000000004]\n";
        // The cost model looks for `launch`, which this table takes away: so the error tells that it was read.
        for version in ["", "version = 1\n"] {
            let e = parse_with("a.toml", &format!("{version}{text}"), &old).expect_err("renamed").to_string();
            assert!(e.contains("no curve `launch`"), "{e}");
        }
        let read = "[[curve]]\nname = \"read\"\nx = [1.0]\ny = [1.0]\n";
        let later = parse_with("a.toml", &format!("version = 2\n{text}{read}"), &old).expect("as it is");
        assert!(later.commit.contains_key("gpu") && later.curves[0].name == "launch");
        let mut profile: Profile = toml::from_str(&format!("{text}{read}")).expect("a profile");
        assert_eq!(profile.version, 1);
        profile.curves[1].name = "stream.q4_0.hot".into();
        let before = profile.curves.clone();
        rename(&mut profile, &old).expect("renamed");
        let names: Vec<&str> = profile.curves.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["start", "stream.q4_0.cached"]);
        assert!(profile.curves.iter().zip(&before).all(|(a, b)| (&a.x, &a.y) == (&b.x, &b.y)));
        assert_eq!(profile.commit.keys().collect::<Vec<_>>(), ["wgpu"]);
        let both = text.replace("[commit]\n", "[commit]\nwgpu = \"tick\"\n");
        assert!(parse("a.toml", &format!("{both}{read}")).is_err_and(|e| e.to_string().contains("`wgpu` twice")));
    }

    #[test]
    fn a_version_that_is_not_known_is_refused_whatever_else_is_in_it() {
        for (text, what) in [
            ("version = 3\nshape = \"round\"", "version 3 is not known: this program reads versions 1 to 2"),
            ("version = 0", "version 0"),
            ("version = \"2\"", "version"),
            ("version = -1", "version"),
        ] {
            let e = parse("a.toml", text).expect_err(what).to_string();
            assert!(e.contains("a.toml") && e.contains(what) && !e.contains('\n'), "{e}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_there_are() {
        let e = named("h2000").expect_err("no such profile").to_string();
        assert!(e.contains("h2000") && e.contains("h200,") | e.contains("h200;"), "{e}");
        assert!(named("no/such.toml").is_err_and(|e| e.to_string().contains("no/such.toml")));
        let none = of_machine(Kind::Cpu, "a machine that never was", "avx512", &mut |_| {});
        let e = none.expect_err("none").to_string();
        assert!(e.contains("no profile of this device"), "{e}");
    }
}
