//! What whoever runs the server is told of clients, not as often as clients please.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use parking_lot::Mutex;

/// Says a line of what goes wrong to whoever runs the server.
pub type Say = fn(&anyhow::Error);

/// The least time between two lines of one kind.
const PAUSE: Duration = Duration::from_secs(1);

/// What lines are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum About {
    /// Logins that failed.
    Logins,
    /// Clients that were not let in, or hung up on.
    Refused,
    /// Clients that do not read or ask.
    Slow,
}

const KINDS: usize = 3;

/// Lines for whoever runs the server. A client can have one said a second, and the next one counts
/// those that were left out.
pub(super) struct Notices {
    pub(super) say: Say,
    kinds: [Mutex<Kind>; KINDS],
}

#[derive(Default)]
struct Kind {
    said: Option<Instant>,
    left_out: u64,
}

impl Notices {
    pub(super) fn new(say: Say) -> Self {
        Self { say, kinds: Default::default() }
    }

    pub(super) fn of(&self, about: About, line: impl FnOnce() -> String) {
        let mut kind = self.kinds[about as usize].lock();
        if kind.said.is_some_and(|said| said.elapsed() < PAUSE) {
            kind.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut kind.left_out);
        kind.said = Some(Instant::now());
        drop(kind);
        let others = if left_out == 0 { String::new() } else { format!(" (and {left_out} more before it)") };
        (self.say)(&anyhow!("{}{others}", line()));
    }
}

/// As much of a name as is shown: clients call themselves what they like.
pub(super) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
