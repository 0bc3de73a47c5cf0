//! Policies that weigh the cost of writing a dirty page back.

mod ad_lru;
mod ccf_lru;
mod cfdc;
mod cflru;

pub use ad_lru::AdLru;
pub use ccf_lru::CcfLru;
pub use cfdc::Cfdc;
pub use cflru::Cflru;
