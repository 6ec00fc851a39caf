//! Tokenizers on small made-up vocabularies: what they refuse, what they add, how they decode.

use onetrip_engine::files::{Metadata, Value};
use onetrip_engine::tokenizer::{Special, TokenKind, Tokenizer, TokenizerError};

const TYPES: &str = "tokenizer.ggml.token_type";
const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";

fn strs(items: &[&str]) -> Value {
    Value::Strs(items.iter().map(|&s| s.to_owned()).collect())
}

/// `<unk> <s> </s> <0x00>…<0xFF> ▁ a b ▁a ab <turn>`: 3 is the first byte, 259 the space.
fn sentence_piece() -> Metadata {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["▁", "a", "b", "▁a", "ab", "<turn>"].map(str::to_owned));
    let mut types = vec![2, 3, 3];
    types.extend([6; 256]);
    types.extend([1, 1, 1, 1, 1, 4]);
    let mut scores = vec![0.0; 259];
    scores.extend([-10.0, -11.0, -12.0, -2.0, -1.0, 0.0]);
    Metadata::from([
        ("tokenizer.ggml.model".to_owned(), Value::Str("llama".to_owned())),
        (TOKENS.to_owned(), Value::Strs(tokens)),
        (TYPES.to_owned(), Value::Ints(types)),
        (SCORES.to_owned(), Value::Floats(scores)),
        ("tokenizer.ggml.bos_token_id".to_owned(), Value::U64(1)),
        ("tokenizer.ggml.eos_token_id".to_owned(), Value::U64(2)),
        ("tokenizer.ggml.unknown_token_id".to_owned(), Value::U64(0)),
    ])
}

/// `a b c Ġ ab Ġab <|im_end|> Ã ©`, with the pre-tokenizer `pre`.
fn byte_level(pre: &str) -> Metadata {
    Metadata::from([
        ("tokenizer.ggml.model".to_owned(), Value::Str("gpt2".to_owned())),
        ("tokenizer.ggml.pre".to_owned(), Value::Str(pre.to_owned())),
        (TOKENS.to_owned(), strs(&["a", "b", "c", "Ġ", "ab", "Ġab", "<|im_end|>", "Ã", "©"])),
        (TYPES.to_owned(), Value::Ints(vec![1, 1, 1, 1, 1, 1, 3, 1, 1])),
        (MERGES.to_owned(), strs(&["a b", "Ġ ab"])),
    ])
}

fn refusal(metadata: &Metadata) -> String {
    let error = Tokenizer::from_gguf(metadata).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
    error
}

#[test]
fn adding_and_parsing_special_tokens_are_separate_choices() {
    let tokenizer = Tokenizer::from_gguf(&sentence_piece()).expect("builds");
    let ids = |add, parse| tokenizer.encode("ab</s>", Special { add, parse }).expect("encodes");
    let plain: Vec<u32> = "</s>".bytes().map(|b| 3 + u32::from(b)).collect();
    assert_eq!(ids(false, true), [259, 263, 2]);
    assert_eq!(ids(true, true), [1, 259, 263, 2]);
    assert_eq!(ids(false, false), [&[259, 263], plain.as_slice()].concat());
    assert_eq!(ids(true, false), [&[1, 259, 263], plain.as_slice()].concat());
}

#[test]
fn the_space_before_the_first_word_follows_every_special_token_and_can_be_switched_off() {
    let mut metadata = sentence_piece();
    let encode = |m: &Metadata, text: &str| {
        Tokenizer::from_gguf(m).and_then(|t| t.encode(text, Special::TEMPLATE)).expect("encodes")
    };
    assert_eq!(encode(&metadata, "a<turn>a a"), [262, 264, 262, 262]);
    metadata.insert("tokenizer.ggml.add_space_prefix".to_owned(), Value::Bool(false));
    assert_eq!(encode(&metadata, "a<turn>a a"), [260, 264, 260, 262]);
    assert_eq!(encode(&metadata, ""), [0_u32; 0]);
}

#[test]
fn decoding_undoes_encoding_and_hides_control_tokens() {
    let tokenizer = Tokenizer::from_gguf(&sentence_piece()).expect("builds");
    for text in ["ab a", " a", "naïve 世界 🙂\n", "a<turn>b", "", "\0\u{7f}"] {
        let ids = tokenizer.encode(text, Special::PROMPT).expect("encodes");
        // The tokenizer also puts a space behind the inner special token; decoding cannot distinguish it from one of the text.
        let expected = text.replace("<turn>b", "<turn> b");
        assert_eq!(tokenizer.decode(&ids), expected, "{ids:?}");
    }
    assert_eq!(tokenizer.decode_verbatim(&[1, 262, 2]), "<s> a</s>");
    let mut stream = tokenizer.stream();
    assert_eq!(stream.push(262), " a");
    assert_eq!((stream.push(3 + 0xC3), stream.push(3 + 0xA9)), (String::new(), "é".to_owned()));
}

