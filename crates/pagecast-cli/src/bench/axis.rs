//! Axes of charts: from 0 to a round end, with few round ticks in one unit.

use serde_json::{Value, json};

/// An axis of amounts.
#[derive(Debug, PartialEq)]
pub(super) struct Axis {
    step: f64,
    end: f64,
    format: &'static str,
}

impl Axis {
    /// An axis of bytes that reaches to `most`.
    pub(super) fn of_bytes(most: f64) -> Self {
        let units = ["=B", "=KiB", "=MiB", "=GiB", "=TiB"];
        // The largest of which there are a few, so that ticks are whole numbers of it.
        let power = (0..units.len()).rev().find(|&power| most >= 4.0 * 1024f64.powi(power as i32)).unwrap_or(0);
        let unit = 1024f64.powi(power as i32);
        let step = round_step(most / unit).max(1.0) * unit;
        Self::up_to(most, step, units[power])
    }

    /// An axis of seconds that reaches to `most`.
    pub(super) fn of_seconds(most: f64) -> Self {
        Self::up_to(most, round_step(most), "=seconds")
    }

    fn up_to(most: f64, step: f64, format: &'static str) -> Self {
        Self { step, end: (most / step).ceil().max(1.0) * step, format }
    }

    /// What ECharts is told of it.
    pub(super) fn option(&self) -> Value {
        json!({
            "type": "value", "min": 0, "max": self.end, "interval": self.step, "splitLine": {"lineStyle": {"color": "#e8ecf0"}},
            "axisLabel": {"formatter": self.format, "hideOverlap": true},
        })
    }
}

/// 1, 2 or 5 times a power of ten, the least with at most five steps up to `most`.
fn round_step(most: f64) -> f64 {
    let magnitude = 10f64.powf((most.max(1e-6) / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * magnitude);
    // A hair of room for what division leaves.
    steps.into_iter().find(|step| most / step <= 5.0 + 1e-9).unwrap_or(steps[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_of_one_unit() {
        let mib = 1024.0 * 1024.0;
        assert_eq!(Axis::of_bytes(973.0 * mib), Axis { step: 200.0 * mib, end: 1000.0 * mib, format: "=MiB" });
        assert_eq!(Axis::of_bytes(1.5 * 1024.0 * mib), Axis { step: 500.0 * mib, end: 2000.0 * mib, format: "=MiB" });
        assert_eq!(Axis::of_bytes(5.0 * 1024.0 * mib), Axis { step: 1024.0 * mib, end: 5120.0 * mib, format: "=GiB" });
        assert_eq!(Axis::of_seconds(25.6), Axis { step: 10.0, end: 30.0, format: "=seconds" });
        for most in [0.0, 1e-9, 0.03, 1.0, 999.0, 1024.0, 5.5e12, u64::MAX as f64] {
            for axis in [Axis::of_bytes(most), Axis::of_seconds(most)] {
                let ticks = axis.end / axis.step;
                assert!(axis.end >= most && (1.0..=6.0).contains(&ticks), "{most}: {axis:?}");
            }
        }
    }
}
