//! Where the lines of a conversation come from: a person at a terminal, or a pipe.

use std::io::{BufRead, IsTerminal, Read};
use std::path::PathBuf;

use onetrip_engine::switch;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

use crate::support::fail::Fail;
use crate::support::output::{Out, note};
use crate::support::prompt;

/// Most lines that are remembered from one run to the next.
const REMEMBERED: usize = 1000;

/// Where lines come from.
pub enum Lines {
    /// A person, with history (arrow up) and editing. The history is kept in this file.
    Editor(Box<DefaultEditor>, Option<PathBuf>),
    /// A pipe: each line is a turn, and no prompt is shown.
    Pipe(usize),
}

/// What came of asking for a line.
pub enum Line {
    Text(String),
    Nothing,
    End,
}

impl Lines {
    pub fn new(out: &Out) -> Result<Lines, Fail> {
        if !std::io::stdin().is_terminal() || out.is_json() {
            return Ok(Lines::Pipe(0));
        }
        let fail = |e| Fail::Work(format!("cannot use the terminal: {e}"));
        let config = Config::builder().max_history_size(REMEMBERED).map_err(fail)?.build();
        let mut editor = DefaultEditor::with_config(config).map_err(fail)?;
        let file = switch::history_file();
        if let Some(file) = &file {
            // There is no history before the first conversation.
            let _ = editor.load_history(file);
        }
        Ok(Lines::Editor(Box::new(editor), file))
    }

    pub fn next(&mut self) -> Result<Line, Fail> {
        match self {
            Lines::Editor(editor, file) => match editor.readline("> ") {
                Ok(line) => {
                    // A line that cannot be remembered is still a line, and a folder that cannot be written no reason to stop.
                    let _ = editor.add_history_entry(&line);
                    if let Some(file) = file {
                        let made = file.parent().is_none_or(|folder| std::fs::create_dir_all(folder).is_ok());
                        let _ = if made { editor.save_history(file) } else { Ok(()) };
                    }
                    Ok(Line::Text(line))
                }
                Err(ReadlineError::Interrupted) => {
                    note("(Ctrl-D or /exit leaves, /help lists commands)");
                    Ok(Line::Nothing)
                }
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(e) => Err(Fail::Work(format!("cannot read from the terminal: {e}"))),
            },
            Lines::Pipe(read) => {
                let mut bytes = vec![];
                let n = std::io::stdin().lock().take(prompt::MOST_STDIN as u64 + 1).read_until(b'\n', &mut bytes);
                let n = n.map_err(|e| Fail::Input(format!("cannot read stdin: {e}; give the turns in a file")))?;
                if n > prompt::MOST_STDIN {
                    return Err(prompt::too_long());
                }
                let line = prompt::utf8("stdin", bytes, *read)?;
                *read += n;
                Ok(if n == 0 { Line::End } else { Line::Text(line) })
            }
        }
    }

    pub fn is_interactive(&self) -> bool {
        matches!(self, Lines::Editor(..))
    }
}
