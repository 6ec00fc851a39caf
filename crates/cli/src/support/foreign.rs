//! Flags and commands of llama.cpp and ollama that are not ours, each with ours by name. What means exactly the same here is
//! an alias of our flag instead, and not in this table.

use std::ffi::OsString;

/// Flags of another program, and what to give instead.
struct Foreign {
    flags: &'static [&'static str],
    /// Commands in which they stand for the answer; all where there is none.
    of: &'static [&'static str],
    /// Goes on behind `llama.cpp's -ngl`.
    answer: &'static str,
}

const fn foreign(flags: &'static [&'static str], of: &'static [&'static str], answer: &'static str) -> Foreign {
    Foreign { flags, of, answer }
}

/// Commands that make text.
const TEXT: &[&str] = &["run", "chat"];
/// Commands that look at one step's plan.
const PLAN: &[&str] = &["explain", "count", "profile"];

/// The first that fits is the answer.
const LLAMA: &[Foreign] = &[
    foreign(
        &["-ngl", "--gpu-layers", "--n-gpu-layers"],
        &[],
        "has no counterpart: --device cuda or --device wgpu runs the whole model on the GPU, --device cpu none of it",
    ),
    foreign(&["-dev", "-mg", "--main-gpu"], &[], "is --device here, such as --device cuda:1"),
    foreign(
        &["-sm", "--split-mode", "-ts", "--tensor-split"],
        &[],
        "has no counterpart: a model runs on the one device that --device names",
    ),
    foreign(&["-p", "--prompt"], &["run"], "TEXT is an argument here: onetrip run MODEL.gguf \"TEXT\""),
    foreign(&["-p", "--prompt"], &["tokenize"], "TEXT is an argument here: onetrip tokenize MODEL.gguf \"TEXT\""),
    foreign(&["-p", "--prompt"], &["chat"], "TEXT is --system TEXT here, or onetrip run --chat MODEL.gguf \"TEXT\""),
    foreign(&["-p", "--prompt"], &["ppl"], "is --text FILE here"),
    foreign(&["-p"], PLAN, "is --phase prefill --prompt T here"),
    foreign(&["-f", "--file"], &["run"], "FILE is standard input here: onetrip run MODEL.gguf < FILE"),
    foreign(&["-f", "--file"], &["tokenize"], "FILE is standard input here: onetrip tokenize MODEL.gguf < FILE"),
    foreign(&["-f", "--file"], &["chat"], "FILE is standard input here, a turn a line: onetrip chat MODEL.gguf < FILE"),
    foreign(
        &["-c", "--ctx-size"],
        &["bench"],
        "has no counterpart: bench makes the room that it needs; --context L is the positions before the generation",
    ),
    foreign(&["-c", "--ctx-size"], PLAN, "is --context L here: the positions of each sequence after the step"),
    foreign(&["-d", "--n-depth"], &["bench"], "is --context L here, of the generation alone"),
    foreign(&["-b", "--batch-size", "-ub", "--ubatch-size"], &["ppl"], "is --rows N here: tokens of a step"),
    foreign(
        &["-b", "--batch-size", "-ub", "--ubatch-size"],
        &[],
        "has no counterpart: the engine cuts a prompt into steps by itself; leave it out",
    ),
    foreign(&["-np", "--parallel"], &["bench", "explain", "count", "profile"], "is --batch S here"),
    foreign(&["-tb", "--threads-batch"], &[], "is --threads N here, for prompts and generation alike"),
    foreign(
        &["-fa", "--flash-attn"],
        &[],
        "has no counterpart: attention is always one fused kernel here; leave it out",
    ),
    foreign(&["-ctk", "-ctv", "--cache-type-k", "--cache-type-v"], &[], "is --cache TYPE here, for keys and values"),
    foreign(&["-sys", "--system-prompt"], TEXT, "is --system TEXT here (run takes it with --chat)"),
    foreign(&["-r", "--reverse-prompt"], TEXT, "is --stop TEXT here"),
    foreign(
        &["-cnv", "--conversation", "-i", "--interactive", "-if", "--interactive-first"],
        &["run"],
        "is a command here: onetrip chat MODEL.gguf",
    ),
    foreign(
        &["-cnv", "--conversation", "-i", "--interactive", "-if", "--interactive-first"],
        &["chat"],
        "has no counterpart: chat is always a conversation; leave it out",
    ),
    foreign(&["-no-cnv", "--no-conversation"], &["chat"], "is a command here: onetrip run MODEL.gguf \"TEXT\""),
    foreign(
        &["-no-cnv", "--no-conversation"],
        &["run"],
        "has no counterpart: run only continues a text without --chat; leave it out",
    ),
    foreign(&["-st", "--single-turn"], TEXT, "is run --chat here: onetrip run --chat MODEL.gguf \"TEXT\""),
    foreign(
        &["--chat-template", "--chat-template-file", "--jinja", "--no-jinja"],
        TEXT,
        "has no counterpart: the model's own chat template is used; leave it out",
    ),
    foreign(
        &[
            "--mlock",
            "--no-mmap",
            "--numa",
            "--prio",
            "--poll",
            "-C",
            "--cpu-mask",
            "-cb",
            "--cont-batching",
            "--no-warmup",
        ],
        &[],
        "has no counterpart: leave it out",
    ),
    foreign(
        &["-e", "--escape", "--no-escape"],
        &["run", "tokenize"],
        "has no counterpart: a text is taken as it is; a shell writes a line break as $'\\n'",
    ),
    foreign(&["--repeat-last-n"], TEXT, "has no counterpart: --repeat-penalty looks at the last 64 tokens"),
    foreign(
        &["--presence-penalty", "--frequency-penalty"],
        TEXT,
        "has no counterpart: --repeat-penalty is the one penalty here",
    ),
    foreign(
        &[
            "--typical",
            "--typical-p",
            "--mirostat",
            "--mirostat-lr",
            "--mirostat-ent",
            "--samplers",
            "--xtc-probability",
            "--dry-multiplier",
            "--dynatemp-range",
        ],
        TEXT,
        "has no counterpart: tokens are chosen by --temperature, --top-k, --top-p, --min-p and --repeat-penalty",
    ),
    foreign(
        &["--grammar", "--grammar-file", "-j", "--json-schema", "--logit-bias", "-l"],
        TEXT,
        "has no counterpart: texts are not held to a grammar here",
    ),
    foreign(&["--lora", "-md", "--model-draft", "-mm", "--mmproj", "--prompt-cache"], &[], "has no counterpart here"),
    foreign(
        &["-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-mu", "--model-url"],
        &[],
        "has no counterpart: onetrip fetches nothing; download the .gguf file and give its path",
    ),
    foreign(&["--no-display-prompt"], TEXT, "has no counterpart: a prompt is never printed again; leave it out"),
    foreign(
        &["-v", "--verbose", "--log-disable"],
        &[],
        "has no counterpart: figures go to standard error, which 2>/dev/null leaves out",
    ),
    foreign(&["-o", "--output"], &["bench"], "is --json here"),
    foreign(&["-pg"], &["bench"], "is --prompt T --gen N here, each measured by itself"),
];

