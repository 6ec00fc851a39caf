//! The plan as text: one row a dispatch, sizes as expressions where no batch is given. The snapshots under `plans/`.

use std::fmt::Write;

use super::Plan;
use crate::expr::Bind;

impl Plan {
    /// One row a dispatch; sizes for `bind` if there is one, else as expressions.
    pub fn table(&self, bind: Option<Bind>) -> String {
        let size = |e: &crate::expr::Expr| match bind {
            Some(b) => human(e.eval(b)),
            None => e.to_string(),
        };
        let rows: Vec<[String; 7]> = self
            .dispatches
            .iter()
            .enumerate()
            .map(|(n, d)| {
                let kernel = match d.gap {
                    Some(why) => format!("GAP {why}"),
                    None => d.kernel.clone(),
                };
                let grid = bind.map_or(d.grid.to_string(), |b| d.grid.eval(b).to_string());
                let (r, w, f) = (size(&d.cost.read), size(&d.cost.written), size(&d.cost.flops));
                [
                    n.to_string(),
                    d.name.clone(),
                    d.device.clone(),
                    kernel,
                    grid,
                    format!("{r} r {w} w"),
                    format!("{f} op"),
                ]
            })
            .collect();
        let head = ["#", "name", "device", "kernel", "grid", "bytes", "operations"].map(String::from);
        let mut width = [0; 7];
        for row in rows.iter().chain([&head]) {
            row.iter().zip(&mut width).for_each(|(cell, w)| *w = (*w).max(cell.chars().count()));
        }
        let mut out = String::new();
        for row in [&head].into_iter().chain(&rows) {
            let line: Vec<String> = row
                .iter()
                .enumerate()
                .map(
                    |(i, cell)| {
                        if i == 0 { format!("{cell:>w$}", w = width[i]) } else { format!("{cell:<w$}", w = width[i]) }
                    },
                )
                .collect();
            let _ = writeln!(out, "{}", line.join("  ").trim_end());
        }
        out
    }

    /// Rules and refusals, a line each.
    pub fn rules_text(&self) -> String {
        let mut out = String::new();
        for (rule, n) in self.fired.iter().filter(|(_, n)| *n > 0) {
            let _ = writeln!(out, "rule {rule}: {n}");
        }
        for r in &self.refused {
            let _ = writeln!(out, "refused {} at {}: {}", r.rule, r.at, r.why);
        }
        out
    }
}

/// A size with three digits and a decimal prefix.
pub fn human(n: u64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let mut x = n as f64;
    let mut unit = 0;
    while x >= 999.5 && unit + 1 < units.len() {
        x /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => n.to_string(),
        _ if x < 9.995 => format!("{x:.2}{}", units[unit]),
        _ if x < 99.95 => format!("{x:.1}{}", units[unit]),
        _ => format!("{x:.0}{}", units[unit]),
    }
}
