//! What closed loops give, as tables and as JSON.

use pagecast_sim::closed::{Figures, Machine, Pictures, Spread};
use serde_json::{Value, json};

use super::Plan;
use crate::output::Table;
use crate::units::bytes_text;

/// One workload, delivery, policy and pool size, over all seeds.
pub(crate) struct Row {
    /// As they were asked for.
    pub(crate) workload: String,
    pub(crate) delivery: String,
    pub(crate) policy: String,
    /// With all parameters.
    pub(crate) full_workload: String,
    pub(crate) full_delivery: String,
    pub(crate) params: String,
    pub(crate) size_pages: u32,
    pub(crate) page_bytes: u32,
    /// Pages of all tables.
    pub(crate) table_pages: u32,
    /// By seed.
    pub(crate) runs: Vec<Figures>,
    /// Of the first seed.
    pub(crate) pictures: Option<Pictures>,
}

/// A type of query over all seeds of a row.
pub(crate) struct TypeRow {
    pub(crate) name: String,
    pub(crate) queries: usize,
    pub(crate) seconds: f64,
    /// The mean of the seeds' deviations.
    pub(crate) deviation: f64,
    pub(crate) base_seconds: f64,
}

impl TypeRow {
    pub(crate) fn normalized(&self) -> f64 {
        self.seconds / self.base_seconds
    }
}

/// All that a command computed.
#[derive(Default)]
pub(crate) struct Results {
    /// Whether Ctrl-C ended the command before all was done.
    pub(crate) partial: bool,
    pub(crate) rows: Vec<Row>,
}

impl Row {
    pub(crate) fn spread(&self, of: impl Fn(&Figures) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(&of))
    }

    pub(crate) fn pool_share(&self) -> f64 {
        f64::from(self.size_pages) / f64::from(self.table_pages)
    }

    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.delivery, self.policy)
    }

    /// The types in the order in which the first seeds have them; each query counts once.
    pub(crate) fn types(&self) -> Vec<TypeRow> {
        let mut types: Vec<TypeRow> = Vec::new();
        for of in self.runs.iter().flat_map(|run| &run.types) {
            let at = types.iter().position(|known| known.name == of.name).unwrap_or_else(|| {
                let (name, zero) = (of.name.clone(), 0.0);
                types.push(TypeRow { name, queries: 0, seconds: zero, deviation: zero, base_seconds: zero });
                types.len() - 1
            });
            let row = &mut types[at];
            let (before, new) = (row.queries as f64, of.queries as f64);
            let mean = |old: f64, value: f64| (old * before + value * new) / (before + new);
            row.seconds = mean(row.seconds, of.seconds);
            row.deviation = mean(row.deviation, of.deviation);
            row.base_seconds = mean(row.base_seconds, of.base_seconds);
            row.queries += of.queries;
        }
        types
    }
}

/// The device and the processor, in words.
pub(super) fn machine_text(machine: &Machine) -> String {
    format!(
        "{:.0} MB/s, latency {} ms, {} at a time, {} cores, reads {}",
        machine.bandwidth / 1e6,
        machine.latency as f64 / 1e6,
        machine.outstanding,
        machine.cores,
        if machine.least_first { "by what their scan still needs" } else { "in their order" }
    )
}

pub(super) fn seeds_text(plan: &Plan) -> String {
    match plan.seeds {
        1 => plan.seed.to_string(),
        seeds => format!("{} to {}", plan.seed, plan.seed + u64::from(seeds) - 1),
    }
}

