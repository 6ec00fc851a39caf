//! Ctrl-C: while text is produced it asks for the end, at any other time it ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code.
const INTERRUPTED: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static PRODUCING: AtomicBool = AtomicBool::new(false);

/// Installs the one handler: from here on Ctrl-C ends the program with 130, loading and measuring included.
pub fn install() {
    // Without a handler Ctrl-C ends the program by its signal, which is no harm.
    let _ = ctrlc::set_handler(|| {
        if !PRODUCING.load(Ordering::SeqCst) || ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    });
}

/// While it lives, Ctrl-C sets a flag and does not end the program; a second one does.
pub struct Producing(());

impl Producing {
    /// Begins.
    pub fn begin() -> Producing {
        ASKED.store(false, Ordering::SeqCst);
        PRODUCING.store(true, Ordering::SeqCst);
        Producing(())
    }

    /// The flag.
    pub fn asked(&self) -> &'static AtomicBool {
        &ASKED
    }
}

impl Drop for Producing {
    fn drop(&mut self) {
        PRODUCING.store(false, Ordering::SeqCst);
    }
}
