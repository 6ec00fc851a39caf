//! Bytes as a `tokenizer.json`: a tokenizer or a one-line error, and a tokenizer encodes and decodes without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onetrip_engine::tokenizer::{Special, Tokenizer};

fuzz_target!(|data: &[u8]| {
    match Tokenizer::from_json_slice(data) {
        Ok(tokenizer) => {
            for text in ["ab a <s>", "é世界\n\n🙂"] {
                for special in [Special::NONE, Special::PROMPT] {
                    if let Ok(ids) = tokenizer.encode(text, special) {
                        let _ = tokenizer.decode(&ids);
                    }
                }
            }
            let ids: Vec<u32> = data.iter().map(|&byte| u32::from(byte)).collect();
            let _ = tokenizer.decode(&ids);
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
