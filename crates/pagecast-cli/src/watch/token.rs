//! Who may look at the page: whoever knows its token, which is in the address that is printed.
//! Others on this machine can reach the address, and would see what users ask.

use std::fmt;
use std::fs::File;
use std::io::Read;

use anyhow::{Context, anyhow};

/// Names a token that is to stay from one start to the next.
pub(super) const VARIABLE: &str = "PAGECAST_UI_TOKEN";
const FEWEST: usize = 16;

/// What the reader of the page has to know.
#[derive(Clone)]
pub(super) struct Token {
    text: String,
    /// Whether it was made for this start, and so must be told.
    is_new: bool,
}

impl Token {
    /// That of the environment, or a new one.
    pub(super) fn find() -> anyhow::Result<Self> {
        match std::env::var_os(VARIABLE) {
            Some(text) => Self::given(text.to_str().unwrap_or_default()),
            None => Self::new(),
        }
    }

    fn given(text: &str) -> anyhow::Result<Self> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if text.len() < FEWEST || !text.bytes().all(is_fit) {
            return Err(anyhow!("{VARIABLE} needs {FEWEST} characters or more: letters, digits, - and _"));
        }
        Ok(Self { text: text.to_owned(), is_new: false })
    }

    fn new() -> anyhow::Result<Self> {
        let mut bytes = [0; 16];
        let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
        read.context("no token for the page")?;
        Ok(Self { text: bytes.iter().map(|byte| format!("{byte:02x}")).collect(), is_new: true })
    }

    /// Whether this is it. The time it takes does not tell how much of it is right.
    pub(super) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.text.as_bytes(), given.as_bytes());
        own.len() == given.len()
            && own.iter().zip(given).fold(0, |wrong, (a, b)| std::hint::black_box(wrong | (a ^ b))) == 0
    }
}

/// As it stands in the address that is printed. Who chose the token is not told it.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_new { f.write_str(&self.text) } else { write!(f, "${VARIABLE}") }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_is_whole_or_wrong() {
        let token = Token::new().unwrap();
        assert_ne!(token.to_string(), Token::new().unwrap().to_string());
        let text = token.to_string();
        assert!(text.len() == 32 && token.is(&text));
        for wrong in ["", &text[1..], &text.replace(&text[..1], "x"), &format!("{text}0")] {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_chosen_token_is_long_and_not_shown() {
        let token = Token::given("a-fixed_token-of-mine").unwrap();
        assert!(token.is("a-fixed_token-of-mine") && token.to_string() == "$PAGECAST_UI_TOKEN");
        for unfit in ["", "short", "sixteen letters&", "a-fixed_token/of-mine"] {
            assert!(!Token::given(unfit).err().unwrap().to_string().contains("fixed"), "{unfit}");
        }
    }
}
