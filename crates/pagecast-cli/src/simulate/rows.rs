//! What a replay gives, as a table, as JSON and as CSV.

use std::fmt::Write;

use pagecast_sim::simulation::Interleaving;
use serde::Serialize;
use serde_json::{Value, json};

use super::Plan;
use crate::output::Table;
use crate::units::seconds_text;

/// One trace, one policy, one size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) trace: String,
    pub(crate) policy: String,
    pub(crate) params: String,
    pub(crate) size_pages: u64,
    pub(crate) requests: u64,
    pub(crate) misses: u64,
    pub(crate) writes: u64,
    pub(crate) write_backs: u64,
    pub(crate) seconds: f64,
    /// Different pages in the trace.
    #[serde(skip)]
    pub(crate) unique: u32,
    /// In logical time: how long the whole trace took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ticks: Option<u64>,
    /// In logical time: the fewest misses that this row's order of requests allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opt_misses: Option<u64>,
    /// With `--tuples`.
    #[serde(flatten)]
    pub(crate) tuples: Option<Tuples>,
}

/// What a row with a buffer of tuples has beside.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Tuples {
    /// The buffer.
    pub(crate) tuples: String,
    /// Bytes, with all overhead, and the frames that they came to.
    pub(crate) memory: u64,
    pub(crate) frames: u32,
    /// The mean share of the memory that held tuples.
    pub(crate) share: f64,
    pub(crate) tuple_hits: u64,
    /// Pages that were read because changed tuples had to be written.
    pub(crate) cleaning_reads: u64,
    /// Misses, cleaning reads and pages written; and their bytes.
    pub(crate) device_requests: u64,
    pub(crate) device_bytes: u64,
}

/// A policy's miss-ratio curve on a trace.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Curve {
    pub(crate) trace: String,
    pub(crate) policy: String,
    /// The part of the pages that it was made from; 1 when it is exact.
    pub(crate) rate: f64,
    /// Pool sizes in pages and the miss ratio at each.
    pub(crate) points: Vec<(u32, f64)>,
    /// The same at the sizes of the rows.
    #[serde(skip)]
    pub(crate) at_rows: Vec<(u32, f64)>,
    /// The mean difference to the rows, which are exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mean_error: Option<f64>,
}

/// All that a command computed.
#[derive(Default)]
pub(crate) struct Results {
    /// Whether Ctrl-C ended the command before all was done.
    pub(crate) partial: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) curves: Vec<Curve>,
    /// By trace: its name, and the chart of its accesses.
    pub(crate) pictures: Vec<(String, Value)>,
}

impl Results {
    /// Compares sampled curves with the exact rows.
    pub(crate) fn measure_errors(&mut self) {
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
    /// What it is called beside others: the policy, the buffer, or both.
    pub(crate) fn label(&self) -> String {
        match &self.tuples {
            None => self.policy.clone(),
            Some(of) if self.policy.is_empty() => of.tuples.clone(),
            Some(of) => format!("{} {}", self.policy, of.tuples),
        }
    }

    /// Misses per request.
    pub(crate) fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests as f64
    }
}

/// How time goes, in words.
pub(crate) fn time_text(interleaving: Interleaving) -> String {
    match interleaving {
        Interleaving::Fixed => "requests in the order of the trace".to_owned(),
        Interleaving::Logical { latency } => format!("streams in logical time, a miss takes {latency} ticks"),
    }
}

impl Tuples {
    /// What tables show of it.
    pub(crate) fn cells(&self) -> [String; 4] {
        let share = format!("{:.1} %", self.share * 100.0);
        [share, self.tuple_hits.to_string(), self.cleaning_reads.to_string(), self.device_requests.to_string()]
    }
}

/// The table for people.
pub(crate) fn table(rows: &[Row]) -> Table {
    let logical = rows.iter().any(|row| row.ticks.is_some());
    let mut heads = vec!["trace", "policy", "pages", "requests", "misses", "miss ratio", "written back", "replay"];
    if logical {
        heads.extend(["opt misses", "ticks"]);
    }
    let tuples = rows.iter().any(|row| row.tuples.is_some());
    if tuples {
        heads.extend(["share", "tuple hits", "cleaning reads", "device requests"]);
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
        table.row(cells);
    }
    table
}

/// What sampling got wrong, for people; empty without sampled curves.
pub(crate) fn error_table(curves: &[Curve]) -> String {
    let mut table = Table::new(&["trace", "policy", "sampled pages", "mean error of the miss ratio"], 2);
    let sampled: Vec<_> = curves.iter().filter_map(|curve| Some((curve, curve.mean_error?))).collect();
    for (curve, error) in &sampled {
        let rate = format!("{:.3} %", curve.rate * 100.0);
        table.row(vec![curve.trace.clone(), curve.policy.clone(), rate, format!("{error:.5}")]);
    }
    if sampled.is_empty() { String::new() } else { format!("\n{table}") }
}

/// The whole result; `errors` says what is missing in it.
pub(crate) fn json(plan: &Plan, results: &Results, errors: &[String]) -> Value {
    let config = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "seed": plan.seed,
        "time": time_text(plan.interleaving),
        "page_size": plan.page_size,
    });
    let mut json = json!({"schema": 1, "config": config, "rows": results.rows});
    if results.partial {
        json["partial"] = json!(true);
    }
    if !results.curves.is_empty() {
        json["curves"] = json!(results.curves);
    }
    if !errors.is_empty() {
        json["errors"] = json!(errors);
    }
    json
}

/// A head line, then a line a row; texts in quotes.
pub(crate) fn csv(rows: &[Row]) -> String {
    let of_tuples = rows.iter().any(|row| row.tuples.is_some());
    let more = ",tuples,memory,frames,share,tuple_hits,cleaning_reads,device_requests,device_bytes";
    let mut text = "trace,policy,params,size_pages,requests,misses,writes,write_backs,seconds".to_owned();
    text += if of_tuples { more } else { "" };
    text.push('\n');
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    for row in rows {
        let [trace, policy, params] = [&row.trace, &row.policy, &row.params].map(|text| quoted(text));
        let Row { size_pages, requests, misses, writes, write_backs, seconds, .. } = row;
        write!(text, "{trace},{policy},{params},{size_pages},{requests},{misses},{writes},{write_backs},{seconds}")
            .expect("a String takes any text");
        if let Some(Tuples {
            tuples,
            memory,
            frames,
            share,
            tuple_hits,
            cleaning_reads,
            device_requests,
            device_bytes,
        }) = &row.tuples
        {
            let tuples = quoted(tuples);
            write!(
                text,
                ",{tuples},{memory},{frames},{share},{tuple_hits},{cleaning_reads},{device_requests},{device_bytes}"
            )
            .expect("a String takes any text");
        }
        text.push('\n');
    }
    text
}
