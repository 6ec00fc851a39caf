//! Lists and sources made up.

use super::*;

const LIST: &str = "1. `crates/cli/src/run.rs` · `main`: the command\n\
                    2. `crates/engine/src/step.rs` · `Engine::step`: a step\n\
                    3. `crates/engine/src/batch.rs` · `next` (as `batch::next`): who is in it\n\
                    4. `crates/core/src/plan.rs` · `lower` (from 2): the plan\n\
                    5. `crates/core/src/row.cu` · `row_kernel`: the kernel\n\
                    6. `crates/core/src/device.rs` · `Device::submit` (from 2, as `device.submit`): it runs\n";

const RUN: &str = "fn main() { load(); work(1) } fn work(n: u8) { let mut e = engine(); e.step()? }";
const STEP: &str = "impl Engine { fn step(&mut self) { let b = batch::next(self); self.plan(b); vec![self.device.submit(p)]; } \
                    fn plan(&self, b: u8) { plan::lower::<u8>(b) } }";
const PLAN: &str = "pub fn lower<T>() { kernel() } fn kernel() { unit(include_str!(\"row.cu\")) }";

/// A checkout with this list and these changes of its sources.
fn found(list: &str, changed: &[(&str, &str)]) -> Vec<String> {
    let drawn = steps(&page(list, "")).map_or_else(|_| String::new(), |steps| drawing(&steps));
    let page = page(list, &drawn);
    let mut files = vec![
        ("crates/cli/src/run.rs", RUN),
        ("crates/engine/src/step.rs", STEP),
        ("crates/engine/src/batch.rs", "pub fn next() {}"),
        ("crates/core/src/plan.rs", PLAN),
        ("crates/core/src/row.cu", "void row_kernel() {}"),
        ("crates/core/src/device.rs", "pub trait Device { fn submit(&mut self); }"),
        (PAGE, page.as_str()),
    ];
    for (path, text) in changed {
        files.iter_mut().filter(|(p, _)| p == path).for_each(|file| file.1 = text);
    }
    findings(&Tree::of(&files)).unwrap()
}

fn page(list: &str, drawn: &str) -> String {
    format!("# A\n\n{HEADING}\n\nWords.\n\n```text\n{drawn}```\n\n{list}\n## Next\n\n1. `x` · `y`\n")
}

#[test]
fn a_list_in_the_order_of_the_calls_is_right() {
    assert!(found(LIST, &[]).is_empty(), "{:?}", found(LIST, &[]));
}

#[test]
fn a_step_that_does_not_call_the_next_is_found() {
    for (path, text, whom) in [
        ("crates/cli/src/run.rs", "fn main() { work() } fn work() { e.stop() }", "`step`"),
        ("crates/cli/src/run.rs", "fn main() {} fn work() { e.step() }", "`step`"),
        ("crates/cli/src/run.rs", "fn main() { let step = 1; \"e.step()\"; /* e.step() */ }", "`step`"),
        ("crates/engine/src/step.rs", &STEP.replace("batch::next", "other::next"), "`batch::next`"),
        ("crates/engine/src/step.rs", &STEP.replace("self.device.submit", "self.service.submit"), "`device.submit`"),
        ("crates/engine/src/step.rs", &STEP.replace("self.plan(b);", ""), "`lower`"),
        ("crates/core/src/plan.rs", &PLAN.replace("row.cu", "old/row.cu"), "`row_kernel`"),
    ] {
        let found = found(LIST, &[(path, text)]);
        assert!(found.len() == 1 && found[0].contains("does not call") && found[0].contains(whom), "{text}: {found:?}");
    }
}

#[test]
fn calls_come_in_the_order_of_the_list() {
    let step = "impl Engine { fn step(&mut self) { lower(); let b = batch::next(self); device.submit() } }";
    let found = found(LIST, &[("crates/engine/src/step.rs", step)]);
    assert!(found.len() == 1 && found[0].contains("step 4") && found[0].contains("after"), "{found:?}");
}

