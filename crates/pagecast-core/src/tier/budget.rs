//! What may be written, for the device's life.

use crate::Tick;

/// A bucket of tokens, one a page, that fills at an even rate.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// `None` for no bound.
    per_tick: Option<f64>,
    most: f64,
    tokens: f64,
    filled: Option<Tick>,
}

impl Budget {
    /// `per_tick` pages a tick (0 or more), and at most `burst` pages (1 at least) at once after a
    /// pause.
    pub fn new(per_tick: f64, burst: u32) -> Self {
        let most = f64::from(burst.max(1));
        Self { per_tick: Some(per_tick), most, tokens: most, filled: None }
    }

    /// The same, but that at first there are only `tokens` pages to be written at once: as many as
    /// a tier that is partly full has room for.
    #[must_use]
    pub fn starting_with(self, tokens: u32) -> Self {
        Self { tokens: f64::from(tokens).min(self.most), ..self }
    }

    /// No bound.
    pub fn unlimited() -> Self {
        Self { per_tick: None, most: 0.0, tokens: 0.0, filled: None }
    }

    /// Pays for a page, if there is enough.
    pub fn spend(&mut self, at: Tick) -> bool {
        let Some(per_tick) = self.per_tick else { return true };
        let passed = at.saturating_sub(self.filled.replace(at).unwrap_or(at));
        self.tokens = (self.tokens + passed as f64 * per_tick).min(self.most);
        let is_enough = self.tokens >= 1.0;
        self.tokens -= if is_enough { 1.0 } else { 0.0 };
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_burst_and_a_rate() {
        let mut budget = Budget::new(0.1, 5);
        let spent = |budget: &mut Budget, ticks: core::ops::Range<Tick>| ticks.filter(|&at| budget.spend(at)).count();
        assert_eq!(spent(&mut budget, 0..10), 5);
        assert_eq!(spent(&mut budget, 10..1010), 100);
        assert_eq!(spent(&mut budget, 10_000..10_020), 6, "a pause saves up no more than a burst");
        assert_eq!(spent(&mut Budget::new(0.0, 0), 0..1000), 1);
        assert_eq!(spent(&mut Budget::unlimited(), 0..1000), 1000);
        assert_eq!(spent(&mut Budget::new(0.0, 5).starting_with(2), 0..1000), 2);
    }
}
