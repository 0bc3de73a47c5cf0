//! Policies with a hand that goes round and bits that hits set.

mod sweep;

pub use sweep::ClockSweep;
