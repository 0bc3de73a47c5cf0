//! Policies that weigh recency against frequency with the help of pages that left.

mod arc;
mod lirs;
mod two_queue;

pub use arc::Arc;
pub use lirs::Lirs;
pub use two_queue::TwoQueue;
