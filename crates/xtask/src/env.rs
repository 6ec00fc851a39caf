//! The environment variables that the project's tasks read. This is the only place in this crate where they are read, so
//! that the list below is complete.

use std::path::PathBuf;

/// The folder that holds fetched models unless `--dir` says otherwise: `$XDG_CACHE_HOME/onetrip/models`, else
/// `~/.cache/onetrip/models`. `None` where neither variable is set.
pub fn models_dir() -> Option<PathBuf> {
    models_dir_from(|name| std::env::var_os(name).map(PathBuf::from))
}

/// The `cargo` that runs this task (`$CARGO`), so that parts of [`crate::ci`] use the same toolchain.
pub fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

fn models_dir_from(var: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // A relative XDG_CACHE_HOME is invalid by the XDG rules and counts as not set.
    let cache = var("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| var("HOME").or_else(|| var("USERPROFILE")).map(|home| home.join(".cache")))?;
    Some(cache.join("onetrip").join("models"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_follows_xdg_then_home() {
        let base = std::env::temp_dir();
        let with = |set: &'static [&'static str]| {
            let base = base.clone();
            models_dir_from(move |name| set.contains(&name).then(|| base.join(name)))
        };
        assert_eq!(with(&["XDG_CACHE_HOME", "HOME"]), Some(base.join("XDG_CACHE_HOME/onetrip/models")));
        assert_eq!(with(&["HOME"]), Some(base.join("HOME/.cache/onetrip/models")));
        assert_eq!(with(&[]), None);
        let relative = |name: &str| Some(if name == "HOME" { base.join("h") } else { PathBuf::from("cache") });
        assert_eq!(models_dir_from(relative), Some(base.join("h/.cache/onetrip/models")));
    }
}
