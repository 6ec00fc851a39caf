use onetrip_core::fuse::Fuse;
use onetrip_ir::plan::Plan;
use onetrip_ir::simd::Isa;
use onetrip_ir::target::{Compute, Target};

use super::*;

const HEAD: &str = "listing 1\nengine e\nmodel m\ndate 2026-04\nphase decode\nbatch tokens=1 sequences=1 context=16\n";

/// The sources that the nodes of test listings read; they begin on line 7.
const SOURCES: &str = "\
weight table q8_0[64,100]
weight row f32[64]
weight wide q8_0[64,128]
weight filter f32[4,64]
state cache_k f16[32,16]
state cache_v f16[32,16]
state r f32[192]
state s f32[1024]
input tokens i32[1]
input mask f32[16]
node x GET_ROWS table tokens f32[64]
view keys cache_k f16[16,16,2] strides=2,64,32
view values cache_v f16[16,16,2] strides=2,64,32
node seen FLASH_ATTN_EXT x keys values f32[16,4] scale=0.25
";
/// Number of the first line behind the sources.
const BODY: usize = 21;

fn text(body: &str) -> String {
    format!("{HEAD}{SOURCES}{body}node logits MUL_MAT table x f32[100]\n")
}

fn plan(listing: &Listing, fuse: Fuse, sample: bool) -> Plan {
    let options = ListingOptions { compute: Compute::Int8, target: Target::Cpu(Isa::Portable), device: "cpu".into() };
    listing.plan(&options, &fuse, false, sample).expect("a plan")
}

fn error(text: &str) -> (usize, String) {
    match Listing::read("a.txt", text.as_bytes()) {
        Err(e) => {
            let shown = e.to_string();
            assert!(shown.starts_with(&format!("listing a.txt, line {}: ", e.line)), "{shown}");
            assert!(!shown.contains('\n'), "{shown}");
            (e.line, e.what)
        }
        Ok(_) => panic!("no error in\n{text}"),
    }
}

#[test]
fn every_op_is_one_row_of_the_plan_without_rules() {
    let body = "\
node rms RMS_NORM x f32[64] eps=1e-6
node normed MUL rms row f32[64]
node joint MUL_MAT wide normed f32[128]
view q joint f32[16,4] strides=4,128
view gates joint f32[16,4] offset=64 strides=4,128
node q_rms RMS_NORM q f32[16,4] eps=1e-6
node gate CONT gates f32[64]
node q_rope ROPE q_rms tokens f32[16,4] dims=8 mode=neox base=1e4
view k joint f32[32]
node k_copy CONT k f32[32]
node k_write SET_ROWS k_copy tokens cache_k f16[32,16]
node v_write SET_ROWS k_copy tokens cache_v f16[32,16]
node mask16 CPY mask f16[16]
node a FLASH_ATTN_EXT q_rope keys values mask16 f32[16,4] scale=0.25
view a_row a f32[64]
node act UNARY gate f32[64] op=sigmoid
node gated MUL a_row act f32[64]
node glu GLU gated gate f32[64] op=swiglu
node none_r SCALE nothing f32[0] by=0
node last GET_ROWS r tokens f32[192]
view last_t last f32[3,64]
view new glu f32[1,64] strides=256,4
node window CONCAT last_t new f32[4,64] dim=0
view kept window f32[3,64] offset=4 strides=4,16
node keep CPY kept r f32[192]
node conv SSM_CONV window filter f32[64]
view dq conv f32[16]
view dk conv f32[16] offset=64
view dv conv f32[16,2] offset=128
node nq L2_NORM dq f32[16] eps=1e-6
node nk L2_NORM dk f32[16] eps=1e-6
node old GET_ROWS s tokens f32[1024]
node sum ADD conv glu f32[64]
node scaled SCALE sum f32[64] by=2
node rows GET_ROWS scaled tokens f32[64]
";
    // A delta net with one key head and two value heads of 16 elements has a state of 512 elements, which no line fits.
    let body = body.replace("node none_r", "view nothing r f32[0]\nnode none_r");
    let listing = Listing::read("a.txt", text(&body).as_bytes()).expect("a listing");
    let nodes = text(&body).lines().filter(|l| l.starts_with("node")).count();
    let plan = plan(&listing, Fuse::None, false);
    assert_eq!(plan.dispatches.len(), nodes);
    assert_eq!(listing.nodes_by_op.values().sum::<u64>(), nodes as u64);
    assert_eq!(listing.empty_by_op, BTreeMap::from([("SCALE".to_string(), 1)]));
    assert_eq!(plan.dispatches.last().map(|d| d.name.as_str()), Some("logits"));
}

