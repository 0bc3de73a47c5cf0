//! What a study gives, and as a table for people.

use crate::report::text::Table;
use crate::simulation::Interleaving;
use crate::size::seconds_text;
use serde_json::Value;

/// One trace, one policy, one size.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The trace's name.
    pub trace: String,
    /// The policy as it was given; empty for a buffer that has no use for it.
    pub policy: String,
    /// All its parameters with their values.
    pub params: String,
    /// The pool's size.
    pub size_pages: u64,
    /// Requests that were counted.
    pub requests: u64,
    /// Those that did not find their page.
    pub misses: u64,
    /// Those that write.
    pub writes: u64,
    /// Evictions of a page that was written since it came in.
    pub write_backs: u64,
    /// The replay's wall time.
    pub seconds: f64,
    /// Different pages in the trace.
    pub unique: u32,
    /// In logical time: how long the whole trace took.
    pub ticks: Option<u64>,
    /// In logical time: the fewest misses that this row's order of requests allows.
    pub opt_misses: Option<u64>,
    /// With a buffer of tuples.
    pub tuples: Option<Tuples>,
    /// With a tier on flash.
    pub flash: Option<Flash>,
}

/// What a row with a buffer of tuples has beside.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuples {
    /// The buffer.
    pub tuples: String,
    /// Bytes, with all overhead, and the frames that they came to.
    pub memory: u64,
    /// See `memory`.
    pub frames: u32,
    /// The mean share of the memory that held tuples.
    pub share: f64,
    /// Requests that found their tuple without its page.
    pub tuple_hits: u64,
    /// Pages that were read because changed tuples had to be written.
    pub cleaning_reads: u64,
    /// Misses, cleaning reads and pages written; and their bytes.
    pub device_requests: u64,
    /// See `device_requests`.
    pub device_bytes: u64,
}

/// What a row with a tier on flash has beside.
#[derive(Clone, PartialEq, Debug)]
pub struct Flash {
    /// The tier.
    pub flash: String,
    /// Its slots.
    pub flash_pages: u32,
    /// Misses of memory that found their page there.
    pub flash_hits: u64,
    /// Pages that were written to it.
    pub flash_written: u64,
    /// The other misses.
    pub store_reads: u64,
    /// The same in bytes.
    pub store_bytes: u64,
    /// See `flash_written`.
    pub flash_written_bytes: u64,
}

/// A policy's miss-ratio curve on a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// The trace's name.
    pub trace: String,
    /// The policy as it was given.
    pub policy: String,
    /// The part of the pages that it was made from; 1 when it is exact.
    pub rate: f64,
    /// Pool sizes in pages and the miss ratio at each.
    pub points: Vec<(u32, f64)>,
    /// Requests of the trace, and different pages in it.
    pub requests: u64,
    /// See `requests`.
    pub unique: u32,
    /// The same at the sizes of the rows.
    pub at_rows: Vec<(u32, f64)>,
    /// The mean difference to the rows, which are exact.
    pub mean_error: Option<f64>,
}

/// All that a study computed.
#[derive(Clone, Default, Debug)]
pub struct Results {
    /// Whether it ended before all was done.
    pub partial: bool,
    /// In the order of traces, policies, sizes.
    pub rows: Vec<Row>,
    /// In the order of traces, policies.
    pub curves: Vec<Curve>,
    /// By trace: its name, and the chart of its accesses.
    pub pictures: Vec<(String, Value)>,
}

impl Results {
    /// Compares sampled curves with the exact rows.
    pub fn measure_errors(&mut self) {
        for curve in &mut self.curves {
            let of_curve = |row: &&Row| row.trace == curve.trace && row.policy == curve.policy;
            let errors: Vec<f64> = self
                .rows
                .iter()
                .filter(of_curve)
                .filter_map(|row| {
                    let point = curve.at_rows.iter().find(|point| u64::from(point.0) == row.size_pages)?;
                    Some((point.1 - row.miss_ratio()).abs())
                })
                .collect();
            curve.mean_error = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
        }
    }
}

