//! Predicted gains of rules without running a plan: `explain --ladder` and `explain --what-if`.

use onetrip_core::fuse::{Fuse, RULES};
use onetrip_cost::merge::merge;
use onetrip_cost::{Pricer, Tick};
use onetrip_import::SAMPLE;
use onetrip_ir::plan::text::human;
use onetrip_ir::plan::{Ledger, Plan};
use serde_json::{Value, json};

use crate::support::fail::Fail;
use crate::support::load::Planned;
use crate::support::options;
use crate::support::output::table;
use crate::support::plans::Step;

/// What is to be compared.
#[derive(Clone, Debug, PartialEq)]
pub enum WhatIf {
    /// Another set of rules.
    Rules(Fuse),
    /// One kernel in the place of two dispatches.
    Merge(usize, usize),
}

impl WhatIf {
    /// `merge:17,18`, or rules as `--fuse` takes them.
    pub fn parse(text: &str) -> Result<WhatIf, String> {
        let Some(pair) = text.strip_prefix("merge:") else { return options::fuse(text).map(WhatIf::Rules) };
        let row = |text: &str| text.trim().parse::<usize>().ok();
        match pair.split_once(',').map(|(a, b)| (row(a), row(b))) {
            Some((Some(a), Some(b))) => Ok(WhatIf::Merge(a, b)),
            _ => Err("give two dispatches of the plan: merge:17,18".into()),
        }
    }
}

/// One rung of the ladder: the plan after one more rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// The rule; none for the plan without rules.
    pub rule: Option<(&'static str, &'static str)>,
    /// How often it fired.
    pub fired: usize,
    /// Where it was refused.
    pub refused: usize,
    /// Dispatches of the plan after it.
    pub dispatches: u64,
    /// Bytes read and written after it.
    pub bytes: u64,
    /// Predicted tick after it, in µs.
    pub us: Option<f64>,
}

/// The rungs: the plan without rules, then with one more rule at a time.
pub fn rungs(model: &mut Planned, step: Step, assume: bool, pricer: Option<&Pricer>) -> Result<Vec<Rung>, Fail> {
    let rung = |rule: Option<(&'static str, &'static str)>, plan: &Plan| {
        let ledger = plan.ledger(step.bind());
        let is_it = |name: &str| rule.is_some_and(|(rule, _)| rule == name);
        Rung {
            rule,
            fired: plan.fired.iter().filter(|(name, _)| is_it(name)).map(|(_, n)| n).sum(),
            refused: plan.refused.iter().filter(|f| is_it(f.rule)).count(),
            dispatches: ledger.dispatches,
            bytes: ledger.bytes_read + ledger.bytes_written,
            us: pricer.map(|p| p.tick(plan, step.bind()).total()),
        }
    };
    let mut all = vec![];
    for n in 0..=RULES.len() {
        let fuse = Fuse::Some(RULES[..n].iter().map(|r| r.name.to_string()).collect());
        let plan = match model {
            // What is not in the listing comes last, by itself.
            Planned::Listing(listing, options) => listing.plan(options, &fuse, assume, false)?,
            Planned::Model(_) => model.plan(step, &fuse, assume)?,
        };
        all.push(rung(n.checked_sub(1).map(|i| (RULES[i].name, RULES[i].because)), &plan));
    }
    if let Planned::Listing(..) = model {
        let last = rung(Some(SAMPLE), &model.plan(step, &Fuse::All, assume)?);
        all.push(Rung { fired: 1, ..last });
    }
    Ok(all)
}

/// Dispatches, bytes and µs that each rung saves compared with the one before; negative if they increased.
pub fn saved(rungs: &[Rung]) -> Vec<(i64, i64, Option<f64>)> {
    let step = |pair: &[Rung]| {
        let (a, b) = (&pair[0], &pair[1]);
        let us = a.us.zip(b.us).map(|(a, b)| a - b);
        (a.dispatches as i64 - b.dispatches as i64, a.bytes as i64 - b.bytes as i64, us)
    };
    std::iter::once((0, 0, None)).chain(rungs.windows(2).map(step)).collect()
}

/// The ladder, for JSON.
pub fn json_of(rungs: &[Rung]) -> Value {
    let rows = rungs.iter().zip(saved(rungs)).map(|(r, (dispatches, bytes, us))| {
        json!({
            "rule": r.rule.map(|(name, _)| name), "because": r.rule.map(|(_, because)| because), "fired": r.fired,
            "refused": r.refused, "dispatches": r.dispatches, "bytes": r.bytes, "predicted_us": r.us,
            "saved": { "dispatches": dispatches, "bytes": bytes, "us": us },
        })
    });
    rows.collect()
}

fn signed(n: i64) -> String {
    format!("{}{}", if n < 0 { "-" } else { "" }, human(n.unsigned_abs()))
}