#[test]
fn the_shipped_listing_is_1151_nodes_of_which_144_are_empty() {
    let listing = open("listing:qwen3.5-9b-ggml-2026-04").expect("the shipped listing");
    let want = [
        ("MUL_MAT", 249),
        ("MUL", 161),
        ("RMS_NORM", 105),
        ("UNARY", 104),
        ("GET_ROWS", 99),
        ("CPY", 97),
        ("ADD", 88),
        ("SCALE", 48),
        ("L2_NORM", 48),
        ("GLU", 32),
        ("CONCAT", 24),
        ("SSM_CONV", 24),
        ("GATED_DELTA_NET", 24),
        ("ROPE", 16),
        ("SET_ROWS", 16),
        ("FLASH_ATTN_EXT", 8),
        ("CONT", 8),
    ];
    let want: BTreeMap<String, u64> = want.map(|(op, n)| (op.to_string(), n)).into();
    assert_eq!(listing.nodes_by_op, want);
    assert_eq!(listing.empty_by_op, BTreeMap::from(["CPY", "GET_ROWS", "SCALE"].map(|op| (op.to_string(), 48))));
    let none = plan(&listing, Fuse::None, false);
    assert_eq!((none.dispatches.len(), none.ledger(listing.bind()).nodes_nonempty), (1151, 1007));
    assert_eq!(plan(&listing, Fuse::None, true).dispatches.len(), 1152);
    // The bytes that one token reads at Q4_0: every weight once, but only one row of the embedding table.
    let weights = none.dispatches.iter().flat_map(|d| &d.operands);
    let weights = weights.filter(|o| o.sig.as_ref().is_some_and(|s| s.is_weight() && s.rows.constant() > Some(1)));
    let bytes: u64 = weights.map(|o| o.bytes.eval(listing.bind())).sum::<u64>() - 4096 / 32 * 18 * 248_320;
    assert!((4.45e9..4.47e9).contains(&(bytes as f64)), "{bytes}");
}

#[test]
fn a_line_that_does_not_fit_is_an_error_with_its_number() {
    let cases = [
        ("node y SOFTMAX x f32[64]\n", BODY, "unknown op `SOFTMAX`; did you mean"),
        ("node y RMS_NROM x f32[64] eps=1\n", BODY, "did you mean `RMS_NORM`?"),
        ("node y UNARY z f32[64] op=silu\n", BODY, "input `z` is not named on any line above"),
        (
            "node y UNARY x f32[64] op=silu\nnode y UNARY x f32[64] op=silu\n",
            BODY + 1,
            "`y` is named on line 21 already",
        ),
        ("node y MUL_MAT wide x f32[127]\n", BODY, "shapes disagree: its inputs make 1 rows of 128"),
        ("node y MUL_MAT filter x f32[64]\n", BODY, "a weight with rows of 4 for activations of 64"),
        ("node y MUL_MAT x x f32[64]\n", BODY, "`x` is no weight"),
        ("node y ADD x f32[64]\n", BODY, "ADD takes 2 inputs, got 1"),
        ("node y ADD x x\n", BODY, "no shape"),
        ("node y RMS_NORM x f32[64]\n", BODY, "lacks its parameter `eps`"),
        ("node y RMS_NORM x f32[64] eps=a\n", BODY, "eps=a is no number"),
        ("node y RMS_NORM x f32[64] eps=1 eps=1\n", BODY, "given twice"),
        ("node y RMS_NORM x f32[64] epsilon=1\n", BODY, "no parameter `epsilon`"),
        ("node y UNARY x f32[64] op=relu\n", BODY, "op=relu is not known"),
        ("node y UNARY x f33[64] op=silu\n", BODY, "unknown type `f33`; did you mean `f32`?"),
        ("node y UNARY x f32[64,] op=silu\n", BODY, "is no shape"),
        ("node y UNARY x f32[1,1,1,1,64] op=silu\n", BODY, "is too large"),
        ("node y UNARY x f32[99999999999,99999999999] op=silu\n", BODY, "is too large"),
        ("node y ROPE x tokens f32[16,4] dims=5 mode=neox base=1e4\n", BODY, "even number up to 16"),
        ("node y ROPE x tokens f32[16,4] dims=8 mode=odd base=1e4\n", BODY, "`neox` or `normal`"),
        ("node y CONCAT r x f32[4,64] dim=1\n", BODY, "dim=0 only"),
        ("view v x f32[65]\n", BODY, "ends at byte 260 of x, which has 256"),
        ("view v x f32[32] offset=256\n", BODY, "ends at byte 384"),
        ("view v x f32[2,2] strides=4\n", BODY, "as many strides"),
        ("view v x f32[2,2] strides=4,18446744073709551615\n", BODY, "beyond x"),
        ("view v x f16[64]\n", BODY, "types disagree"),
        ("view v x f32[16]\nnode y UNARY v f32[16] op=silu\n", BODY + 1, "is a part of `x`"),
        ("view v x f32[16,2] strides=4,12\nnode y RMS_NORM v f32[16,2] eps=1\n", BODY + 1, "neither the whole"),
        ("node y UNARY tokens f32[1] op=silu\n", BODY, "`tokens` is of the batch"),
        ("node y SET_ROWS x tokens x f32[64]\n", BODY, "`x` is no state"),
        ("node y SET_ROWS x tokens cache_k f16[32,16]\n", BODY, "shapes disagree"),
        ("node y CPY x r f32[192]\n", BODY, "shapes disagree: f32[64] into f32[192]"),
        ("node y SCALE r f32[192] by=0\n", BODY, "a state is scaled in place"),
        ("node y FLASH_ATTN_EXT x x x f32[64] scale=1\n", BODY, "is no view of a cache"),
        ("node y GATED_DELTA_NET x x x x x x f32[64]\n", BODY, "shapes disagree"),
        ("nod y UNARY x f32[64] op=silu\n", BODY, "did you mean `node`?"),
        ("weight w f32[1,2,3]\n", BODY, "one or two dimensions"),
        ("weight w q4_0[33,2]\n", BODY, "no whole blocks of q4_0"),
        ("weight w i32[33]\n", BODY, "not of whole numbers"),
        ("state w f16[33]\n", BODY, "kept in f32"),
        ("weight a=b f32[33]\n", BODY, "is no name"),
        ("engine f\n", BODY, "a second line `engine`"),
        ("node logits MUL_MAT table x f32[100]\n", BODY + 1, "`logits` is named on line 21 already"),
    ];
    for (body, line, what) in cases {
        let (at, found) = error(&text(body));
        assert!(at == line && found.contains(what), "{body}: line {at}: {found}");
    }
}

