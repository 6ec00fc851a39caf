//! Profiles of devices: those built into the program, and those that `onetrip calibrate` has stored.
//!
//! Files of version 1 are read with the tables of old names ([`renamed`]); files are always written as version 2.

use std::path::{Path, PathBuf};

use onetrip_cost::profile::VERSION;
pub use onetrip_cost::{Kind, Profile, ProfileError};
use onetrip_ir::device::SubmitMode;
use serde::Deserialize;

use crate::renamed::{self, Renamed};
use crate::sentence::sentence;
use crate::switch;

/// Profiles built into the program, as name and text. Each file has its date, and the sources of its figures.
const SHIPPED: &[(&str, &str)] = &[
    ("epyc-zen4-2", include_str!("../../../profiles/epyc-zen4-2.toml")),
    ("h200", include_str!("../../../profiles/h200.toml")),
];

/// The largest file that is read as a profile. A profile has a few hundred lines, so a larger file is something else.
const MOST_BYTES: u64 = 4 << 20;

/// Why there is no profile to predict with.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The file cannot be read, or its content is no valid profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// There is no profile of the requested name; the second field lists the names that exist.
    #[error("there is no profile `{0}`; there are: {1}; or give the path of a .toml file")]
    Unknown(String, String),
    /// There is no profile of this device. The field lists stored profiles of others, each as `NAME is of DEVICE (ISA)`.
    #[error("no profile of this device{}", others(.0))]
    None(Vec<String>),
}

/// The list of profiles of other devices in brackets, for the error text; empty if there are none.
fn others(all: &[String]) -> String {
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

fn error(profile: &str, what: impl std::fmt::Display) -> ProfileError {
    ProfileError { profile: profile.into(), what: sentence(what.to_string().lines()) }
}

/// Tables of old names that may occur in a profile of version 1.
struct OldNames<'a> {
    curves: &'a [Renamed<'a>],
    devices: &'a [Renamed<'a>],
}

const OLD_NAMES: OldNames = OldNames { curves: renamed::CURVES, devices: renamed::DEVICES };

/// Parses and checks the text of a profile of any version up to the current one; errors name `file`.
pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
    parse_with(file, text, &OLD_NAMES)
}

fn parse_with(file: &str, text: &str, old: &OldNames) -> Result<Profile, ProfileError> {
    /// The version alone. It is read first, because a later version may have keys that this program does not know.
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

/// Replaces the names of version 1 in a profile by those of version 2. No figure changes.
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

/// The text of a profile file, in TOML.
pub fn to_text(profile: &Profile) -> Result<String, ProfileError> {
    toml::to_string(profile).map_err(|e| error(&profile.name, e))
}

fn read(path: &Path) -> Result<Profile, ProfileError> {
    let file = path.display().to_string();
    let found = std::fs::metadata(path).map_err(|e| error(&file, format!("cannot be read: {e}")))?;
    // Checked before the file is opened: opening a pipe would block until another process writes to it.
    if !found.is_file() {
        return Err(error(&file, "is a folder or a device, and no file"));
    }
    if found.len() > MOST_BYTES {
        return Err(error(&file, format!("{} bytes are no profile", found.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|e| error(&file, format!("cannot be read: {e}")))?;
    parse(&file, &text)
}

/// Paths of stored profiles, in the order of their names. Names end with a date, so the newest of a device comes last.
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

/// Names of all profiles, built in and stored, as [`named`] takes them.
pub fn names() -> Vec<String> {
    SHIPPED.iter().map(|(name, _)| name.to_string()).chain(stored().iter().map(|p| stem(p))).collect()
}

/// Stored profiles, in reverse order of their names. For a file that cannot be read, `skipped` is called, and the file is
/// left out.
fn readable<'a>(skipped: Skipped<'a>) -> impl Iterator<Item = (PathBuf, Profile)> + 'a {
    stored().into_iter().rev().filter_map(|path| match read(&path) {
        Ok(profile) => Some((path, profile)),
        Err(why) => {
            skipped(&why);
            None
        }
    })
}

/// Called with the error of each stored profile that cannot be read.
pub type Skipped<'a> = &'a mut dyn FnMut(&ProfileError);

/// The profile `name`: the path of a `.toml` file, or the name of a built-in or stored profile. The caller asked for this very
/// profile, so a file that cannot be read is an error and is not skipped.
pub fn named(name: &str) -> Result<Profile, FindError> {
    if name.ends_with(".toml") {
        return Ok(read(Path::new(name))?);
    }
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Ok(parse(name, text)?);
    }
    // A name without a date means the newest profile of that name.
    let found = stored().into_iter().rev().find(|p| stem(p) == name || stem(p).starts_with(&format!("{name}-")));
    match found {
        Some(path) => Ok(read(&path)?),
        None => Err(FindError::Unknown(name.into(), names().join(", "))),
    }
}

/// The newest profile of a device of this machine; stored profiles are tried before built-in ones. A profile is taken if it was
/// measured on a device of the same kind and name with the same instruction set; if none is, the error lists the other stored
/// profiles. `skipped` is called for stored profiles that cannot be read.
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

/// Stored profiles of a device with their paths, newest first. `skipped` is called for files that cannot be read.
pub fn of_device<'a>(device: &'a str, skipped: Skipped<'a>) -> impl Iterator<Item = (PathBuf, Profile)> + 'a {
    readable(skipped).filter(move |(_, profile)| profile.device == device)
}

/// The fastest submit mode of `device` when it is driven as `kind` (`wgpu`, `cuda`), from the newest stored profile that has
/// one. `skipped` is called for files that cannot be read.
pub fn commit_of(device: &str, kind: &str, skipped: Skipped) -> Option<SubmitMode> {
    let kind = renamed::new_name(renamed::DEVICES, kind);
    of_device(device, skipped).find_map(|(_, profile)| profile.commit.get(kind).copied())
}

/// Stores the fastest submit mode of a kind of device in the profile file at `path`.
pub fn write_commit(path: &Path, kind: &str, how: SubmitMode) -> Result<(), ProfileError> {
    let mut profile = read(path)?;
    profile.commit.insert(renamed::new_name(renamed::DEVICES, kind).into(), how);
    store(&profile, Some(&path.to_string_lossy())).map(drop)
}

/// Stores a profile in `file`, or else in the folder of profiles, under its name and date; returns the path.
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

    /// Name of each built-in profile, its text in version 1, and its current text.
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
        // The cost model requires the curve `launch`, which this table renames. The error shows that the table was applied.
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
