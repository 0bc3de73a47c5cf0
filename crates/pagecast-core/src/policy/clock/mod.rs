//! Policies with a hand that goes round and bits that hits set.

mod car;
mod pro;
mod sweep;

pub use car::Car;
pub use pro::ClockPro;
pub use sweep::ClockSweep;
