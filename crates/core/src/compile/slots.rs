//! Assigns slots by live ranges: values that are never alive at the same time share memory.

use onetrip_ir::expr::{Bind, Expr};

/// A value or scratch buffer, alive from the first to the last dispatch that touches it.
#[derive(Clone, Debug)]
pub struct LiveRange {
    /// Size in bytes, as an expression over the batch.
    pub bytes: Expr,
    /// Indices of the first and last dispatch, both inclusive.
    pub span: (usize, usize),
}

/// Returns the slot of each live range, and the size of each slot. Ranges that share a dispatch never share a slot.
pub fn colour(ranges: &[LiveRange]) -> (Vec<usize>, Vec<Expr>) {
    // A slot must be as large as the largest of its ranges for every batch, and there is no expression for a maximum. So only
    // ranges share a slot of which one covers the other for every batch: multiples of the same symbol, or equal expressions.
    // Among the candidates, sizes are compared at a batch of medium size.
    let at = Bind { t: 64, s: 1, l: 64 };
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&i| ranges[i].span);
    let mut slots: Vec<(Expr, usize)> = vec![];
    let mut of = vec![0; ranges.len()];
    for i in order {
        let range = &ranges[i];
        let free = (0..slots.len())
            .filter(|&s| slots[s].1 < range.span.0 && covers(&slots[s].0, &range.bytes))
            .min_by_key(|&s| slots[s].0.eval(at));
        let grow = (0..slots.len())
            .filter(|&s| slots[s].1 < range.span.0 && covers(&range.bytes, &slots[s].0))
            .max_by_key(|&s| slots[s].0.eval(at));
        of[i] = match free.or(grow) {
            Some(s) => {
                if !covers(&slots[s].0, &range.bytes) {
                    slots[s].0 = range.bytes.clone();
                }
                slots[s].1 = range.span.1;
                s
            }
            None => {
                slots.push((range.bytes.clone(), range.span.1));
                slots.len() - 1
            }
        };
    }
    (of, slots.into_iter().map(|(bytes, _)| bytes).collect())
}

/// Whether `a ≥ b` is known for every batch: both are constants times the same symbol, or they are equal.
fn covers(a: &Expr, b: &Expr) -> bool {
    match (linear(a), linear(b)) {
        (Some((n, sa)), Some((m, sb))) => sa == sb && n >= m,
        _ => a == b,
    }
}

/// `n · symbol` as (n, symbol); a constant has no symbol.
fn linear(e: &Expr) -> Option<(u64, Option<&Expr>)> {
    match e {
        Expr::Const(n) => Some((*n, None)),
        Expr::T | Expr::S | Expr::L => Some((1, Some(e))),
        Expr::Product(parts) => {
            let mut found = (1u64, None);
            for p in parts {
                match p {
                    Expr::Const(n) => found.0 = found.0.saturating_mul(*n),
                    Expr::T | Expr::S | Expr::L if found.1.is_none() => found.1 = Some(p),
                    _ => return None,
                }
            }
            Some(found)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn live_ranges_that_overlap_never_share_a_slot_and_every_slot_is_large_enough(
            raw in proptest::collection::vec((0usize..40, 0usize..10, 1u64..50, 0u8..3), 1..60)
        ) {
            let ranges: Vec<LiveRange> = raw.iter().map(|&(start, len, n, symbol)| {
                let e = match symbol { 0 => Expr::T * Expr::Const(n), 1 => Expr::S * Expr::Const(n), _ => Expr::Const(n) };
                LiveRange { bytes: e, span: (start, start + len) }
            }).collect();
            let (of, slots) = colour(&ranges);
            for b in [Bind { t: 1, s: 1, l: 9 }, Bind { t: 500, s: 3, l: 900 }, Bind { t: 8, s: 8, l: 10 }] {
                for (i, a) in ranges.iter().enumerate() {
                    prop_assert!(slots[of[i]].eval(b) >= a.bytes.eval(b));
                    for (j, c) in ranges.iter().enumerate().skip(i + 1) {
                        let apart = a.span.1 < c.span.0 || c.span.1 < a.span.0;
                        prop_assert!(apart || of[i] != of[j], "{a:?} {c:?}");
                    }
                }
            }
        }
    }
}
