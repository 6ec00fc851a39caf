//! Tests of tokenizers from `tokenizer.json` and the files beside it, with small made-up files.

use std::path::Path;

use onetrip_engine::tokenizer::{Special, TokenKind, Tokenizer};
use serde_json::{Value, json};

/// Byte-level BPE with NFC, an added control token and an added token that is text.
fn byte_level() -> Value {
    json!({
        "version": "1.0", "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": null,
        "added_tokens": [
            {"id": 8, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true},
            {"id": 9, "content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": false}
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "vocab": {"a": 0, "b": 1, "e": 2, "Ġ": 3, "ab": 4, "Ġab": 5, "Ã": 6, "©": 7},
                  "merges": ["a b", "Ġ ab"]}
    })
}

fn build(json: &Value) -> Result<Tokenizer, String> {
    Tokenizer::from_json_slice(json.to_string().as_bytes()).map_err(|e| e.to_string())
}

fn write(folder: &Path, name: &str, content: &str) {
    std::fs::write(folder.join(name), content).expect("the folder can be written to");
}

#[test]
fn text_is_normalised_cut_and_merged_as_the_file_says_and_never_truncated() {
    let tokenizer = build(&byte_level()).expect("builds");
    let ids = |text: &str| tokenizer.encode(text, Special::TEMPLATE).expect("encodes");
    assert_eq!(ids("ab ab ab"), [4, 5, 5]);
    assert_eq!(ids("e\u{301}"), [6, 7]);
    assert_eq!(tokenizer.decode(&[4, 5, 6, 7]), "ab abé");
}

#[test]
fn control_tokens_are_text_when_parsing_is_off_and_added_text_tokens_are_always_found() {
    let tokenizer = build(&byte_level()).expect("builds");
    let ids = |parse| tokenizer.encode("a<|im_end|><tool>", Special { add: false, parse }).expect("encodes");
    assert_eq!(ids(true), [0, 8, 9]);
    // Read as plain text, `<|im_end|>` gives one id, since the vocabulary has only one of its letters.
    assert_eq!(ids(false), [0, 2, 9]);
    assert!(tokenizer.is_end(8) && tokenizer.is_special(8) && !tokenizer.is_special(9));
    assert_eq!(tokenizer.kind(9), Some(TokenKind::UserDefined));
    assert_eq!(tokenizer.decode(&[0, 8, 9, 10]), "a<tool>\u{FFFD}");
}

#[test]
fn the_files_beside_it_give_bos_eos_end_ids_and_the_chat_template() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    write(folder.path(), "tokenizer.json", &byte_level().to_string());
    let bare = Tokenizer::from_json_file(&path).expect("builds");
    assert_eq!((bare.bos(), bare.eos(), bare.chat_template()), (None, None, None));

    let config = json!({"bos_token": "a", "eos_token": {"content": "b"}, "add_bos_token": true, "add_eos_token": true,
        "chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]});
    write(folder.path(), "tokenizer_config.json", &config.to_string());
    write(folder.path(), "generation_config.json", r#"{"eos_token_id": [1, 5, 99]}"#);
    let tokenizer = Tokenizer::from_json_file(&path).expect("builds");
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.chat_template()), (Some(0), Some(1), Some("D")));
    assert_eq!(tokenizer.encode("ab", Special::PROMPT).expect("encodes"), [0, 4, 1]);
    assert_eq!(tokenizer.encode("ab", Special::TEMPLATE).expect("encodes"), [4]);
    assert_eq!((0..10).filter(|&id| tokenizer.is_end(id)).collect::<Vec<_>>(), [1, 5, 8]);

    write(folder.path(), "chat_template.jinja", "J");
    assert_eq!(Tokenizer::from_json_file(&path).expect("builds").chat_template(), Some("J"));
    write(folder.path(), "generation_config.json", "{");
    let error = Tokenizer::from_json_file(&path).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("generation_config.json"), "{error}");
}

#[test]
fn a_bos_that_the_template_of_the_file_adds_is_not_added_twice() {
    let mut json = byte_level();
    json["post_processor"] = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|im_end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<|im_end|>": {"id": "<|im_end|>", "ids": [8], "tokens": ["<|im_end|>"]}}});
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "tokenizer.json", &json.to_string());
    write(folder.path(), "tokenizer_config.json", r#"{"bos_token": "<|im_end|>", "add_bos_token": true}"#);
    let tokenizer = Tokenizer::from_json_file(&folder.path().join("tokenizer.json")).expect("builds");
    assert!(tokenizer.adds_bos());
    assert_eq!(tokenizer.encode("ab", Special::PROMPT).expect("encodes"), [8, 4]);
    assert_eq!(tokenizer.encode("ab", Special::TEMPLATE).expect("encodes"), [4]);
}

#[test]
fn files_that_are_not_tokenizers_are_refused_in_one_line() {
    let mut long_merge = byte_level();
    // Both halves of this merge are tokens, but the merged text is not; it is longer than every token.
    long_merge["model"]["merges"] = json!(["Ġab Ġab"]);
    let mut odd_merge = byte_level();
    odd_merge["model"]["merges"] = json!([["a", "b"], "ab"]);
    let mut far = byte_level();
    far["model"]["vocab"]["zz"] = json!(4_000_000_000_u32);
    far["added_tokens"] = json!([]);
    let mut empty = byte_level();
    empty["model"]["vocab"] = json!({});
    empty["model"]["merges"] = json!([]);
    empty["added_tokens"] = json!([]);
    let mut moved = byte_level();
    moved["added_tokens"][0]["id"] = json!(20);
    let template = |token: &str, id: u32| {
        json!({"type": "TemplateProcessing", "pair": [],
               "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
               "special_tokens": {"<s>": {"id": "<s>", "ids": [id], "tokens": ["<s>"]}}})
    };
    let (mut undefined, mut outside) = (byte_level(), byte_level());
    undefined["post_processor"] = template("</s>", 8);
    outside["post_processor"] = template("<s>", 77);
    let (mut unknown, mut unigram) = (byte_level(), byte_level());
    unknown["model"]["unk_token"] = json!("<unk>");
    unigram["model"]["type"] = json!("Unigram");
    let mut prefix = byte_level();
    prefix["model"]["continuing_subword_prefix"] = json!("##");
    for (json, word) in [
        (json!({}), "model"),
        (json!([1]), "tokenizer.json"),
        (long_merge, "merge 0"),
        (odd_merge, "merge 1"),
        (far, "4000000000"),
        (empty, "empty"),
        (prefix, "prefixes"),
        (undefined, "\"</s>\""),
        (outside, "id 77"),
        (unknown, "unk_token"),
        (unigram, "Unigram"),
        (moved, "<|im_end|>"),
    ] {
        let error = build(&json).err().unwrap_or_default();
        assert!(error.contains(word) && !error.contains('\n'), "{word}: {error:?}");
    }
    assert!(Tokenizer::from_json_slice(b"{").is_err());
    assert!(Tokenizer::from_json_file(Path::new("no/such/tokenizer.json")).is_err());
}
