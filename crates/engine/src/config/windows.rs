//! Which layers see only a sliding window of positions, from the keys of a model file.

use onetrip_ir::text::shown;

use super::hyperparameters::{MAX_CONTEXT, MAX_LAYERS};
use super::keys::{Keys, key};
use super::{ConfigError, Traits, Windows};

/// The length of the window, if there is one, and for each layer whether it has the window.
///
/// The first of these that the file has decides about the layers: a list with an item for each layer, a number of layers after
/// which one has no window, the number of layers before the first with a window; then the rule of the architecture.
pub fn read(keys: &Keys, layers: usize, traits: &Traits) -> Result<(Option<u32>, Vec<bool>), ConfigError> {
    let window = keys.opt_count(key("attention.sliding_window", "sliding_window"), MAX_CONTEXT)?.filter(|w| *w > 0);
    let asked = keys.flag(key("", "use_sliding_window"))?;
    let first = keys.opt_count(key("", "max_window_layers"), MAX_LAYERS)?;
    let pattern = key("attention.sliding_window_pattern", "sliding_window_pattern|_sliding_window_pattern");
    let (list, period) = match keys.is_list(pattern) {
        true => (keys.flags(pattern)?, None),
        false => (None, keys.opt_count(pattern, MAX_LAYERS)?),
    };
    let types = keys.texts(key("", "layer_types"))?;
    let refused = asked == Some(false) || (asked.is_none() && traits.windows == Windows::OnRequest && !keys.is_gguf());
    let window = window.filter(|_| !refused).map(|w| w as u32);
    let every = |period: usize| (0..layers).map(|l| period == 0 || !(l + 1).is_multiple_of(period)).collect();
    let sliding: Vec<bool> = match (types, list, period, first) {
        (Some(types), ..) => {
            let kind = |t: &String| match t.as_str() {
                "sliding_attention" => Ok(true),
                "full_attention" => Ok(false),
                other => Err(keys.refuse(format!("`layer_types` has `{}`, which is not implemented", shown(other)))),
            };
            types.iter().map(kind).collect::<Result<_, _>>()?
        }
        (None, Some(list), ..) => list,
        (None, None, Some(period), _) => every(period),
        (None, None, None, Some(first)) if asked == Some(true) => (0..layers).map(|l| l >= first).collect(),
        _ => every(if let Windows::AllBut(period) = traits.windows { period } else { 0 }),
    };
    if sliding.len() < layers {
        let name = keys.name(if types.is_some() { key("", "layer_types") } else { pattern });
        return Err(keys.refuse(format!("{name} has {} items for {layers} layers", sliding.len())));
    }
    if window.is_none() && !refused && types.is_some() && sliding[..layers].contains(&true) {
        return Err(keys.refuse("`layer_types` has sliding attention, and `sliding_window` is missing".into()));
    }
    Ok((window, sliding))
}
