//! Policies with a hand that goes round and bits that hits set.

mod car;
mod hand;
mod pro;
mod second_touch;
mod sweep;

pub use car::Car;
pub use pro::ClockPro;
pub use second_touch::SecondTouchClock;
pub use sweep::ClockSweep;
