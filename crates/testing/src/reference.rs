//! Recorded results of other engines (`crates/testing/reference`): a summary in JSON, whose long arrays may lie beside it as
//! raw float32 (little endian).

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

/// The key of a summary whose value has the name of the file with the arrays, its number of elements, and its hash.
const NUMBERS: &str = "numbers";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("reference")
}

/// The recorded result of this name, with all its arrays restored.
pub fn read(name: &str) -> Result<Json, Failed> {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let summary: Json = serde_json::from_str(&text)?;
    let Some(file) = summary.get(NUMBERS) else { return Ok(summary) };
    let bytes = std::fs::read(folder().join(file["file"].as_str().ok_or("no name of a file of numbers")?))?;
    unpacked(summary, &bytes).map_err(|e| format!("{name}: {e}").into())
}

/// Restores the arrays of a summary. Each must begin with the elements that the summary shows, and together they must cover the
/// whole file.
fn unpacked(mut summary: Json, bytes: &[u8]) -> Result<Json, String> {
    let about = summary.as_object_mut().and_then(|s| s.remove(NUMBERS)).ok_or("no summary")?;
    let hash = Sha256::digest(bytes).iter().fold(String::new(), |hash, byte| format!("{hash}{byte:02x}"));
    if about["sha256"] != hash.as_str() {
        return Err(format!("the numbers have the SHA-256 {hash}"));
    }
    let words = bytes.chunks_exact(4);
    let numbers: Vec<f32> = words.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let mut places = vec![];
    fill(&mut summary, &numbers, &mut places)?;
    places.sort_unstable();
    let follow = places.windows(2).all(|pair| pair[0].1 == pair[1].0);
    let all = places.first().map(|p| p.0).zip(places.last().map(|p| p.1));
    match follow && all == Some((0, numbers.len())) && about["count"] == numbers.len() && bytes.len().is_multiple_of(4)
    {
        true => Ok(summary),
        false => Err(format!(
            "of {} bytes of numbers, arrays are at {places:?}; {} were packed",
            bytes.len(),
            about["count"]
        )),
    }
}

/// Restores the arrays inside a value, and notes the range of the file that each one takes.
fn fill(value: &mut Json, numbers: &[f32], places: &mut Vec<(usize, usize)>) -> Result<(), String> {
    if let (Some(shape), Some(at), Some(first)) = (value.get("shape"), value.get("at"), value.get("first")) {
        let whole = |n: &Json| n.as_u64().map(|n| n as usize);
        let shape: Option<Vec<usize>> = shape.as_array().and_then(|shape| shape.iter().map(whole).collect());
        let (Some(shape), Some(at), Some(first)) = (shape, whole(at), first.as_array()) else {
            return Err(format!("{value} is no place of an array"));
        };
        let end = at + shape.iter().product::<usize>();
        let own = numbers.get(at..end).ok_or_else(|| format!("no {shape:?} numbers from {at} on"))?;
        let begins = |(want, have): (&Json, &f32)| want.as_f64().is_some_and(|want| want as f32 == *have);
        if first.is_empty() || first.len() > own.len() || !first.iter().zip(own).all(begins) {
            return Err(format!("an array at {at} begins with {first:?}, its numbers with {:?}", own.first()));
        }
        places.push((at, end));
        *value = nested(own, &shape);
        return Ok(());
    }
    match value {
        Json::Object(all) => all.values_mut().try_for_each(|v| fill(v, numbers, places)),
        Json::Array(all) => all.iter_mut().try_for_each(|v| fill(v, numbers, places)),
        _ => Ok(()),
    }
}

fn nested(numbers: &[f32], shape: &[usize]) -> Json {
    match shape {
        [_, inner @ ..] if !inner.is_empty() => {
            let size = inner.iter().product::<usize>().max(1);
            numbers.chunks(size).map(|part| nested(part, inner)).collect()
        }
        // Ids of tokens are whole numbers.
        _ => numbers.iter().map(|x| if x.fract() == 0.0 && *x >= 0.0 { json!(*x as u64) } else { json!(*x) }).collect(),
    }
}

/// The tests of this module, named `reference/…` or by what they hold.
pub fn tests() -> Vec<Trial> {
    vec![
        Trial::test("reference/numbers are those that the summaries tell of", || {
            let mut packed = 0;
            for entry in std::fs::read_dir(folder())? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if let Some(name) = name.strip_suffix(".json") {
                    read(name)?;
                    packed += usize::from(path.with_extension("f32").is_file());
                }
            }
            if packed == 4 { Ok(()) } else { Err(format!("{packed} results with a file of numbers").into()) }
        }),
        Trial::test("reference/numbers that a summary does not tell of are found", finds),
    ]
}

/// A packed result is restored unchanged; a changed element, order or shape is an error.
fn finds() -> Result<(), Failed> {
    let numbers = [403.0f32, 17.02351, 385.0, 15.40621, 7.0, 8.0, 9.5];
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let hash =
        |bytes: &[u8]| Sha256::digest(bytes).iter().fold(String::new(), |hash, byte| format!("{hash}{byte:02x}"));
    let summary = |bytes: &[u8], pairs: Json, at: usize, first: f64| {
        let pairs = json!({ "shape": pairs, "at": 0, "first": [403, 17.02351] });
        let rest = json!({ "shape": [3], "at": at, "first": [first] });
        json!({ "numbers": { "count": bytes.len() / 4, "sha256": hash(bytes) }, "a": { "pairs": pairs }, "rest": [rest] })
    };
    let right = bytes(&numbers);
    let back = unpacked(summary(&right, json!([2, 2]), 4, 7.0), &right)?;
    let pair = |i: usize| (back["a"]["pairs"][i][0].as_u64(), back["a"]["pairs"][i][1].as_f64().map(|x| x as f32));
    if pair(1) != (Some(385), Some(15.40621)) || back["rest"][0].as_array().map(Vec::len) != Some(3) {
        return Err(format!("came back as {back}").into());
    }
    let mut other = right.clone();
    other[5] ^= 1;
    let wrong = [
        ("another number", unpacked(summary(&right, json!([2, 2]), 4, 7.0), &other)),
        ("another first number", unpacked(summary(&right, json!([2, 2]), 4, 7.5), &right)),
        ("another place", unpacked(summary(&right, json!([2, 2]), 5, 7.0), &right)),
        ("too large a shape", unpacked(summary(&right, json!([3, 2]), 4, 7.0), &right)),
        ("too small a shape", unpacked(summary(&right, json!([2]), 2, 385.0), &right)),
        ("a number less", unpacked(summary(&right[4..], json!([2, 2]), 4, 7.0), &right[4..])),
        ("a byte more", {
            let longer = [&right[..], &[0]].concat();
            unpacked(summary(&longer, json!([2, 2]), 4, 7.0), &longer)
        }),
    ];
    match wrong.iter().find(|(_, result)| result.is_ok()) {
        Some((what, _)) => Err(format!("{what} passes").into()),
        None => Ok(()),
    }
}
