//! Bytes to the metadata of a tokenizer and a text: building it gives a tokenizer or an error, and a tokenizer encodes,
//! decodes and streams anything without a panic, with ids inside its vocabulary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onetrip_engine::files::{Metadata, Value};
use onetrip_engine::tokenizer::{Special, Tokenizer};

/// Reads small values off the front of the input; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn text(&mut self, longest: u8) -> String {
        let length = usize::from(self.byte() % (longest + 1)).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.byte()).map_while(|_| if self.0.is_empty() { None } else { Some(item(self)) }).collect()
    }
}

fn metadata(input: &mut Input) -> Metadata {
    let mut metadata = Metadata::new();
    let mut set = |key: &str, value: Value| metadata.insert(format!("tokenizer.{key}"), value);
    let flags = input.byte();
    let sentence_piece = flags & 1 == 0;
    set("ggml.model", Value::Str(if sentence_piece { "llama" } else { "gpt2" }.to_owned()));
    let pres = ["gpt-2", "llama-bpe", "qwen2", "smollm", "default", "dbrx", "other"];
    set("ggml.pre", Value::Str(pres[usize::from(input.byte()) % pres.len()].to_owned()));

    let mut tokens = input.list(|input| input.text(6));
    if flags & 2 == 0 {
        // All bytes, so that more of the input gets past the first check.
        tokens.extend(
            (0..=255u8).map(|byte| if sentence_piece { format!("<0x{byte:02X}>") } else { spelled(byte).to_string() }),
        );
    }
    let mut types: Vec<i64> = input.list(|input| i64::from(input.byte() % 8));
    let mut scores: Vec<f64> = input.list(|input| f64::from(input.byte()) / 7.0 - 9.0);
    if flags & 4 == 0 {
        types.resize(tokens.len(), 1);
        scores.resize(tokens.len(), f64::NAN);
    }
    let count = tokens.len().max(1);
    let merges = input.list(|input| {
        if input.byte() % 16 == 0 {
            return input.text(6);
        }
        let mut token = || tokens.get(usize::from(input.byte()) * 2 % count).map_or("", String::as_str);
        format!("{} {}", token(), token())
    });
    set("ggml.tokens", Value::Strs(tokens));
    if flags & 8 == 0 {
        set("ggml.token_type", Value::Ints(types));
    }
    set("ggml.scores", Value::Floats(scores));
    set("ggml.merges", Value::Strs(merges));
    for key in ["bos", "eos", "eot", "unknown"] {
        let id = input.byte();
        if id < 0x80 {
            set(&format!("ggml.{key}_token_id"), Value::U64(u64::from(id)));
        }
    }
    let switches = input.byte();
    for (bit, key) in ["add_bos_token", "add_eos_token", "add_space_prefix"].iter().enumerate() {
        set(&format!("ggml.{key}"), Value::Bool(switches >> bit & 1 == 1));
    }
    metadata
}

/// GPT-2's character of a byte.
fn spelled(byte: u8) -> char {
    let moved = match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => return char::from(byte),
        0x00..=0x20 => u32::from(byte),
        0x7F..=0xA0 => 33 + u32::from(byte - 0x7F),
        0xAD => 67,
    };
    char::from_u32(0x100 + moved).unwrap_or('?')
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let tokenizer = match Tokenizer::from_gguf(&metadata(&mut input)) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(input.0);
    for (add, parse) in [(false, false), (true, true), (false, true)] {
        let ids = tokenizer.encode(&text, Special { add, parse }).expect("short texts encode");
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
        check_decoding(&tokenizer, &ids);
    }
    // Ids that no encoder made, some of them outside the vocabulary.
    let ids: Vec<u32> = data.chunks(2).map(|two| u32::from(two[0]) << (two.last().unwrap_or(&0) % 24)).collect();
    check_decoding(&tokenizer, &ids);
});

fn check_decoding(tokenizer: &Tokenizer, ids: &[u32]) {
    let mut stream = tokenizer.stream_from_start();
    let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
    text.push_str(&stream.flush());
    assert_eq!(text, tokenizer.decode(ids));

    let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id)).copied().collect();
    assert_eq!(tokenizer.decode_verbatim(ids), String::from_utf8_lossy(&bytes));
    for &id in ids {
        let _ = (tokenizer.is_end(id), tokenizer.is_special(id), tokenizer.kind(id));
    }
}
