//! What a client shows instead of its password once it has proved who it is.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::users::random;

/// Bytes that nobody can guess.
const BYTES: usize = 32;
/// How long a token is good after it was shown last.
const UNUSED: Duration = Duration::from_secs(24 * 60 * 60);
/// Tokens that there may be: one more ends the one that was shown longest ago.
const MOST: usize = 10_000;

/// The tokens that are good, and whose they are.
#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<String, Token>>);

struct Token {
    user: String,
    shown: Instant,
}

impl Tokens {
    /// A new token for a user.
    pub(super) fn give(&self, user: &str) -> anyhow::Result<String> {
        let mut name = String::with_capacity(2 * BYTES);
        for byte in random(BYTES)? {
            write!(name, "{byte:02x}")?;
        }
        let mut tokens = self.0.lock();
        tokens.retain(|_, token| token.shown.elapsed() < UNUSED);
        if tokens.len() >= MOST
            && let Some(oldest) = tokens.iter().min_by_key(|(_, token)| token.shown).map(|(name, _)| name.clone())
        {
            tokens.remove(&oldest);
        }
        tokens.insert(name.clone(), Token { user: user.to_owned(), shown: Instant::now() });
        Ok(name)
    }

    /// Whose a token is.
    pub(super) fn user(&self, name: &str) -> Option<String> {
        let mut tokens = self.0.lock();
        let token = tokens.get_mut(name).filter(|token| token.shown.elapsed() < UNUSED)?;
        token.shown = Instant::now();
        Some(token.user.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_are_good_for_whom_they_were_given() {
        let tokens = Tokens::default();
        let (ada, bob) = (tokens.give("ada").unwrap(), tokens.give("bob").unwrap());
        assert_eq!((tokens.user(&ada).as_deref(), tokens.user(&bob).as_deref()), (Some("ada"), Some("bob")));
        assert_eq!(tokens.user("ada"), None);
        // Ada's is shown, so bob's is the first to go.
        tokens.user(&ada).unwrap();
        for _ in 2..=MOST {
            tokens.give("eve").unwrap();
        }
        assert!(tokens.user(&bob).is_none() && tokens.user(&ada).is_some());
    }
}