const OLLAMA: &[Foreign] = &[
    foreign(&["--num-ctx", "--num_ctx"], TEXT, "is --context L here"),
    foreign(&["--num-predict", "--num_predict"], TEXT, "is -n N here"),
    foreign(
        &["--num-gpu", "--num_gpu"],
        &[],
        "has no counterpart: --device cuda or --device wgpu runs the whole model on the GPU",
    ),
    foreign(&["--num-thread", "--num_thread"], &[], "is --threads N here"),
    foreign(&["--format"], TEXT, "is --json here, of the program's report: texts are not held to a format"),
    foreign(
        &["--keepalive", "--nowordwrap", "--think", "--hidethinking", "--insecure"],
        TEXT,
        "has no counterpart: leave it out",
    ),
];

/// Words in the place of a command, and what to give instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["pull", "push", "create", "cp", "rm", "list", "ls"],
        "onetrip keeps no store of models: download a .gguf file and give its path, as in `onetrip chat MODEL.gguf`",
    ),
    (&["show"], "a model's contents: `onetrip inspect MODEL.gguf`"),
    (
        &["ps", "stop", "serve", "server"],
        "onetrip has no server: `onetrip run` and `onetrip chat` load the model themselves",
    ),
    (&["generate", "cli", "completion"], "text: `onetrip run MODEL.gguf \"TEXT\"`, or `onetrip chat MODEL.gguf`"),
    (&["perplexity"], "perplexity: `onetrip ppl MODEL.gguf --text FILE`"),
    (&["quantize"], "onetrip writes no models: --weights TYPE converts the matrices when a model is loaded"),
];

