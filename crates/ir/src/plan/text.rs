//! The plan as a table of text, one line for each dispatch. The snapshots under `plans/` are such tables.

use std::fmt::Write;

use super::Plan;
use crate::expr::Bind;

impl Plan {
    /// One line for each dispatch, with sizes as numbers for `bind` where it is given, else as expressions.
    pub fn table(&self, bind: Option<Bind>) -> String {
        columns(&self.rows(bind))
    }

    /// Like [`Plan::table`], but layers that repeat an earlier layer share one line: `blk.1 to blk.29: as blk.0`.
    /// A layer repeats another if all columns are equal apart from the numbers of the dispatches and the layer.
    pub fn compact_table(&self, bind: Option<Bind>) -> String {
        let rows = self.rows(bind);
        let layer = |row: &Row| row[1].strip_prefix("blk.").and_then(|r| r.split_once('.')?.0.parse::<usize>().ok());
        let mut out: Vec<Row> = vec![];
        // `full`: the rows, without numbers, of every layer that is printed in full. `open`: the first layer of the repetition
        // that is being collected, and the layer that it repeats.
        let mut full: Vec<(usize, Vec<Row>)> = vec![];
        let mut open: Option<(usize, usize)> = None;
        for group in rows.chunk_by(|a, b| layer(a) == layer(b)) {
            let Some(n) = layer(&group[0]) else {
                open = None;
                out.extend_from_slice(group);
                continue;
            };
            let nameless = |row: &Row| {
                let mut row = row.clone();
                row[0].clear();
                row[1] = row[1].replace(&format!("blk.{n}."), "blk.*.");
                row
            };
            let shape: Vec<Row> = group.iter().map(nameless).collect();
            let Some(&(like, _)) = full.iter().find(|(_, rows)| *rows == shape) else {
                full.push((n, shape));
                open = None;
                out.extend_from_slice(group);
                continue;
            };
            match (open, out.last_mut()) {
                (Some((first, as_layer)), Some(last)) if as_layer == like => {
                    last[1] = format!("blk.{first} to blk.{n}: as blk.{like}");
                }
                _ => {
                    let mut line = Row::default();
                    line[0] = group[0][0].clone();
                    line[1] = format!("blk.{n}: as blk.{like}");
                    out.push(line);
                    open = Some((n, like));
                }
            }
        }
        columns(&out)
    }

    fn rows(&self, bind: Option<Bind>) -> Vec<Row> {
        let size = |e: &crate::expr::Expr| match bind {
            Some(b) => human(e.eval(b)),
            None => e.to_string(),
        };
        let row = |(n, d): (usize, &super::Dispatch)| {
            let kernel = match d.gap {
                Some(why) => format!("GAP {why}"),
                None => d.kernel_name(),
            };
            let grid = bind.map_or(d.grid.to_string(), |b| d.grid.eval(b).to_string());
            let (r, w, f) = (size(&d.cost.read), size(&d.cost.written), size(&d.cost.flops));
            [n.to_string(), d.name.clone(), d.device.clone(), kernel, grid, format!("{r} r {w} w"), format!("{f} op")]
        };
        self.dispatches.iter().enumerate().map(row).collect()
    }

    /// One line for each rule that fired, with its count, and one for each refusal.
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

/// The cells of one line of the table: number, name, device, kernel, grid, bytes, operations.
type Row = [String; 7];

/// Rows below a line of headings, with columns as wide as their widest cell.
fn columns(rows: &[Row]) -> String {
    let head = ["#", "name", "device", "kernel", "grid", "bytes", "operations"].map(String::from);
    let mut width = [0; 7];
    for row in rows.iter().chain([&head]) {
        row.iter().zip(&mut width).for_each(|(cell, w)| *w = (*w).max(cell.chars().count()));
    }
    let mut out = String::new();
    for row in [&head].into_iter().chain(rows) {
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

/// A size with three significant digits and a decimal prefix, such as `1.25M`.
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
