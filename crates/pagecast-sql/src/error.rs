//! Whose fault an error is: hosts name the option by its flag or its argument.

use std::fmt;

/// The caller asks for something that cannot be done, and the text says what to do instead.
#[derive(Debug)]
pub struct Misuse(pub String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Shorthand for an error that is a [`Misuse`].
pub(crate) fn misuse(text: impl Into<String>) -> anyhow::Error {
    Misuse(text.into()).into()
}

/// An option of [`Engine::open`](crate::Engine::open).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// [`Options::data`](crate::Options::data)
    Data,
    /// [`Options::endpoint`](crate::Options::endpoint)
    Endpoint,
    /// [`Options::flash`](crate::Options::flash)
    Flash,
    /// [`Options::policy`](crate::Options::policy)
    Policy,
    /// [`Options::memory`](crate::Options::memory)
    Memory,
    /// [`Options::temp`](crate::Options::temp)
    Temp,
}

/// Why an engine cannot be opened.
#[derive(Debug)]
pub struct OpenError {
    /// The option at fault, if it is one.
    pub setting: Option<Setting>,
    /// What is wrong with it.
    pub cause: anyhow::Error,
}

impl OpenError {
    /// The fault of an option.
    pub(crate) fn of(setting: Setting, cause: anyhow::Error) -> Self {
        Self { setting: Some(setting), cause }
    }
}

impl<E: Into<anyhow::Error>> From<E> for OpenError {
    fn from(cause: E) -> Self {
        Self { setting: None, cause: cause.into() }
    }
}
