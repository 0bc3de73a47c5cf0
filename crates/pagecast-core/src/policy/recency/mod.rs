//! Policies that order pages by when they were used or came in.

mod lru;

pub use lru::Lru;
