//! The traits of an architecture that decide how the keys are read that all architectures have.

/// How an architecture reads common keys.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Order of the rotary pairs of a head in GGUF files. Folders of Hugging Face always have [`Pairs::Halves`].
    pub pairs: Pairs,
    /// Base of the rotary frequencies where the file does not say it.
    pub rope_base: f32,
    /// Epsilon of the norms where `config.json` does not say it.
    pub eps: f32,
    /// The layers that have the sliding window of the file, unless the file lists them.
    pub windows: Windows,
    /// Key of the activation function in `config.json`, and its names for the one that the graph has.
    pub activation: (&'static str, &'static [&'static str]),
    /// Folders of Hugging Face store norm weights minus one.
    pub norm_minus_one: bool,
}

/// The elements of a head that a rotary embedding rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Elements `2i` and `2i + 1`.
    Neighbours,
    /// Elements `i` and `i + half` (NeoX style).
    Halves,
}

/// The layers to which a sliding window applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// All layers.
    All,
    /// None, unless `use_sliding_window` of `config.json` is true; then those from `max_window_layers` on. All layers of a
    /// GGUF file that has a window.
    OnRequest,
    /// All but the last of so many layers in turn.
    AllBut(usize),
}

impl Traits {
    /// What most architectures share.
    pub const PLAIN: Traits = Traits {
        pairs: Pairs::Halves,
        rope_base: 10_000.0,
        eps: 1e-6,
        windows: Windows::All,
        // `silu` and `swish` are names of the same function.
        activation: ("hidden_act", &["silu", "swish"]),
        norm_minus_one: false,
    };
}
