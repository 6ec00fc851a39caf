//! Sizes as expressions in the symbols of a step batch, so that one plan serves every batch of its bucket.
//!
//! Symbols: `T` tokens, `S` sequences, `L` context length (cached positions including the tokens of this step).
//! [`Expr::eval`] with a [`Bind`] gives the size. Arithmetic saturates instead of wrapping, so that an allocation of a size
//! that does not fit 64 bits fails.

use std::fmt;
use std::ops::{Add, Mul};

/// The values of the symbols for one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bind {
    /// Tokens in the step.
    pub t: u64,
    /// Sequences in the step.
    pub s: u64,
    /// Context length at the end of the step, of the longest sequence.
    pub l: u64,
}

/// A size as an expression in the symbols.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant.
    Const(u64),
    /// Tokens.
    T,
    /// Sequences.
    S,
    /// Context length.
    L,
    /// Cached positions that attention reads, over all sequences: `S · min(L, window + T/S - 1)`.
    Keys(Option<u32>),
    /// (query, key) pairs that causal attention visits, over all sequences: for each of the `T/S` tokens of a sequence that
    /// ends at `L`, the positions up to and including the token's own, at most `window` of them.
    Pairs(Option<u32>),
    /// A sum.
    Sum(Vec<Expr>),
    /// A product.
    Product(Vec<Expr>),
    /// Division by a constant, rounded up.
    CeilDiv(Box<Expr>, u64),
}

impl Expr {
    /// The value for a batch of `b`; saturating.
    pub fn eval(&self, b: Bind) -> u64 {
        let per_seq = b.t.checked_div(b.s).unwrap_or(0);
        match self {
            Expr::Const(n) => *n,
            Expr::T => b.t,
            Expr::S => b.s,
            Expr::L => b.l,
            Expr::Keys(window) => {
                let keys = window.map_or(b.l, |w| b.l.min((w as u64 + per_seq).saturating_sub(1)));
                b.s.saturating_mul(keys)
            }
            Expr::Pairs(window) => {
                // Token i (0-based) of a sequence sees min(first + i, w) positions: `ramp` sums the tokens below w, `flat` the
                // others.
                let first = (b.l + 1).saturating_sub(per_seq);
                let w = window.map_or(u64::MAX, u64::from);
                let below = per_seq.min((w.saturating_add(1)).saturating_sub(first));
                let ramp = below.saturating_mul(2 * first + below.saturating_sub(1)) / 2;
                let flat = (per_seq - below).saturating_mul(if w == u64::MAX { 0 } else { w });
                b.s.saturating_mul(ramp.saturating_add(flat))
            }
            Expr::Sum(parts) => parts.iter().fold(0, |a, p| a.saturating_add(p.eval(b))),
            Expr::Product(parts) => parts.iter().fold(1, |a, p| a.saturating_mul(p.eval(b))),
            Expr::CeilDiv(e, n) => e.eval(b).div_ceil((*n).max(1)),
        }
    }

    /// The value, if the expression is a constant.
    pub fn constant(&self) -> Option<u64> {
        match self {
            Expr::Const(n) => Some(*n),
            _ => None,
        }
    }
}

impl From<u64> for Expr {
    fn from(n: u64) -> Self {
        Expr::Const(n)
    }
}

impl From<usize> for Expr {
    fn from(n: usize) -> Self {
        Expr::Const(n as u64)
    }
}

impl Add for Expr {
    type Output = Expr;
    fn add(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(a), Expr::Const(b)) => Expr::Const(a.saturating_add(b)),
            (Expr::Const(0), e) | (e, Expr::Const(0)) => e,
            (Expr::Sum(mut a), Expr::Sum(b)) => {
                a.extend(b);
                Expr::Sum(a)
            }
            (Expr::Sum(mut a), b) => {
                a.push(b);
                Expr::Sum(a)
            }
            (a, b) => Expr::Sum(vec![a, b]),
        }
    }
}

impl Mul for Expr {
    type Output = Expr;
    fn mul(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Const(a), Expr::Const(b)) => Expr::Const(a.saturating_mul(b)),
            (Expr::Const(0), _) | (_, Expr::Const(0)) => Expr::Const(0),
            (Expr::Const(1), e) | (e, Expr::Const(1)) => e,
            (Expr::Product(mut a), b) => {
                a.push(b);
                Expr::Product(a)
            }
            (a, b) => Expr::Product(vec![a, b]),
        }
    }
}

impl Mul<usize> for Expr {
    type Output = Expr;
    fn mul(self, n: usize) -> Expr {
        self * Expr::from(n)
    }
}

impl Add<usize> for Expr {
    type Output = Expr;
    fn add(self, n: usize) -> Expr {
        self + Expr::from(n)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let join = |f: &mut fmt::Formatter, parts: &[Expr], sep: &str| {
            for (i, p) in parts.iter().enumerate() {
                if i > 0 {
                    f.write_str(sep)?;
                }
                write!(f, "{p}")?;
            }
            Ok(())
        };
        match self {
            Expr::Const(n) => write!(f, "{n}"),
            Expr::T => f.write_str("T"),
            Expr::S => f.write_str("S"),
            Expr::L => f.write_str("L"),
            Expr::Keys(None) => f.write_str("keys"),
            Expr::Keys(Some(w)) => write!(f, "keys({w})"),
            Expr::Pairs(None) => f.write_str("pairs"),
            Expr::Pairs(Some(w)) => write!(f, "pairs({w})"),
            Expr::Sum(parts) => {
                f.write_str("(")?;
                join(f, parts, "+")?;
                f.write_str(")")
            }
            Expr::Product(parts) => join(f, parts, "*"),
            Expr::CeilDiv(e, n) => write!(f, "ceil({e}/{n})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts pairs the slow way.
    fn pairs(b: Bind, window: Option<u32>) -> u64 {
        let per = b.t / b.s;
        (0..b.s)
            .map(|_| (0..per).map(|i| (b.l - per + 1 + i).min(window.map_or(u64::MAX, u64::from))).sum::<u64>())
            .sum()
    }

    #[test]
    fn pairs_equal_a_count_of_every_query_and_key() {
        for (t, s, l) in [(1, 1, 1), (1, 1, 300), (7, 1, 7), (64, 1, 700), (8, 4, 9), (600, 2, 512), (5, 5, 40)] {
            let b = Bind { t, s, l };
            for w in [None, Some(1), Some(4), Some(512), Some(600)] {
                assert_eq!(Expr::Pairs(w).eval(b), pairs(b, w), "{b:?} window {w:?}");
            }
        }
    }

    #[test]
    fn sizes_saturate_instead_of_wrapping() {
        let e = Expr::T * Expr::from(u64::MAX) + Expr::Const(7);
        assert_eq!(e.eval(Bind { t: 3, s: 1, l: 3 }), u64::MAX);
    }

    #[test]
    fn an_expression_prints_as_it_reads() {
        assert_eq!((Expr::T * 4usize + Expr::S * 2usize + Expr::Const(1)).to_string(), "(T*4+S*2+1)");
    }
}
