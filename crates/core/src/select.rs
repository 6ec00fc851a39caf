//! Choosing a kernel. An op with more than one kernel on a device lists them as [`Candidate`]s, the fastest first; the first
//! whose needs hold and which can be built is taken. Why the ones before it were not is kept with the plan
//! ([`onetrip_ir::plan::Rejected`]), so a slow kernel is as visible as a missing one.

use onetrip_ir::plan::Rejected;
use onetrip_ir::target::RowBucket;

/// The row buckets that a kernel serves, and the sentence for all others.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    buckets: &'static [RowBucket],
    reason: &'static str,
}

impl Rows {
    /// One row.
    pub const ONE: Rows = Rows { buckets: &[RowBucket::R1], reason: "it serves one row" };
    /// 2 to 8 rows.
    pub const TWO_TO_8: Rows = Rows { buckets: &[RowBucket::R2To8], reason: "it serves 2 to 8 rows" };
    /// Up to 8 rows.
    pub const UP_TO_8: Rows = Rows { buckets: &[RowBucket::R1, RowBucket::R2To8], reason: "it serves up to 8 rows" };
    /// 9 to 64 rows.
    pub const NINE_TO_64: Rows = Rows { buckets: &[RowBucket::R9To64], reason: "it serves 9 to 64 rows" };
    /// 9 rows and more.
    pub const FROM_9: Rows =
        Rows { buckets: &[RowBucket::R9To64, RowBucket::Large], reason: "it serves 9 rows and more" };
    /// More than 64 rows.
    pub const FROM_65: Rows = Rows { buckets: &[RowBucket::Large], reason: "it serves more than 64 rows" };
    /// Any number of rows.
    pub const ANY: Rows = Rows {
        buckets: &[RowBucket::R1, RowBucket::R2To8, RowBucket::R9To64, RowBucket::Large],
        reason: "it serves any number of rows",
    };
}

/// A condition of a candidate.
pub struct Need<S> {
    /// Why the candidate is not taken where the condition does not hold.
    pub otherwise: &'static str,
    /// The condition.
    pub holds: fn(&S) -> bool,
}

/// One kernel that may serve a site `S`, and how it is built (`T`).
pub struct Candidate<'a, S, T> {
    /// The kernel's name, which is that of its file.
    pub kernel: &'static str,
    /// The rows that it serves.
    pub rows: Rows,
    /// Its conditions, in the order in which they are asked.
    pub needs: &'a [Need<S>],
    /// Builds it. It chooses nothing: sizes come from the op's `tune.rs`.
    pub build: fn(&S) -> Option<T>,
    /// Why it is not taken where `build` gives none; none if it always builds.
    pub otherwise: Option<&'static str>,
}

/// A language in which kernels are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Rust, on the CPU.
    Cpu,
    /// CUDA C++.
    Cuda,
    /// WGSL.
    Wgsl,
}

/// A candidate's name and all reasons for which it may be rejected, apart from the number of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    /// The op.
    pub op: &'static str,
    /// The kernel language.
    pub language: Language,
    /// The candidate.
    pub kernel: &'static str,
    /// Its reasons.
    pub reasons: Vec<&'static str>,
}

/// Takes the first candidate that serves the site, with the rejections of those before it. The error is the reason of the
/// last candidate that serves so many rows: the most general kernel's.
pub fn select<S, T>(
    candidates: &[Candidate<S, T>],
    bucket: RowBucket,
    site: &S,
) -> Result<(T, Vec<Rejected>), &'static str> {
    let mut rejected = vec![];
    let mut gap = "no kernel serves so many rows";
    for c in candidates {
        let reason = if !c.rows.buckets.contains(&bucket) {
            c.rows.reason
        } else {
            let unmet = c.needs.iter().find(|need| !(need.holds)(site)).map(|need| need.otherwise);
            let built = if unmet.is_none() { (c.build)(site) } else { None };
            match built {
                Some(built) => return Ok((built, rejected)),
                None => {
                    gap = unmet.or(c.otherwise).unwrap_or("it could not be built");
                    gap
                }
            }
        };
        rejected.push(Rejected { kernel: c.kernel, reason });
    }
    Err(gap)
}

/// The candidates of an op in a kernel language, described.
pub fn describe<S, T>(op: &'static str, language: Language, candidates: &[Candidate<S, T>]) -> Vec<Described> {
    let reasons = |c: &Candidate<S, T>| c.needs.iter().map(|n| n.otherwise).chain(c.otherwise).collect();
    candidates.iter().map(|c| Described { op, language, kernel: c.kernel, reasons: reasons(c) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Need<usize> = Need { otherwise: "it is large", holds: |n| *n < 10 };

    fn candidates<'a>() -> [Candidate<'a, usize, usize>; 3] {
        let build = |n: &usize| (*n != 5).then_some(*n);
        [
            Candidate { kernel: "one", rows: Rows::ONE, needs: &[], build: |n| Some(*n), otherwise: None },
            Candidate { kernel: "small", rows: Rows::ANY, needs: &[SMALL], build, otherwise: Some("it is five") },
            Candidate {
                kernel: "even",
                rows: Rows::ANY,
                needs: &[],
                build: |n| (n % 2 == 0).then_some(0),
                otherwise: Some("it is odd"),
            },
        ]
    }

    #[test]
    fn the_first_candidate_that_fits_is_taken_and_those_before_it_say_why_not() {
        let (taken, rejected) = select(&candidates(), RowBucket::Large, &12).unwrap();
        assert_eq!(taken, 0);
        let told: Vec<_> = rejected.iter().map(|r| (r.kernel, r.reason)).collect();
        assert_eq!(told, [("one", "it serves one row"), ("small", "it is large")]);
        assert_eq!(select(&candidates(), RowBucket::R1, &12).unwrap(), (12, vec![]));
    }

    #[test]
    fn without_a_candidate_the_gap_is_the_reason_of_the_most_general_one() {
        assert_eq!(select(&candidates(), RowBucket::R9To64, &5), Err("it is odd"));
    }
}
