//! Small made-up trees.

use super::*;

/// The circles of a crate `core` out of these files below its `src/`.
fn of(files: &[(&str, &str)]) -> Crate {
    let files: Vec<(String, &str)> = files.iter().map(|(p, t)| (format!("crates/core/src/{p}"), *t)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
    find(&Tree::of(&files), false).unwrap().remove(0)
}

/// The members of its circles, without what all have in front.
fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let short = |member: &String| member.trim_start_matches("crates/core/src/").to_owned();
    of(files).cycles.iter().map(|cycle| cycle.members.iter().map(short).collect()).collect()
}

const LIB: (&str, &str) = ("lib.rs", "pub mod a; pub mod b;");

#[test]
fn two_files_that_use_each_other_are_a_circle() {
    let b = ("b.rs", "pub fn back() { crate::a::A; }");
    for a in [
        "use crate::b; pub struct A; fn f() { b::back() }",
        "use crate::b::back; pub struct A;",
        "pub struct A; fn f() -> Vec<u8> { vec![super::b::back()] }",
        "pub struct A; use super::b as other; fn f() { self::other::back() }",
        "pub struct A; fn f() { use crate::b::{back}; }",
        "pub struct A; use crate::b::*; fn f() { back() }",
        "pub struct A; macro_rules! m { () => { $crate::b::back() } }",
        "pub struct A; mod inside { use super::super::b::back; }",
    ] {
        assert_eq!(circles(&[LIB, ("a.rs", a), b]), [["a.rs", "b.rs"]], "{a}");
    }
}

#[test]
fn what_stands_in_one_direction_only_is_none() {
    let b = ("b.rs", "pub fn back() { crate::a::A; }");
    for a in [
        "pub struct A;",
        "pub struct A; #[cfg(test)] mod tests { use crate::b::back; }",
        "pub struct A; #[test] fn t() { crate::b::back() }",
        "pub struct A; #[cfg(all(unix, test))] use crate::b::back;",
        "pub struct A; impl A { #[cfg(test)] fn t() { crate::b::back() } }",
        "/// See [`crate::b::back`].\npub struct A; // crate::b::back()",
        "pub struct A; pub(in crate::b) fn f() { let b = 1; b; \"crate::b::back\"; x.b.back(); }",
        "pub struct A; fn f(b: other::b::back) {}",
    ] {
        assert!(circles(&[LIB, ("a.rs", a), b]).is_empty(), "{a}");
    }
    // The same without the mark of a test is one.
    assert_eq!(circles(&[LIB, ("a.rs", "pub struct A; mod tests { use crate::b::back; }"), b]).len(), 1);
    assert_eq!(circles(&[LIB, ("a.rs", "pub struct A; #[cfg(any(unix, test))] use crate::b::back;"), b]).len(), 1);
}

#[test]
fn files_that_only_tests_have_do_not_count() {
    let a = ("a.rs", "pub struct A; #[cfg(test)] mod tests;");
    let found = of(&[LIB, a, ("b.rs", ""), ("a/tests.rs", "use crate::b;")]);
    assert_eq!((found.files, found.cycles.len()), (3, 0));
}

#[test]
fn a_declaration_is_no_use_and_a_re_export_is() {
    let lib = ("lib.rs", "mod a;");
    let child = ("a/child.rs", "pub struct Made; fn f(x: super::Plan) {}");
    assert!(circles(&[lib, ("a.rs", "mod child; pub struct Plan;"), child]).is_empty());
    let expected = [["a.rs", "a/child.rs"]];
    assert_eq!(circles(&[lib, ("a.rs", "mod child; pub use child::Made; pub struct Plan;"), child]), expected);
    assert_eq!(circles(&[lib, ("a.rs", "mod child; pub struct Plan(child::Made);"), child]), expected);
}

