//! Rows of the embedding table in WGSL.

use super::*;
use crate::codegen::wgsl;
use crate::codegen::wgsl::Wgsl;

pub(super) fn lower(op: &Embed, site: &OpSite) -> Lowering {
    let table = &site.ins[0];
    let mut w = Wgsl::new(if op.scale == 1.0 { "embed/rows" } else { "embed/scaled" }, 128);
    w.bind("pending_tokens", "u32", Arg::PendingTokens, Access::Read);
    w.number("VOCABULARY", table.rows.constant().unwrap_or(1) as usize);
    w.number("K", table.width);
    // A table larger than one binding is bound as shards; each row is in one of them.
    let (mut number, mut first) = (String::new(), 0);
    for (i, (arg, shard)) in wgsl::shards(site, 0).into_iter().enumerate() {
        let name = format!("table{i}");
        let row = if first == 0 { "row".to_string() } else { format!("row - {first}u") };
        let value = match (shard.layout(), wgsl::planes(&mut w, &name, arg, &shard)) {
            (Layout::Planes, true) => format!("{name}_element({row}, c)"),
            (Layout::Stored, false) if shard.dtype.is_float() => {
                w.read(&name, arg, shard.dtype);
                format!("{name}_at(({row}) * K + c)")
            }
            _ => return Lowering::Gap("quantized tables are read from planes on GPUs"),
        };
        first += shard.rows.constant().unwrap_or(0);
        number.push_str(&format!("    if row < {first}u {{ return {value}; }}\n"));
    }
    w.line(format!("fn table_element(row: u32, c: u32) -> f32 {{\n{number}    return 0.0;\n}}"));
    let scaled = if op.scale == 1.0 { String::new() } else { format!(" * {}", wgsl::float(op.scale)) };
    w.function("value(r: u32, c: u32) -> f32", &format!("table_element(token(r), c){scaled}"));
    w.text(include_str!("embed.wgsl")).per_element(site, op.cost(site))
}
