//! The rules in the order in which they are tried: what each finds, what it makes, and why.
//!
//! A rule is asked about one node of the graph and returns a rewrite, or nothing. It changes nothing itself and knows no
//! device; its rewrite is refused where the device has no kernel for the nodes it would make. The functions that match are in
//! the files below `rules/`, by theme.

use crate::fuse::rewrite::Rewrite;
use crate::graph::Graph;
use onetrip_ir::context::LoweringContext;

mod attention;
mod delta;
mod find;
mod layouts;
mod matmul;
mod moves;
mod norms;

/// A named rewrite.
pub struct Rule {
    /// Name in `--fuse` lists and ladders.
    pub name: &'static str,
    /// The pattern of nodes that it finds, in words.
    pub finds: &'static str,
    /// The nodes that it makes, in words.
    pub makes: &'static str,
    /// Why the made nodes are better.
    pub because: &'static str,
    /// Returns the rewrite at the node of this index, if the pattern matches there.
    pub find: fn(&Graph, &LoweringContext, usize) -> Option<Rewrite>,
}

/// The rule by which values are written in MMA fragment layout. Chains of a calibration and cases of an op are planned by it
/// alone.
pub const FRAGMENT_LAYOUT: &str = "fragment-layout";

/// All rules, in the order in which they are applied.
pub const RULES: &[Rule] = &[
    Rule {
        name: "empty-nodes",
        finds: "an op on values that have no rows",
        makes: "nothing",
        because: "a launch that moves no element is still a launch",
        find: moves::empty_nodes,
    },
    Rule {
        name: "norm-weight",
        finds: "a norm, multiplied by a weight row",
        makes: "a weighted norm",
        because: "the normed row is multiplied while it is in registers",
        find: norms::norm_weight,
    },
    Rule {
        name: "embedding-scale",
        finds: "an embedding, times a number",
        makes: "a scaled embedding",
        because: "the row is scaled while it is copied",
        find: moves::embedding_scale,
    },
    Rule {
        name: "slices-in-place",
        finds: "columns of a packed projection, copied for a norm, a rotation or a delta net",
        makes: "an op that reads its columns in the packed projection",
        because: "a stride costs nothing, a copy is a launch and two trips to memory",
        find: moves::slices_in_place,
    },
    Rule {
        name: "states-in-place",
        finds: "a recurrent state, read as rows for a window or a delta net, and written back",
        makes: "an op that reads and writes the state where it lies",
        because: "the largest thing a delta net moves is its state: three trips to memory become one each way",
        find: delta::states_in_place,
    },
    Rule {
        name: "conv-group",
        finds: "a window of old and new rows, its end kept, its convolution, SiLU, and the L2 norms of q and k",
        makes: "a convolution that keeps its own state and gives q, k and v",
        because: "every channel is read by one worker only, which has the old rows and the head's norm at hand",
        find: delta::conv_group,
    },
    Rule {
        name: "bias-epilogue",
        finds: "a matmul, plus a weight row",
        makes: "a matmul with a bias in its epilogue",
        because: "the product is in registers when it is done",
        find: matmul::bias_epilogue,
    },
    Rule {
        name: "gate-chain",
        finds: "a matmul, then an elementwise op on its result and weight rows alone, unless that gates a norm",
        makes: "a matmul with the op in its epilogue",
        because: "gates are a few numbers a row: each op on them would be a launch for next to nothing",
        find: matmul::gate_chain,
    },
    Rule {
        name: "gated-norm",
        finds: "a weighted norm, times the SiLU of another value",
        makes: "a norm with a gate",
        because: "the normed row is gated while it is in registers",
        find: norms::gated_norm,
    },
    Rule {
        name: "merged-projections",
        finds: "two matmuls of one input that a delta net needs",
        makes: "one matmul with the outputs of both",
        because: "x is read (and rounded) once, and there is one launch for qkv, the gate z and the small gates",
        find: matmul::merged_projections,
    },
    Rule {
        name: "gate-up",
        finds: "two matmuls of one input, joined by an elementwise op",
        makes: "one matmul whose epilogue gates one product by the other",
        because: "x is read once and neither product goes to memory",
        find: matmul::gate_up,
    },
    Rule {
        name: "norm-residual",
        finds: "a weighted norm, plus another value",
        makes: "a norm that adds the residual",
        because: "the sum is made while the row is in registers",
        find: norms::norm_residual,
    },
    Rule {
        name: "residual-norm",
        finds: "a sum of two values, then the weighted norm of it",
        makes: "a norm that makes the sum first and gives both",
        because: "the sum is in registers when it is normed",
        find: norms::residual_norm,
    },
    Rule {
        name: "merged-qkv",
        finds: "two matmuls of one input",
        makes: "one matmul with the outputs of both",
        because: "x is read (and rounded) once, and there is one launch for q, k and v",
        find: matmul::merged_qkv,
    },
    Rule {
        name: "norm-rope",
        finds: "a weighted norm of heads, then a rotation",
        makes: "a rotation that norms first",
        because: "a head fits in registers",
        find: attention::norm_rope,
    },
    Rule {
        name: "rope-cache-write",
        finds: "the rotation of k and the cache writes of k and v before one attention",
        makes: "one cache write",
        because: "rotated keys go to the cache and nowhere else",
        find: attention::rope_cache_write,
    },
    Rule {
        name: "attention-gate",
        finds: "attention, times the sigmoid of the gates copied out of a packed projection",
        makes: "attention that gates what it gives",
        because: "a head is gated by the worker that made it, and the gates are read where they lie",
        find: attention::attention_gate,
    },
    Rule {
        name: "one-index-gathers",
        finds: "two gathers of rows with one index",
        makes: "one gather of both",
        because: "the index is read once, and rows are few at the end",
        find: moves::one_index_gathers,
    },
    Rule {
        name: "mask-cast",
        finds: "attention with a mask, and what casts it",
        makes: "attention without a mask",
        because: "which positions a token sees follows from its own position",
        find: attention::mask_cast,
    },
    Rule {
        name: "output-gathers",
        finds: "a gather of the rows whose logits are wanted, where every sequence has one token",
        makes: "nothing",
        because: "with one token a sequence the rows of logits are the rows of the batch",
        find: moves::output_gathers,
    },
    Rule {
        name: "delta-conv",
        finds: "the convolution that gives q, k and v before a delta net",
        makes: "a delta net that makes its q, k and v of the packed projection",
        because: "a head's channels are read by one worker only, which has its part of both states at hand",
        find: delta::delta_conv,
    },
    Rule {
        name: "delta-norm",
        finds: "the gated norm of a delta net's heads",
        makes: "a delta net that norms and gates what it gives",
        because: "a head's output is in L1 when it is done",
        find: delta::delta_norm,
    },
    Rule {
        name: "attention-write",
        finds: "the cache write before attention",
        makes: "attention that writes the cache",
        because: "the newest key and value are at hand where they are first used",
        find: attention::attention_write,
    },
    Rule {
        name: "attention-rope",
        finds: "the rotation of q before attention",
        makes: "attention that rotates its queries, out of the packed projection if they stand in one with their gates",
        because: "a query is read by one worker only",
        find: attention::attention_rope,
    },
    Rule {
        name: "residual-epilogue",
        finds: "a matmul, then an elementwise op on its result, or a norm of a sum with it",
        makes: "a matmul with the op or the sum in its epilogue (the norm stays, to become a prologue)",
        because: "the residual is added to the product in registers",
        find: matmul::residual_epilogue,
    },
    Rule {
        name: "norm-prologue",
        finds: "a weighted norm that only one matmul reads",
        makes: "a matmul with the norm in its prologue",
        because: "one row is normed faster than a launch is submitted",
        find: matmul::norm_prologue,
    },
    Rule {
        name: "elementwise-chain",
        finds: "an elementwise op that only one other elementwise op reads",
        makes: "one op with both trees in one",
        because: "the value between them stays in registers",
        find: matmul::elementwise_chain,
    },
    Rule {
        name: FRAGMENT_LAYOUT,
        finds: "a value between a matmul, or attention with one token a sequence, and the one matmul that converts it to \
                16 bits for tensor cores",
        makes: "the same two ops, of which the first writes the value in 16 bits and in the MMA fragment layout of the second",
        because: "no dispatch converts the value, and it is written and read in half the bytes",
        find: layouts::fragment_layout,
    },
];