/// The heads and cells of the figures, for the terminal and the report.
pub(super) fn cells(results: &Results) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec![
        "workload", "delivery", "policy", "pool", "read MB", "least", "most", "stream s", "total s", "latency", "cores",
    ];
    let cells = results.rows.iter().map(|row| {
        let read = row.spread(|run| run.bytes_read / 1e6);
        let mean = |of: fn(&Figures) -> f64, digits: usize| format!("{:.*}", digits, row.spread(of).mean);
        vec![
            row.workload.clone(),
            row.delivery.clone(),
            row.policy.clone(),
            format!("{:.0} %", row.pool_share() * 100.0),
            format!("{:.0}", read.mean),
            format!("{:.0}", read.low),
            format!("{:.0}", read.high),
            mean(|run| run.stream_seconds, 1),
            mean(|run| run.total_seconds, 1),
            mean(|run| run.normalized, 2),
            mean(|run| run.cores, 2),
        ]
    });
    (heads, cells.collect())
}

/// The same by type of query.
pub(super) fn types_cells(results: &Results) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec!["delivery", "policy", "query", "queries", "mean s", "deviation", "alone s", "latency"];
    let cells = results.rows.iter().flat_map(|row| {
        row.types().into_iter().map(|of| {
            vec![
                row.delivery.clone(),
                row.policy.clone(),
                of.name.clone(),
                of.queries.to_string(),
                format!("{:.2}", of.seconds),
                format!("{:.0} %", of.deviation * 100.0),
                format!("{:.2}", of.base_seconds),
                format!("{:.2}", of.normalized()),
            ]
        })
    });
    (heads, cells.collect())
}

fn text_table((heads, cells): (Vec<&str>, Vec<Vec<String>>), left: usize) -> Table {
    let mut table = Table::new(&heads, left);
    cells.into_iter().for_each(|row| table.row(row));
    table
}

/// The table for people.
pub(super) fn table(results: &Results) -> Table {
    text_table(cells(results), 3)
}

/// The types of queries, for people.
pub(super) fn types_table(results: &Results) -> Table {
    text_table(types_cells(results), 3)
}

/// The whole result.
pub(super) fn json(plan: &Plan, results: &Results) -> Value {
    let machine = &plan.machine;
    let config = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "seed": plan.seed,
        "seeds": plan.seeds,
        "bandwidth": machine.bandwidth,
        "latency_s": machine.latency as f64 / 1e9,
        "outstanding": machine.outstanding,
        "cores": machine.cores,
        "io_order": if machine.least_first { "least-left" } else { "arrival" },
    });
    let rows = results.rows.iter().map(|row| {
        let spread = |of: fn(&Figures) -> f64| {
            let Spread { mean, low, high } = row.spread(of);
            json!({"mean": mean, "low": low, "high": high})
        };
        let types = row.types().into_iter().map(|of| {
            json!({
                "type": of.name, "queries": of.queries, "mean_s": of.seconds, "deviation": of.deviation,
                "base_s": of.base_seconds, "normalized_latency": of.normalized(),
            })
        });
        json!({
            "workload": row.workload,
            "delivery": row.delivery,
            "policy": row.policy,
            "workload_params": row.full_workload,
            "delivery_params": row.full_delivery,
            "params": row.params,
            "size_pages": row.size_pages,
            "pool_bytes": u64::from(row.size_pages) * u64::from(row.page_bytes),
            "table_bytes": u64::from(row.table_pages) * u64::from(row.page_bytes),
            "bytes_read": spread(|run| run.bytes_read),
            "bytes_requested": spread(|run| run.bytes_requested),
            "stream_s": spread(|run| run.stream_seconds),
            "total_s": spread(|run| run.total_seconds),
            "normalized_latency": spread(|run| run.normalized),
            "cores_used": spread(|run| run.cores),
            "shared_chunks": spread(|run| run.shared),
            "types": types.collect::<Vec<_>>(),
        })
    });
    let mut json = json!({"schema": 1, "config": config, "rows": rows.collect::<Vec<_>>()});
    if results.partial {
        json["partial"] = json!(true);
    }
    json
}

/// Bytes of a row's pool and tables, for people.
pub(super) fn volume_text(row: &Row) -> String {
    let bytes = |pages: u32| bytes_text(u64::from(pages) * u64::from(row.page_bytes));
    format!("{} of {}", bytes(row.size_pages), bytes(row.table_pages))
}
