//! What a bench gives: the JSON of the contract, and its table.

use std::path::PathBuf;

use pagecast::PoolStats;
use serde::Serialize;

use super::machine::Machine;
use crate::output::Table;
use crate::units::{bytes_text, seconds_text};

/// The whole of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// The version of this shape.
    pub(super) schema: u32,
    pub(super) config: Config,
    pub(super) runs: Vec<Run>,
}

/// Everything that was decided before the first run, defaults included.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    pub(super) data: PathBuf,
    /// The size of the Parquet files.
    pub(super) data_bytes: u64,
    /// Of the generated data; absent with `--data`.
    pub(super) sf: Option<f64>,
    /// The templates that queries are drawn from.
    pub(super) templates: Vec<String>,
    pub(super) streams: usize,
    pub(super) queries_per_stream: usize,
    pub(super) selectivity: f64,
    /// What `{lo}` and `{hi}` are drawn from.
    pub(super) range: String,
    pub(super) seed: u64,
    pub(super) target_partitions: usize,
    pub(super) storage: StorageConfig,
    /// The pool as it was asked for, and in bytes.
    pub(super) pool: String,
    pub(super) pool_bytes: u64,
    pub(super) page_bytes: u32,
    /// Share of the frames that in-order scans may read ahead into.
    pub(super) read_ahead: f64,
    /// Distinct compressed bytes that the query list reads after pruning.
    pub(super) touched_bytes: u64,
}

/// What stands behind the reader.
#[derive(Debug, Serialize)]
pub(super) struct StorageConfig {
    /// In words; says whether it is the local disk or a declared model.
    pub(super) label: String,
    pub(super) declared: bool,
    pub(super) bandwidth_bytes_s: Option<u64>,
    pub(super) latency_s: Option<f64>,
    pub(super) outstanding: Option<u32>,
    pub(super) max_request_bytes: u64,
}

/// One run of the query list.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    /// The policy as it was given; `none` for plain DataFusion.
    pub(super) policy: String,
    pub(super) params: String,
    pub(super) delivery: Delivery,
    pub(super) seed: u64,
    pub(super) streams: usize,
    pub(super) pool_bytes: u64,
    pub(super) touched_bytes: u64,
    /// Null without a pool.
    pub(super) hit_rate: Option<f64>,
    pub(super) bytes_requested: u64,
    pub(super) bytes_read: u64,
    pub(super) bypassed_bytes: u64,
    /// Null without a pool: there are no page requests to replay.
    pub(super) belady_bytes_read: Option<u64>,
    pub(super) evictions: u64,
    pub(super) prefetch: Prefetch,
    pub(super) wall_s: f64,
    pub(super) queries: Vec<QueryRun>,
    /// Requests to storage, each one contiguous range.
    pub(super) storage_requests: u64,
    /// All of the pool's own memory.
    pub(super) pool_memory_bytes: u64,
    /// Footers and page indexes, kept outside the pool.
    pub(super) footer_bytes: u64,
    /// The most memory that the process held during the run, data of the bench itself included; null where the system
    /// does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// For the charts.
    #[serde(skip)]
    pub(super) timeline: super::timeline::Timeline,
}

/// Pages that were brought before they were asked for.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Prefetch {
    pages: u64,
    useful: u64,
    late: u64,
    wasted: u64,
}

impl From<&PoolStats> for Prefetch {
    fn from(stats: &PoolStats) -> Self {
        Self {
            pages: stats.prefetched,
            useful: stats.prefetch_useful,
            late: stats.prefetch_late,
            wasted: stats.prefetch_wasted,
        }
    }
}

/// In which order a scan's row groups come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Delivery {
    /// Plain DataFusion, without a pool.
    None,
    /// DataFusion's own, through the pool.
    Stock,
    /// File order, shared by all partitions of a scan that is registered.
    InOrder,
}

impl From<pagecast_datafusion::Delivery> for Delivery {
    fn from(delivery: pagecast_datafusion::Delivery) -> Self {
        match delivery {
            pagecast_datafusion::Delivery::Stock => Self::Stock,
            pagecast_datafusion::Delivery::InOrder => Self::InOrder,
        }
    }
}

impl Delivery {
    /// As in the JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stock => "stock",
            Self::InOrder => "in-order",
        }
    }
}

/// One query of a run.
#[derive(Debug, Serialize)]
pub(super) struct QueryRun {
    pub(super) name: String,
    pub(super) stream: usize,
    pub(super) wall_s: f64,
    pub(super) rows: usize,
}

impl Run {
    /// What charts and progress call the row.
    pub(super) fn label(&self) -> String {
        match self.delivery {
            Delivery::None => "no pool".into(),
            delivery => format!("{} {}", delivery.name(), self.policy),
        }
    }
}

impl Results {
    /// The row that others are compared with: stock delivery through the pool.
    fn stock(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.delivery == Delivery::Stock)
    }

    /// The heads and rows of the result table, for the terminal and for the page.
    pub(super) fn cells(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let heads = vec![
            "delivery",
            "policy",
            "hit rate",
            "requested",
            "read",
            "/stock",
            "Belady",
            "bypassed",
            "evictions",
            "wall",
            "/stock",
            "pool memory",
            "peak RSS",
        ];
        let ratio = |ours: f64, stock: Option<f64>| match stock {
            Some(stock) if stock > 0.0 => format!("{:.2}x", ours / stock),
            _ => "-".into(),
        };
        let stock = self.stock();
        let or_dash = |value: Option<u64>| value.map_or("-".into(), bytes_text);
        let row = |run: &Run| {
            vec![
                run.delivery.name().to_owned(),
                run.policy.clone(),
                run.hit_rate.map_or("-".into(), |rate| format!("{:.1} %", rate * 100.0)),
                bytes_text(run.bytes_requested),
                bytes_text(run.bytes_read),
                ratio(run.bytes_read as f64, stock.map(|stock| stock.bytes_read as f64)),
                or_dash(run.belady_bytes_read),
                bytes_text(run.bypassed_bytes),
                run.evictions.to_string(),
                seconds_text(run.wall_s),
                ratio(run.wall_s, stock.map(|stock| stock.wall_s)),
                bytes_text(run.pool_memory_bytes),
                or_dash(run.peak_rss_bytes),
            ]
        };
        (heads, self.runs.iter().map(row).collect())
    }

    /// The table and the line of circumstances that ends a bench.
    pub(super) fn summary(&self) -> String {
        let (heads, rows) = self.cells();
        let mut table = Table::new(&heads, 2);
        rows.into_iter().for_each(|row| table.row(row));
        let config = &self.config;
        format!(
            "{table}\nseed {} | {} streams x {} queries | touched {} | pool {} | storage {} | {}\n",
            config.seed,
            config.streams,
            config.queries_per_stream,
            bytes_text(config.touched_bytes),
            bytes_text(config.pool_bytes),
            config.storage.label,
            config.machine,
        )
    }
}