#[test]
fn ids_outside_the_vocabulary_decode_to_the_replacement_character() {
    let tokenizer = Tokenizer::from_gguf(&sentence_piece()).expect("builds");
    assert_eq!(tokenizer.vocab_size(), 265);
    assert_eq!(tokenizer.decode(&[260, 265, u32::MAX, 261]), "a\u{FFFD}\u{FFFD}b");
    assert_eq!((tokenizer.kind(265), tokenizer.is_end(265), tokenizer.is_special(u32::MAX)), (None, false, false));
}

#[test]
fn generation_ends_at_the_eos_of_the_file_and_at_known_names_of_end_tokens() {
    let mut metadata = byte_level("gpt-2");
    metadata.insert("tokenizer.ggml.eos_token_id".to_owned(), Value::U64(4));
    let tokenizer = Tokenizer::from_gguf(&metadata).expect("builds");
    let ends: Vec<u32> = (0..9).filter(|&id| tokenizer.is_end(id)).collect();
    assert_eq!(ends, [4, 6]);
    assert_eq!((tokenizer.kind(6), tokenizer.is_special(6)), (Some(TokenKind::Control), true));
    metadata.insert(TYPES.to_owned(), Value::Ints(vec![1; 9]));
    let tokenizer = Tokenizer::from_gguf(&metadata).expect("builds");
    // Converters have typed such tokens as normal; nobody writes them as text.
    assert_eq!((tokenizer.is_end(6), tokenizer.kind(6)), (true, Some(TokenKind::Control)));
    // As a user-defined token `</s>` is an HTML tag; `<turn>` has no name that ends anything.
    let mut metadata = sentence_piece();
    metadata.remove("tokenizer.ggml.eos_token_id");
    assert!(Tokenizer::from_gguf(&metadata).expect("builds").is_end(2));
    if let Some(Value::Ints(types)) = metadata.get_mut(TYPES) {
        types[2] = 4;
    }
    let tokenizer = Tokenizer::from_gguf(&metadata).expect("builds");
    assert_eq!((tokenizer.is_end(2), tokenizer.is_end(264)), (false, false));
}

#[test]
fn byte_level_merges_go_by_rank_and_words_by_the_pre_tokenizer() {
    let tokenizer = Tokenizer::from_gguf(&byte_level("gpt-2")).expect("builds");
    let ids = |text: &str| tokenizer.encode(text, Special::PROMPT).expect("encodes");
    assert_eq!(ids("ab abc"), [4, 5, 2]);
    assert_eq!(ids("aé"), [0, 7, 8]);
    assert_eq!(tokenizer.decode(&[5, 7, 8, 6]), " abé");
    for pre in ["llama-bpe", "qwen2", "smollm", "default", "starcoder"] {
        let tokenizer = Tokenizer::from_gguf(&byte_level(pre)).expect(pre);
        assert_eq!(tokenizer.encode("ab ab", Special::NONE).expect("encodes"), [4, 5], "{pre}");
    }
}

#[test]
fn digits_are_cut_as_each_pre_tokenizer_says() {
    let tokens: Vec<String> = (0..=255u8)
        .map(|b| if b.is_ascii_graphic() { (b as char).to_string() } else { format!("<{b}>") })
        .chain(["12", "123", "1234"].map(str::to_owned))
        .collect();
    let count = |pre: &str, text: &str| {
        let mut metadata = byte_level(pre);
        metadata.remove(TYPES);
        metadata.insert(TOKENS.to_owned(), Value::Strs(tokens.clone()));
        metadata.insert(MERGES.to_owned(), strs(&["1 2", "12 3", "123 4"]));
        Tokenizer::from_gguf(&metadata).and_then(|t| t.encode(text, Special::NONE)).expect("encodes").len()
    };
    assert_eq!(count("gpt-2", "1234"), 1);
    assert_eq!(count("llama-bpe", "1234"), 2);
    assert_eq!(count("qwen2", "1234"), 4);
    assert_eq!(count("smollm", "1234"), 4);
    assert_eq!(count("default", "1234"), 2);
    for (pre, tokens) in [
        ("tekken", 4),
        ("gpt-4o", 2),
        ("llama4", 2),
        ("deepseek-v3", 2),
        ("deepseek-coder", 4),
        ("falcon", 2),
        ("olmo", 1),
    ] {
        assert_eq!(count(pre, "1234"), tokens, "{pre}");
    }
}

#[test]
fn very_long_runs_of_one_character_encode_and_decode() {
    let tokenizer = Tokenizer::from_gguf(&byte_level("llama-bpe")).expect("builds");
    for text in [" ".repeat(1_200_000), "ab".repeat(600_000), " ab".repeat(400_000)] {
        let ids = tokenizer.encode(&text, Special::PROMPT).expect("encodes");
        assert_eq!(tokenizer.decode(&ids), text);
    }
    // Text behind a run that is too long for the regex engine is still cut into words, and so is a long text in which one of
    // several patterns matches nothing.
    for pre in ["llama-bpe", "qwen2", "qwen35", "gpt-2", "smollm", "default"] {
        let tokenizer = Tokenizer::from_gguf(&byte_level(pre)).expect("builds");
        let words = " ab".repeat(100_000);
        for text in [format!("ab{words}"), format!("ab{}{words}", " ".repeat(1_500_000))] {
            let ids = tokenizer.encode(&text, Special::PROMPT).expect("encodes");
            let spaces = text.len() - words.len() - 2;
            assert_eq!((ids.len(), ids[0]), (spaces + 100_001, 4), "{pre}");
            assert!(ids[1..=spaces].iter().all(|&id| id == 3) && ids[1 + spaces..].iter().all(|&id| id == 5), "{pre}");
        }
    }
}

