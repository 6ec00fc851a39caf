//! `onetrip tokenize`: text to ids, ids to text.

use clap::Args;
use onetrip_engine::tokenizer::Special;
use serde_json::json;

use crate::support::fail::Fail;
use crate::support::options::{FileArgs, Ids, utf8};
use crate::support::output::{Out, escaped, table};
use crate::support::{load, prompt};

/// Flags of `tokenize`.
#[derive(Args)]
pub struct TokenizeArgs {
    #[command(flatten)]
    file: FileArgs,
    /// The text; `-` or nothing reads it from stdin (without its last line break). A single argument is this text, unless it
    /// ends in .gguf or is a model's file or folder
    #[arg(index = 2, value_name = "TEXT", value_parser = utf8())]
    text: Option<String>,
    /// The text alone: no BOS is added, and `<|im_end|>` and the like are plain text
    #[arg(long)]
    plain: bool,
    /// Turn token ids into text instead: 1,2,3 or @FILE
    #[arg(long, value_name = "IDS", conflicts_with = "plain")]
    decode: Option<Ids>,
}

impl TokenizeArgs {
    /// Settles which arguments are the model and the text.
    pub fn settle(&mut self) -> Result<(), Fail> {
        self.file.settle_with_text(&mut self.text, "tokenize")?;
        if self.decode.is_some() && self.text.is_some() {
            return Err(Fail::Usage("--decode IDS and a TEXT are both given: leave one of them out".into()));
        }
        Ok(())
    }
}

/// Runs the command.
pub fn main(args: TokenizeArgs, out: &Out) -> Result<(), Fail> {
    let tokenizer = load::tokenizer(&load::file(args.file.path())?)?;
    if let Some(Ids(ids)) = &args.decode {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= tokenizer.vocab_size()) {
            let last = tokenizer.vocab_size().saturating_sub(1);
            return Err(Fail::Input(format!("token id {id} is outside the vocabulary: ids go from 0 to {last}")));
        }
        let text = tokenizer.decode(ids);
        return match out.json {
            true => out.object(&json!({ "tokens": ids, "text": text, "verbatim": tokenizer.decode_verbatim(ids) })),
            false => out.line(&text),
        };
    }
    let text = prompt::text(args.text.as_deref(), || "give one, as in `onetrip tokenize \"It is a truth\"`".into())?;
    let ids = prompt::encode(&tokenizer, &text, if args.plain { Special::NONE } else { Special::PROMPT })?;
    let piece = |id: u32| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned();
    if out.json {
        let pieces: Vec<String> = ids.iter().map(|&id| piece(id)).collect();
        return out.object(&json!({ "tokens": ids, "pieces": pieces }));
    }
    let rows: Vec<_> = ids.iter().map(|&id| vec![id.to_string(), format!("\"{}\"", escaped(&piece(id)))]).collect();
    out.text(&table(&[">id", "piece"], &rows))?;
    let list: Vec<String> = ids.iter().map(u32::to_string).collect();
    out.line(&format!("\n{} tokens of {} bytes: {}", ids.len(), text.len(), list.join(",")))
}
