//! Index scans that read a table nearly in its order.
//!
//! Source: Khalaji et al. 2025, section 4.4.3: where a column is highly correlated with the
//! physical order, an index scan is estimated by the physical distance like a sequential one. The
//! paper leaves open what high is and what becomes of blocks that are read a little earlier or
//! later than their place. Here a block counts as wanted at any moment while the scan is within
//! `scatter` positions of its place, and how much that is follows from the correlation.

/// How far, in positions, a block may be read from its place, given the correlation (-1 to 1, as a
/// planner's statistics have it; negative for descending) between an index's order and that of a
/// table of `positions` positions. `None` if the correlation says too little: the window around a
/// block would be half of the table.
///
/// The order is taken for the place plus an independent error. The error's variance is then `1 /
/// c^2 - 1` of that of a place, which is `positions^2 / 12`; two standard deviations hold 95 % of
/// the accesses.
pub fn scatter(correlation: f64, positions: u64) -> Option<u64> {
    let squared = correlation * correlation;
    // 2 * sqrt((1 / c^2 - 1) / 12) < 1 / 2
    if !(squared > 4.0 / 7.0 && squared <= 1.0) {
        return None;
    }
    let of_positions = (1.0 / squared - 1.0) / 3.0;
    // The root, in 2^-20: `f64::sqrt` is not in core.
    let root = ((of_positions * (1_u64 << 40) as f64) as u64).isqrt();
    Some(((u128::from(positions) * u128::from(root)) >> 20) as u64)
}