#[test]
fn a_head_that_lacks_a_line_and_an_end_without_logits_are_errors() {
    let good = text("");
    for (bad, line, what) in [
        (good.replacen("listing 1", "listing 2", 1), 1, "the first line must be `listing 1`"),
        (String::new(), 1, "without a line `engine`"),
        (good.replacen("date 2026-04\n", "", 1), BODY - 1, "without a line `date`"),
        (good.replacen("phase decode", "phase lunch", 1), 5, "`decode` or `prefill`"),
        (good.replacen("tokens=1", "tokens=0", 1), 6, "batch tokens=N"),
        (good.replacen("tokens=1 sequences=1", "tokens=2 sequences=1", 1), BODY, "no decode step"),
        (good.replacen("context=16", "context=x", 1), 6, "batch tokens=N"),
        (format!("{HEAD}{SOURCES}"), BODY - 1, "a listing ends with the logits"),
        (HEAD.to_string(), 6, "without a line `node`"),
    ] {
        let (at, found) = error(&bad);
        assert!(at == line && found.contains(what), "line {at}: {found}");
    }
}

#[test]
fn what_is_no_text_or_too_long_is_an_error_with_a_line() {
    let mut bytes = text("").into_bytes();
    let at = text("").find("node x").expect("a node") + 5;
    bytes[at] = 0xff;
    let e = Listing::read("a.txt", &bytes).err().expect("an error");
    assert!(e.line == 17 && e.what.contains("not UTF-8"), "{e}");
    let long = vec![b'#'; parse::MOST_BYTES + 1];
    let e = Listing::read("a.txt", &long).err().expect("an error");
    assert!(e.what.contains("bytes: a listing has at most"), "{e}");
    let many: String = (0..20_001).map(|i| format!("input i{i} i32[1]\n")).collect();
    let (at, what) = error(&format!("{HEAD}{many}"));
    assert!(at == 20_007 && what.contains("more than 20000 values"), "line {at}: {what}");
    // The error for any line is one line of text without control characters.
    let (_, what) = error(&text("node \u{1b}[31m UNARY x f32[64] op=silu\n"));
    assert!(!what.chars().any(char::is_control), "{what}");
}

#[test]
fn any_cut_or_changed_byte_is_a_listing_or_an_error() {
    let good = text("node y RMS_NORM x f32[64] eps=1e-6\nview v y f32[16,4]\nnode z L2_NORM v f32[16,4] eps=1e-6\n");
    plan(&Listing::read("good", good.as_bytes()).expect("a listing"), Fuse::All, true);
    for at in 0..good.len() {
        let _ = Listing::read("cut", &good.as_bytes()[..at]);
        for byte in [b' ', b'0', b'9', b'[', b',', b'\n', 0xff] {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = byte;
            if let Ok(listing) = Listing::read("changed", &bytes) {
                plan(&listing, Fuse::All, true);
            }
        }
    }
}

#[test]
fn an_unknown_name_is_answered_with_those_there_are() {
    let e = open("listing:qwen").err().expect("no listing").to_string();
    assert!(e.contains("`qwen`") && e.contains("qwen3.5-9b-ggml-2026-04") && e.contains("listing:./"), "{e}");
    let e = open("listing:no/such.txt").err().expect("no file").to_string();
    assert!(e.contains("no/such.txt") && e.contains("check the path"), "{e}");
}
