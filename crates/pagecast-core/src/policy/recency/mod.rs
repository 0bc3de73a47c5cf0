//! Policies that order pages by when they were used or came in.

mod fifo;
mod lru;
mod lru_k;
mod two_priority;

pub use fifo::Fifo;
pub use lru::Lru;
pub use lru_k::{LruK, MAX_K};
pub use two_priority::TwoPriorityLru;
