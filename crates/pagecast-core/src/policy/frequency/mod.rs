//! Policies that count how often pages are used.

mod counts;
mod lfu;
mod lrfu;
mod sketch;
mod w_tinylfu;

pub use lfu::Lfu;
pub use lrfu::Lrfu;
pub use w_tinylfu::WTinyLfu;
