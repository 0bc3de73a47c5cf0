//! Policies that weigh the cost of writing a dirty page back.

mod cfdc;
mod cflru;

pub use cfdc::Cfdc;
pub use cflru::Cflru;