#[test]
fn a_function_or_a_file_that_is_not_there_is_found() {
    for (path, text) in [
        ("crates/engine/src/step.rs", STEP.replace("impl Engine", "impl Motor")),
        ("crates/engine/src/batch.rs", "pub fn following() {}".into()),
        ("crates/engine/src/batch.rs", "#[cfg(test)] mod t { pub fn next() {} }".into()),
        ("crates/core/src/row.cu", "void a_row_kernel() {}".into()),
        ("crates/core/src/device.rs", "pub fn submit() {}".into()),
    ] {
        let found = found(LIST, &[(path, &text)]);
        assert!(found.iter().any(|f| f.contains("has no") && f.contains(path)), "{text}: {found:?}");
    }
    let found = found(&LIST.replace("plan.rs", "plans.rs"), &[]);
    assert!(found.iter().any(|f| f.contains("no file crates/core/src/plans.rs")), "{found:?}");
}

#[test]
fn nobody_turns_back() {
    let again = format!("{LIST}7. `crates/cli/src/run.rs` · `work` (from 6): again\n");
    assert!(found(&again, &[])[0].contains("turns back to crates/cli/src/run.rs"), "{:?}", found(&again, &[]));
    // Two steps of one file, one after the other, are no turn; a caller that has returned is one.
    let list = "1. `a.rs` · `a`: x\n2. `a.rs` · `b`: x\n3. `c.rs` · `c` (from 1): x\n4. `d.rs` · `d` (from 2): x\n";
    let found = turns(&steps(&page(list, "")).unwrap());
    assert!(found.len() == 1 && found[0].contains("step 4: turns back to step 2"), "{found:?}");
}

#[test]
fn a_list_that_cannot_be_read_is_an_error() {
    for list in [
        "",
        "1. one step: x\n",
        "1. `a` · `b`: x\n3. `c` · `d`: x\n",
        "1. `a` · `b`\n2. `c` · `d` (from 2)\n",
        "1. `a` · `b`\n2. `c` · `d` (from here)\n",
        "1. `a` · `b`\n2. `c` · `d` (by 1)\n",
        "1. `a` - `b`\n2. `c` - `d`\n",
    ] {
        assert!(steps(&page(list, "")).is_err(), "{list}");
    }
    assert!(steps("# A\n\n1. `a` · `b`\n2. `c` · `d`\n").is_err());
}

#[test]
fn the_drawing_is_made_of_the_list() {
    let drawn = drawing(&steps(&page(LIST, "")).unwrap());
    let expected = "cli/run.rs             main\n\
                    └─ engine/step.rs      Engine::step\n   \
                       ├─ engine/batch.rs  next\n   \
                       ├─ core/plan.rs     lower\n   \
                       │  └─ core/row.cu   row_kernel\n   \
                       └─ core/device.rs   Device::submit\n";
    assert_eq!(drawn, expected);
    let page = page(LIST, &drawn.replace("main", "run"));
    let tree = Tree::of(&[(PAGE, &page)]);
    assert!(findings(&tree).unwrap().last().unwrap().contains("the drawing of the steps is not"));
}

#[test]
fn functions_that_macros_make_and_constants_count() {
    let list = "1. `a.rs` · `fuse`: x\n2. `b.rs` · `RULES`: x\n3. `c.rs` · `Op::lower` (from 1, as `op.lower`): x\n\
                4. `d.rs` · `Rope::cuda` (as `op.cuda`): x\n";
    let drawn = drawing(&steps(&page(list, "")).unwrap());
    let page = page(list, &drawn);
    let ops = "macro_rules! ops { ($($N:ident),*) => { impl From<u8> for Op { fn from() {} } impl Op { \
               pub fn lower(&self) -> u8 { match self { $(Op::$N(op) => op.cuda(1)),* } } } } }";
    let mut files = [
        (PAGE, page.as_str()),
        ("a.rs", "pub fn fuse() { for rule in RULES {} node.op.lower() }"),
        ("b.rs", "pub const RULES: &[u8] = &[];"),
        ("c.rs", ops),
        ("d.rs", "impl OpDef for Rope { fn cuda(&self) {} }"),
    ];
    assert!(findings(&Tree::of(&files)).unwrap().is_empty(), "{:?}", findings(&Tree::of(&files)));
    files[1].1 = "pub fn fuse() { node.op.lower() }";
    assert!(findings(&Tree::of(&files)).unwrap()[0].contains("does not call `RULES`"));
}