#[test]
fn a_file_that_only_re_exports_joins_nobody() {
    for facade in ["mod x; mod y; pub use x::X; pub use y::Y;", "mod x; mod y; pub use x::*; pub use y::*;"] {
        let files = [("lib.rs", "pub mod a;"), ("a.rs", facade), ("a/x.rs", "pub struct X;")];
        for y in ["use super::X; pub struct Y;", "use crate::a::X; pub struct Y;", "use super::*; pub struct Y(X);"] {
            assert!(circles(&[files[0], files[1], files[2], ("a/y.rs", y)]).is_empty(), "{facade} {y}");
        }
        let both =
            [files[0], files[1], ("a/x.rs", "use super::Y; pub struct X;"), ("a/y.rs", "pub struct Y(super::X);")];
        assert_eq!(circles(&both), [["a/x.rs", "a/y.rs"]]);
    }
}

#[test]
fn names_come_through_imports_of_imports() {
    // `Graph` is defined in b, renamed in a, and used by c through a: b and c are a circle, a is not in it.
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub use crate::b::Graph as Net;"),
        ("b.rs", "pub struct Graph; fn f() { crate::c::g() }"),
        ("c.rs", "use crate::a::Net; pub fn g() { Net::new() }"),
    ];
    assert_eq!(circles(&files), [["b.rs", "c.rs"]]);
}

#[test]
fn a_module_and_a_function_may_have_one_name() {
    let files = [
        ("lib.rs", "mod plan; mod user;"),
        ("plan/mod.rs", "mod lower; pub use lower::lower; pub struct Plan;"),
        ("plan/lower.rs", "pub fn lower() {}"),
        ("user.rs", "fn f() { crate::plan::lower() }"),
    ];
    assert!(circles(&files).is_empty());
    let lower = ("plan/lower.rs", "pub fn lower() { crate::user::f() }");
    let user = ("user.rs", "pub fn f() { crate::plan::lower() }");
    assert_eq!(circles(&[files[0], files[1], lower, user]), [["plan/lower.rs", "user.rs"]]);
}

#[test]
fn what_a_macro_makes_is_where_it_is_called() {
    let ops = "macro_rules! ops { ($($N:ident = $p:path),*) => { pub enum Op { $($N($p)),* } } } ops! { A = a::A }";
    let files =
        [("lib.rs", "mod list; mod a;"), ("list.rs", ops), ("a.rs", "pub struct A; fn f(x: crate::list::Op) {}")];
    assert!(circles(&files).is_empty(), "a:: is no module of list");
    let ops = ops.replace("a::A", "crate::a::A");
    assert_eq!(circles(&[files[0], ("list.rs", &ops), files[2]]), [["a.rs", "list.rs"]]);
}

#[test]
fn a_macro_is_known_below_the_file_that_defines_it() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "macro_rules! twice { ($x:expr) => { $x + $x } } fn f() { crate::b::g() }"),
        ("b.rs", "pub fn g() { twice!(1); }"),
    ];
    assert_eq!(circles(&files), [["a.rs", "b.rs"]]);
}

#[test]
fn paths_of_modules_are_followed() {
    let files = [
        ("lib.rs", "#[path = \"elsewhere/x.rs\"] mod x; mod inline { #[path = \"z.rs\"] pub mod y; }"),
        ("elsewhere/x.rs", "pub fn f() { crate::inline::y::g() }"),
        ("inline/z.rs", "pub fn g() { crate::x::f() }"),
    ];
    assert_eq!(circles(&files), [["elsewhere/x.rs", "inline/z.rs"]]);
    let missing = find(&Tree::of(&[("crates/core/src/lib.rs", "mod gone;")]), false);
    assert!(format!("{:#}", missing.unwrap_err()).contains("src/gone.rs"));
    let broken = find(&Tree::of(&[("crates/core/src/lib.rs", "fn (")]), false);
    assert!(format!("{:#}", broken.unwrap_err()).contains("cannot be parsed"));
}

