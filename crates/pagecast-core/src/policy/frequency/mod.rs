//! Policies that count how often pages are used.

mod counts;
mod lfu;
mod lfu_aged;
mod lrfu;
mod sketch;
mod w_tinylfu;

pub use lfu::Lfu;
pub use lfu_aged::LfuAged;
pub use lrfu::Lrfu;
pub use w_tinylfu::WTinyLfu;
