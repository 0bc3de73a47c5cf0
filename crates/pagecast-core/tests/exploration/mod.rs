//! Many schedules of a protocol, as it is and with a step left out.

use pagecast_core::mistake::{self, Mistake};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// Explores `protocol` with `left_out`, which must then be found: schedules with few switches, and
/// evenly mixed ones. One at a time: what is left out is left out everywhere.
pub(crate) fn explore(
    (few_switches, evenly_mixed): (usize, usize),
    protocol: impl Fn() + Send + Sync + Copy + 'static,
    left_out: Option<Mistake>,
) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    mistake::make(left_out);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        shuttle::check_pct(protocol, few_switches, 3);
        shuttle::check_random(protocol, evenly_mixed);
    }));
    mistake::make(None);
    match left_out {
        None => outcome.unwrap_or_else(|panic| resume_unwind(panic)),
        Some(mistake) => assert!(outcome.is_err(), "{mistake:?} was not found"),
    }
}