/// The ladder, for people.
pub fn text_of(rungs: &[Rung]) -> String {
    let us = |us: Option<f64>| us.map_or("–".into(), |us| format!("{us:.1}"));
    let rows: Vec<Vec<String>> = rungs
        .iter()
        .zip(saved(rungs))
        .map(|(r, (dispatches, bytes, gain))| {
            let (name, because) = r.rule.unwrap_or(("(no rule)", ""));
            let why = match (r.fired, r.refused) {
                (0, 0) if r.rule.is_some() => "nothing here for it".into(),
                (0, n) if n > 0 => format!("refused at {n} places"),
                (_, n) if n > 0 => format!("{because} (refused at {n} places)"),
                _ => because.to_string(),
            };
            let fired = if r.rule.is_some() { r.fired.to_string() } else { String::new() };
            let (left, saved) = (r.dispatches.to_string(), signed(dispatches));
            vec![name.into(), fired, left, human(r.bytes), us(r.us), saved, signed(bytes), us(gain), why]
        })
        .collect();
    let head = ["rule", ">fired", ">dispatches", ">bytes", ">predicted µs", ">saved", ">bytes", ">µs", "because"];
    table(&head, &rows)
}

/// A set of rules beside the plan's own, or a merge of two of its rows: for JSON, and for people.
pub fn what_if(
    asked: &WhatIf,
    model: &mut Planned,
    (plan, step): (&Plan, Step),
    assume: bool,
    pricer: Option<&Pricer>,
) -> Result<(Value, String), Fail> {
    let bind = step.bind();
    match asked {
        WhatIf::Merge(a, b) => {
            let found = merge(plan, bind, *a, *b, pricer).map_err(|e| Fail::Input(format!("--what-if merge: {e}")))?;
            let (first, second) = (&plan.dispatches[*a].name, &plan.dispatches[*b].name);
            let gain = found.before.zip(found.after).map(|(before, after)| before - after);
            let mut text = format!("one kernel for {a} ({first}) and {b} ({second}) would save:\n");
            let rows = [
                ("launches", found.launches_saved),
                ("bytes read", found.read_saved),
                ("bytes written", found.written_saved),
            ];
            rows.iter().for_each(|(name, n)| text.push_str(&format!("  {name:<14} {}\n", human(*n))));
            if let (Some(before), Some(after), Some(gain)) = (found.before, found.after, gain) {
                text.push_str(&format!("  predicted      {gain:.2} µs ({before:.2} → {after:.2})\n"));
            }
            let all = json!({
                "merge": [a, b], "names": [first, second], "launches_saved": found.launches_saved,
                "bytes_read_saved": found.read_saved, "bytes_written_saved": found.written_saved,
                "before_us": found.before, "after_us": found.after, "gain_us": gain,
            });
            Ok((all, text))
        }
        WhatIf::Rules(fuse) => {
            let other = model.plan(step, fuse, assume)?;
            let row = |plan: &Plan| {
                let Ledger { dispatches, bytes_read, bytes_written, .. } = plan.ledger(bind);
                (dispatches, bytes_read + bytes_written, pricer.map(|p| p.tick(plan, bind)).map(|t: Tick| t.total()))
            };
            let (now, then) = (row(plan), row(&other));
            let cells = |name: &str, (n, bytes, us): (u64, u64, Option<f64>)| {
                vec![name.into(), n.to_string(), human(bytes), us.map_or("–".into(), |us| format!("{us:.1}"))]
            };
            let cells = [cells("as asked with --fuse", now), cells("what if", then)];
            let text = table(&["rules", ">dispatches", ">bytes", ">predicted µs"], &cells);
            let side = |(n, bytes, us): (u64, u64, Option<f64>)| json!({ "dispatches": n, "bytes": bytes, "predicted_us": us });
            let gain = now.2.zip(then.2).map(|(a, b)| a - b);
            Ok((json!({ "rules": side(then), "now": side(now), "gain_us": gain }), text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_rule_saved_adds_up_to_the_difference_of_the_ends() {
        let rung = |dispatches, bytes, us| Rung { rule: None, fired: 0, refused: 0, dispatches, bytes, us: Some(us) };
        let rungs = [rung(100, 900, 50.0), rung(70, 950, 30.0), rung(70, 400, 31.5)];
        let saved = saved(&rungs);
        assert_eq!(saved, [(0, 0, None), (30, -50, Some(20.0)), (0, 550, Some(-1.5))]);
        assert_eq!(saved.iter().map(|s| s.0).sum::<i64>(), 30);
        assert_eq!(saved.iter().filter_map(|s| s.2).sum::<f64>(), 18.5);
        assert_eq!((signed(-50), signed(550)), ("-50".into(), "550".into()));
    }

    #[test]
    fn questions_are_rules_or_two_rows() {
        assert_eq!(WhatIf::parse("merge:17,18"), Ok(WhatIf::Merge(17, 18)));
        assert_eq!(WhatIf::parse("none"), Ok(WhatIf::Rules(Fuse::None)));
        assert!(WhatIf::parse("merge:17").is_err_and(|e| e.contains("merge:17,18")));
        assert!(WhatIf::parse("norm-wieght").is_err_and(|e| e.contains("`norm-weight`")));
    }
}
