//! Measuring two things in turns.

/// Medians over the rounds, and the median of the rounds' own ratios.
pub(crate) struct Figure {
    /// What ours took, in the unit that the measurement returns.
    pub(crate) ours: f64,
    /// What the other took.
    pub(crate) other: f64,
    /// Ours over the other's, round by round.
    pub(crate) ratio: f64,
}

/// Runs `ours` and `other` alternately, `rounds` times after one round that does not count.
pub(crate) fn pairs(rounds: usize, ours: impl Fn() -> f64, other: impl Fn() -> f64) -> Figure {
    ours();
    other();
    // Who goes first alternates too: the second finds the caches as the first left them.
    let measured: Vec<(f64, f64)> = (0..rounds)
        .map(|round| {
            if round % 2 == 0 {
                let first = ours();
                (first, other())
            } else {
                let first = other();
                (ours(), first)
            }
        })
        .collect();
    Figure {
        ours: median(measured.iter().map(|pair| pair.0)),
        other: median(measured.iter().map(|pair| pair.1)),
        ratio: median(measured.iter().map(|pair| pair.0 / pair.1)),
    }
}

/// The middle one; of an even number the upper of the two.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
