//! Ctrl-C: while text is produced it asks for the end, at any other time it ends the program at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static PRODUCING: AtomicBool = AtomicBool::new(false);
static INSTALL: Once = Once::new();

/// While it lives, Ctrl-C sets a flag and does not end the program; a second one does.
pub struct Producing(());

impl Producing {
    /// Begins.
    pub fn begin() -> Producing {
        INSTALL.call_once(|| {
            // Without a handler Ctrl-C ends the program, which is no harm.
            let _ = ctrlc::set_handler(|| {
                if !PRODUCING.load(Ordering::SeqCst) || ASKED.swap(true, Ordering::SeqCst) {
                    std::process::exit(130);
                }
            });
        });
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
