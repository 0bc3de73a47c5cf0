//! What is measured of a store, as the kernel counts it of this process.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The fields of a row.
const NAMES: [&str; 6] = ["per_second", "reads", "bytes_read", "device_bytes_read", "writes", "bytes_written"];
/// Those of `/proc/self/io` that follow the rate.
const COUNTED: [&str; 5] = ["syscr", "rchar", "read_bytes", "syscw", "wchar"];

/// Operations a second, and what one has read and written: calls, their bytes, and of those read
/// the bytes that came from the device.
#[derive(Clone, Copy)]
pub struct Figures([f64; NAMES.len()]);

fn counted() -> [u64; COUNTED.len()] {
    let text = std::fs::read_to_string("/proc/self/io").expect("/proc/self/io");
    COUNTED.map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|number| number.parse().ok()).unwrap_or(0)
    })
}

impl Figures {
    /// Of `work`, which is so many operations.
    pub fn of(operations: u32, work: impl FnOnce()) -> Self {
        let (before, start) = (counted(), Instant::now());
        work();
        Self::new(operations, start.elapsed(), before, counted())
    }

    fn new(operations: u32, took: Duration, before: [u64; COUNTED.len()], after: [u64; COUNTED.len()]) -> Self {
        let each = |at: usize| (after[at] - before[at]) as f64 / f64::from(operations);
        Self([f64::from(operations) / took.as_secs_f64(), each(0), each(1), each(2), each(3), each(4)])
    }

    /// The median of each figure, and the rates of all rounds.
    pub fn median(rounds: &[Self]) -> Value {
        let mut row = serde_json::Map::new();
        for (at, name) in NAMES.iter().enumerate() {
            let mut sorted: Vec<f64> = rounds.iter().map(|figures| figures.0[at]).collect();
            sorted.sort_by(f64::total_cmp);
            row.insert((*name).to_owned(), json!((sorted[sorted.len() / 2] * 1e4).round() / 1e4));
        }
        let of_rounds =
            |at: usize| rounds.iter().map(|figures| (figures.0[at] * 1e4).round() / 1e4).collect::<Vec<_>>();
        row.insert("rates".to_owned(), json!(of_rounds(0)));
        row.insert("reads_of_rounds".to_owned(), json!(of_rounds(1)));
        row.into()
    }

    pub fn say(&self, name: &str, what: &str) {
        let [rate, reads, read, device, _, written] = self.0;
        println!(
            "{name:18} {what:30} {rate:>9.0} /s {reads:8.4} reads {read:7.0} B read {device:7.0} B of the device {written:7.0} B written"
        );
    }
}