impl Row {
    /// What it is called beside others: the policy, the buffer, or both; the policy and the tier.
    pub fn label(&self) -> String {
        if let Some(of) = &self.flash {
            return format!("{} {}", self.policy, of.flash);
        }
        match &self.tuples {
            None => self.policy.clone(),
            Some(of) if self.policy.is_empty() => of.tuples.clone(),
            Some(of) => format!("{} {}", self.policy, of.tuples),
        }
    }

    /// Misses per request; with a tier, those that it does not serve.
    pub fn miss_ratio(&self) -> f64 {
        let misses = self.flash.as_ref().map_or(self.misses, |of| of.store_reads);
        misses as f64 / self.requests as f64
    }
}

/// How time goes, in words.
pub fn time_text(interleaving: Interleaving) -> String {
    match interleaving {
        Interleaving::Fixed => "requests in the order of the trace".to_owned(),
        Interleaving::Logical { latency } => format!("streams in logical time, a miss takes {latency} ticks"),
    }
}

impl Tuples {
    /// What tables show of it.
    pub fn cells(&self) -> [String; 4] {
        let share = format!("{:.1} %", self.share * 100.0);
        [share, self.tuple_hits.to_string(), self.cleaning_reads.to_string(), self.device_requests.to_string()]
    }
}

impl Flash {
    /// What tables show of it.
    pub fn cells(&self) -> [String; 4] {
        let Self { flash_pages, flash_hits, store_reads, flash_written, .. } = self;
        [flash_pages.to_string(), flash_hits.to_string(), store_reads.to_string(), flash_written.to_string()]
    }
}

/// The heads of what [`Flash::cells`] shows.
pub(super) const FLASH_HEADS: [&str; 4] = ["flash pages", "flash hits", "store reads", "flash written"];

/// The table for people.
pub fn table(rows: &[Row]) -> Table {
    let logical = rows.iter().any(|row| row.ticks.is_some());
    let mut heads = vec!["trace", "policy", "pages", "requests", "misses", "miss ratio", "written back", "replay"];
    if logical {
        heads.extend(["opt misses", "ticks"]);
    }
    let tuples = rows.iter().any(|row| row.tuples.is_some());
    if tuples {
        heads.extend(["share", "tuple hits", "cleaning reads", "device requests"]);
    }
    if rows.iter().any(|row| row.flash.is_some()) {
        heads.extend(FLASH_HEADS);
    }
    let mut table = Table::new(&heads, 2);
    for row in rows {
        let mut cells = vec![
            row.trace.clone(),
            row.label(),
            row.size_pages.to_string(),
            row.requests.to_string(),
            row.misses.to_string(),
            format!("{:.4}", row.miss_ratio()),
            row.write_backs.to_string(),
            seconds_text(row.seconds),
        ];
        if logical {
            cells.extend([row.opt_misses, row.ticks].map(|number| number.map_or(String::new(), |n| n.to_string())));
        }
        cells.extend(row.tuples.iter().flat_map(Tuples::cells));
        cells.extend(row.flash.iter().flat_map(Flash::cells));
        table.row(cells);
    }
    table
}

/// What sampling got wrong, for people; empty without sampled curves.
pub fn error_table(curves: &[Curve]) -> String {
    let mut table = Table::new(&["trace", "policy", "sampled pages", "mean error of the miss ratio"], 2);
    let sampled: Vec<_> = curves.iter().filter_map(|curve| Some((curve, curve.mean_error?))).collect();
    for (curve, error) in &sampled {
        let rate = format!("{:.3} %", curve.rate * 100.0);
        table.row(vec![curve.trace.clone(), curve.policy.clone(), rate, format!("{error:.5}")]);
    }
    if sampled.is_empty() { String::new() } else { format!("\n{table}") }
}
