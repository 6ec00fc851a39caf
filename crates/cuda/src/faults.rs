//! Error texts for a kernel that cannot be compiled and for memory that cannot be allocated.

use onetrip_ir::plan::Dispatch;

/// The place of a kernel in the plan: number and name of its dispatch, its op, and the formats of its weights.
pub(crate) fn place(n: usize, d: &Dispatch) -> String {
    let weights = d.operands.iter().filter_map(|o| o.sig.as_ref()).filter(|s| s.is_weight()).map(|s| s.dtype.name());
    let mut formats: Vec<&str> = weights.collect();
    formats.dedup();
    let of = if formats.is_empty() { String::new() } else { format!(" of {}", formats.join(", ")) };
    format!(" at dispatch {n} ({}: {}, {}{of})", d.name, d.op, d.kernel_name())
}

/// Free and total memory in GB, with the hint that other programs may hold the rest.
pub(crate) fn memory_in_words(free: u64, all: u64) -> String {
    let gb = |bytes: u64| bytes as f64 / 1e9;
    format!("{:.1} GB of its {:.1} GB are free, the rest is in use by this and other programs", gb(free), gb(all))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_kernel_that_cannot_be_had_is_placed_by_row_op_and_format() {
        use onetrip_core::ops::Op;
        use onetrip_ir::target::Target;
        let (_, cases) = Op::all_cases().into_iter().find(|(name, _)| *name == "embed").expect("an op");
        let plan = onetrip_core::cases::case_plan(&cases[0], Target::Cuda(Default::default())).expect("a plan");
        let said = super::place(3, &plan.dispatches[0]);
        let format = cases[0].ins[0].dtype.name();
        assert!(
            said.contains("dispatch 3") && said.contains("embed") && said.contains(&format!("of {format}")),
            "{said}"
        );
    }

    #[test]
    fn short_memory_is_said_in_numbers() {
        let said = super::memory_in_words(3_200_000_000, 80_000_000_000);
        assert!(said.contains("3.2 GB of its 80.0 GB are free") && said.contains("other programs"), "{said}");
    }
}