#[test]
fn a_folder_of_an_op_or_a_format_is_one_node() {
    let files = [
        ("lib.rs", "mod ops; mod formats;"),
        ("formats.rs", "pub mod q4; mod tile;"),
        ("formats/tile.rs", "pub struct Tile; fn f() { super::q4::g() }"),
        ("formats/q4/mod.rs", "mod cpu; pub fn g() { cpu::h() }"),
        ("formats/q4/cpu.rs", "pub fn h() { super::g() }"),
        ("ops.rs", "pub mod rope;"),
        ("ops/rope/mod.rs", "mod cpu; pub struct Rope; fn f() { cpu::run() }"),
        ("ops/rope/cpu.rs", "pub fn run(x: super::Rope) {}"),
    ];
    assert!(circles(&files).is_empty());
    let each: Vec<String> = {
        let files: Vec<(String, &str)> = files.iter().map(|(p, t)| (format!("crates/core/src/{p}"), *t)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        find(&Tree::of(&files), true).unwrap()[0].cycles.iter().flat_map(|c| c.members.clone()).collect()
    };
    assert_eq!(each.len(), 4, "{each:?}");
}

#[test]
fn the_allowed_circle_is_the_ops_and_their_list() {
    let list = ("ops.rs", "pub mod rope; pub trait OpDef {} pub fn all() { rope::Rope; }");
    let rope = ("ops/rope/mod.rs", "use super::OpDef; pub struct Rope; fn f(g: crate::graph::Graph) {}");
    let graph = ("graph.rs", "pub struct Graph(crate::ops::Op); fn f() { crate::reference::run() }");
    let reference = ("reference.rs", "pub fn run() { crate::ops::all() } pub struct Parts(crate::graph::Graph);");
    let good = [("lib.rs", "mod ops; mod graph; mod reference;"), list, rope, graph, reference];
    let one = of(&good);
    assert_eq!((one.cycles.len(), one.in_cycles(), one.is_cyclic()), (1, 4, false), "{}", text(&[one], true));
    assert!(findings(&[of(&good)], &[]).is_empty());
    // Another file in it is named, whatever its name begins with.
    let lib = ("lib.rs", "mod ops; mod graph; mod graphs; mod reference;");
    let graph = ("graph.rs", "pub struct Graph(crate::graphs::G);  fn f() { crate::reference::run() }");
    let graphs = ("graphs.rs", "pub struct G(crate::graph::Graph);");
    let bad = of(&[lib, list, rope, graph, graphs, reference]);
    assert_eq!(bad.cycles[0].others, ["crates/core/src/graphs.rs"]);
    let found = findings(std::slice::from_ref(&bad), &[]);
    assert!(found.len() == 1 && found[0].contains("graphs.rs"), "{found:?}");
    assert!(findings(&[bad], &["core"]).is_empty(), "it is on the list of those that have circles");
    // The list of those that may must not be longer than it has to be.
    let graph = ("graph.rs", "pub struct Graph;");
    let found = findings(&[of(&[good[0], list, rope, graph, reference])], &[]);
    assert!(found.len() == 2 && found[0].contains("graph stands in no circle"), "{found:?}");
    // The same names in another crate are not allowed.
    let other = find(
        &Tree::of(&[
            ("crates/ir/src/lib.rs", "mod ops; mod graph;"),
            ("crates/ir/src/ops.rs", "use crate::graph::G; pub struct O;"),
            ("crates/ir/src/graph.rs", "use crate::ops::O; pub struct G;"),
        ]),
        false,
    );
    assert!(other.unwrap()[0].is_cyclic());
}

#[test]
fn the_list_of_crates_with_circles_only_shrinks() {
    let good = of(&[LIB, ("a.rs", ""), ("b.rs", "")]);
    let no_core = Crate { name: "engine".into(), ..good };
    assert!(findings(std::slice::from_ref(&no_core), &[]).is_empty());
    assert!(findings(std::slice::from_ref(&no_core), &["engine"])[0].contains("no circle any more"));
    assert!(findings(&[no_core], &["gone"])[0].contains("no crate gone"));
}

#[test]
fn the_example_goes_once_round_and_says_where() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub struct A;\nuse crate::b::B;"),
        ("b.rs", "pub struct B;\n\nuse crate::c::C;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
    ];
    let one = of(&files);
    let way: Vec<(usize, &str)> = one.cycles[0].example.iter().map(|e| (e.line, e.path.as_str())).collect();
    assert_eq!(way, [(2, "crate::b::B"), (3, "crate::c::C"), (1, "crate::a::A")]);
    let (text, json) = (text(std::slice::from_ref(&one), false), json(&[one]));
    assert!(text.contains("a.rs:2 uses crates/core/src/b.rs (crate::b::B)"), "{text}");
    assert_eq!((&json["version"], &json["crates"][0]["in_cycles"]), (&json!(1), &json!(3)));
}
