//! The table of switches that are read from the environment, and the only functions that read environment variables.

/// A switch: an environment variable that changes how the program works.
pub struct Switch {
    /// Name of the environment variable.
    pub name: &'static str,
    /// The values that the variable may have, in words.
    pub values: &'static str,
    /// The effect of the switch, in one sentence.
    pub what: &'static str,
}

/// All switches, in the order of their names.
pub const SWITCHES: &[Switch] = &[
    Switch {
        name: "ONETRIP_CACHE",
        values: "a folder",
        what: "Where compiled kernels are kept, instead of the user's cache folder.",
    },
    Switch {
        name: "ONETRIP_CAPTURE",
        values: "a number N",
        what: "Has a graphics debugger capture the Nth step on the device wgpu: Xcode on Metal, RenderDoc elsewhere.",
    },
    Switch {
        name: "ONETRIP_CUDA_DELAYS",
        values: "a number, the seed",
        what: "For tests: CUDA kernels in which every warp waits a random short while, to find what is not waited for.",
    },
    Switch {
        name: "ONETRIP_CUDA_LAUNCH",
        values: "words of: serial, sync, own",
        what: "Has each CUDA kernel wait for the end of the one before it (`serial`) instead of launching it dependent, or the \
               host behind every one (`sync`); does without cuBLASLt (`own`).",
    },
    Switch {
        name: "ONETRIP_CUDA_LIBS",
        values: "folders, separated as in PATH",
        what: "Where CUDA's libraries are looked for besides the usual places.",
    },
    Switch {
        name: "ONETRIP_ISA",
        values: "portable, avx2, avx512",
        what: "Runs CPU kernels with this instruction set instead of the best one the processor has.",
    },
    Switch {
        name: "ONETRIP_MODELS",
        values: "a folder",
        what: "Where tests look for fetched models, instead of the user's cache folder.",
    },
    Switch {
        name: "ONETRIP_PROFILES",
        values: "a folder",
        what: "Where profiles of devices are kept, instead of the user's cache folder.",
    },
];

/// The value of a switch of the table, if it is set and not empty.
pub fn get(name: &str) -> Option<String> {
    debug_assert!(SWITCHES.iter().any(|s| s.name == name), "{name} is not in the table of switches");
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// The folder of fetched models: the value of the switch, or `onetrip/models` in the user's cache folder.
pub fn models_dir() -> Option<std::path::PathBuf> {
    folder("ONETRIP_MODELS", "models")
}

/// Folders in which CUDA's libraries are looked for, in addition to the usual ones.
pub fn cuda_libraries() -> Vec<std::path::PathBuf> {
    get("ONETRIP_CUDA_LIBS").map_or(vec![], |list| std::env::split_paths(&list).collect())
}

/// The folder of device profiles: the value of the switch, or `onetrip/profiles` in the user's cache folder.
pub fn profiles_dir() -> Option<std::path::PathBuf> {
    folder("ONETRIP_PROFILES", "profiles")
}

/// The folder of compiled kernels: the value of the switch, or `onetrip/kernels` in the user's cache folder.
pub fn cache_dir() -> Option<std::path::PathBuf> {
    folder("ONETRIP_CACHE", "kernels")
}

/// The file with the lines that were typed in `chat`, in the folder of the switch `ONETRIP_CACHE`, or in `onetrip` in the user's
/// cache folder.
pub fn history_file() -> Option<std::path::PathBuf> {
    folder("ONETRIP_CACHE", "").map(|folder| folder.join("chat-history"))
}

fn folder(switch: &str, name: &str) -> Option<std::path::PathBuf> {
    // `var_os` and not `var`: paths need not be valid Unicode.
    let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(std::path::PathBuf::from);
    debug_assert!(SWITCHES.iter().any(|s| s.name == switch), "{switch} is not in the table of switches");
    if let Some(dir) = path(switch) {
        return Some(dir);
    }
    let cache = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
    cache.map(|c| c.join("onetrip").join(name))
}
