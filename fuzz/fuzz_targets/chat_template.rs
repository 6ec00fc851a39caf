//! Bytes as the source of a chat template: a text below the limit or a one-line error, in bounded time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onetrip_engine::chat::{ChatTemplate, Message};

fuzz_target!(|data: &[u8]| {
    let source = String::from_utf8_lossy(data);
    let messages = [
        Message::new("system", "Be kind. "),
        Message::new("user", "naïve {{ x }}\n"),
        Message::new("assistant", "<think>\nhm</think>b"),
        Message::new("user", ""),
    ];
    let result = ChatTemplate::new(&source, "<s>", "</s>").and_then(|template| template.render(&messages, true));
    match result {
        Ok(text) => assert!(text.len() < 2 << 20),
        Err(error) => {
            let error = error.to_string();
            assert!(!error.contains('\n'), "{error}");
            assert!(!error.contains("a panic"), "{error}");
        }
    }
});