#[test]
fn a_key_that_is_missing_or_of_the_wrong_type_is_named() {
    for base in [sentence_piece(), byte_level("qwen2")] {
        for key in base.keys() {
            let mut metadata = base.clone();
            metadata.insert(key.clone(), Value::F64(0.5));
            assert!(refusal(&metadata).contains(key.as_str()), "{key}");
        }
        for key in ["tokenizer.ggml.model", TOKENS] {
            let mut metadata = base.clone();
            metadata.remove(key);
            assert!(matches!(Tokenizer::from_gguf(&metadata), Err(TokenizerError::Missing { key: k }) if k == key));
        }
    }
    for (base, key) in [(sentence_piece(), SCORES), (byte_level("qwen2"), MERGES)] {
        let mut metadata = base;
        metadata.remove(key);
        assert!(refusal(&metadata).contains(key));
    }
}

#[test]
fn arrays_of_the_wrong_length_are_refused_and_ids_outside_the_vocabulary_are_noted() {
    let changes =
        [(TYPES, Value::Ints(vec![1, 2, 3])), (SCORES, Value::Floats(vec![0.0; 266])), (TOKENS, Value::Strs(vec![]))];
    for (key, value) in changes {
        let mut metadata = sentence_piece();
        metadata.insert(key.to_owned(), value);
        assert!(refusal(&metadata).contains(key), "{key}");
    }
    let ids = [
        ("tokenizer.ggml.bos_token_id", Value::U64(265)),
        ("tokenizer.ggml.eos_token_id", Value::I64(-1)),
        ("tokenizer.ggml.eot_token_id", Value::U64(u64::MAX)),
        ("tokenizer.ggml.unknown_token_id", Value::U64(1 << 32)),
    ];
    for (key, value) in ids {
        let mut metadata = sentence_piece();
        metadata.insert(key.to_owned(), value);
        let tokenizer = Tokenizer::from_gguf(&metadata).expect("builds");
        assert!(tokenizer.notes().len() == 1 && tokenizer.notes()[0].contains(key), "{:?}", tokenizer.notes());
    }
}

#[test]
fn merges_that_are_malformed_or_name_missing_tokens_are_refused() {
    for merge in ["", "a", "a ", " b", "a b c", "x y", "a c", "ab ab", "Ġab Ġab"] {
        let mut metadata = byte_level("gpt-2");
        metadata.insert(MERGES.to_owned(), strs(&["a b", merge]));
        let message = refusal(&metadata);
        assert!(message.contains("merge 1") && message.contains(&format!("{merge:?}")), "{message}");
    }
}

#[test]
fn unknown_kinds_of_tokenizer_are_refused_with_the_kinds_that_work() {
    let mut metadata = byte_level("gpt-2");
    metadata.insert("tokenizer.ggml.model".to_owned(), Value::Str("t5".to_owned()));
    let message = refusal(&metadata);
    assert!(message.contains("\"t5\"") && message.contains("gpt2") && message.contains("llama"), "{message}");
    let message = refusal(&byte_level("wordy"));
    assert!(message.contains("\"wordy\"") && message.contains("llama-bpe, "), "{message}");
}

#[test]
fn bytes_without_a_token_need_an_unknown_token() {
    let mut metadata = Metadata::from([
        ("tokenizer.ggml.model".to_owned(), Value::Str("llama".to_owned())),
        (TOKENS.to_owned(), strs(&["a", "?"])),
        (SCORES.to_owned(), Value::Floats(vec![0.0, 0.0])),
    ]);
    assert!(refusal(&metadata).contains("<0x00>"));
    metadata.insert("tokenizer.ggml.unknown_token_id".to_owned(), Value::U64(1));
    let tokenizer = Tokenizer::from_gguf(&metadata).expect("builds");
    assert_eq!(tokenizer.encode("ab", Special::NONE).expect("encodes"), [1, 1, 1, 0, 1]);
}

#[test]
fn of_two_equal_tokens_text_becomes_the_last_and_both_decode() {
    let mut metadata = sentence_piece();
    if let Some(Value::Strs(tokens)) = metadata.get_mut(TOKENS) {
        tokens[263] = "a".to_owned();
    }
    let tokenizer = Tokenizer::from_gguf(&metadata).expect("builds");
    assert_eq!(tokenizer.encode("ba", Special::NONE).expect("encodes"), [259, 261, 263]);
    assert_eq!(tokenizer.decode(&[260, 263]), "aa");
}
