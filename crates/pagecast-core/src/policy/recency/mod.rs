//! Policies that order pages by when they were used or came in.

mod fifo;
mod lru;

pub use fifo::Fifo;
pub use lru::Lru;