/// The word in the place of the command.
pub fn command(arguments: &[OsString]) -> Option<&str> {
    arguments.iter().filter_map(|a| a.to_str()).find(|a| !a.starts_with('-'))
}

/// Ours by name, if one of the arguments of a command (the program's name is none) is a flag of another program.
pub fn answer(arguments: &[OsString]) -> Option<String> {
    let command = command(arguments)?;
    let before_texts = arguments.iter().take_while(|a| *a != "--").filter_map(|a| a.to_str());
    before_texts.filter(|a| a.starts_with('-')).find_map(|argument| {
        let flag = argument.split_once('=').map_or(argument, |(flag, _)| flag);
        let of = |(whose, table): (&str, &'static [Foreign])| {
            let is_it = |f: &&Foreign| f.flags.contains(&flag) && (f.of.is_empty() || f.of.contains(&command));
            table.iter().find(is_it).map(|f| format!("{whose}'s {flag} {}", f.answer))
        };
        [("llama.cpp", LLAMA), ("ollama", OLLAMA)].into_iter().find_map(of)
    })
}

/// What to give in the place of a command that there is not.
pub fn command_answer(word: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, answer)| *answer)
}

/// How a text of several words is given to a command.
pub fn in_quotes(command: &str) -> String {
    format!("put a text of several words in quotes, as in `onetrip {command} MODEL.gguf \"It is a truth\"`")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn of(line: &str) -> Option<String> {
        answer(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn no_flag_of_another_program_is_one_of_ours() {
        let program = crate::Cli::command();
        for command in program.get_subcommands() {
            let name = command.get_name();
            for arg in command.get_arguments() {
                let short = arg.get_short_and_visible_aliases().into_iter().flatten();
                let hidden = arg.get_all_short_aliases().into_iter().flatten();
                let long = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
                let flags = short.chain(hidden).map(|c| format!("-{c}")).chain(long.map(|l| format!("--{l}")));
                for flag in flags {
                    assert_eq!(of(&format!("{name} {flag}")), None, "{name} has {flag}");
                }
            }
        }
    }

    #[test]
    fn commands_of_the_table_are_ours() {
        let program = crate::Cli::command();
        let ours = |name: &str| program.get_subcommands().any(|c| c.get_name() == name);
        for f in LLAMA.iter().chain(OLLAMA) {
            assert!(f.of.iter().all(|name| ours(name)), "{:?}", f.of);
        }
        assert!(COMMANDS.iter().flat_map(|(words, _)| *words).all(|word| !ours(word)));
    }

    #[test]
    fn a_flag_is_known_with_its_value_and_not_behind_two_dashes() {
        assert!(of("run -ngl=99 m.gguf").is_some_and(|a| a.starts_with("llama.cpp's -ngl ")));
        assert!(of("--json run m.gguf -p hi").is_some_and(|a| a.contains("onetrip run MODEL.gguf")));
        assert!(of("ppl -p hi").is_some_and(|a| a.contains("--text")));
        assert_eq!(of("run m.gguf -- -ngl"), None);
        assert_eq!(of("run --stop=-p"), None);
    }
}
