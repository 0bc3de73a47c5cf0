//! What a bench gives: the JSON of the contract, and its table.

use std::path::PathBuf;

use pagecast::PoolStats;
use serde::Serialize;

use super::dashboards;
use super::machine::Machine;
use super::tier::FlashRun;
use super::workload::Workload;
use crate::output::Table;
use crate::stores::dollars;
use crate::units::{bytes_text, seconds_text};

/// The whole of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// The version of this shape.
    pub(super) schema: u32,
    pub(super) config: Config,
    /// Whether Ctrl-C ended the bench before its last run. What is here is complete, run by run.
    pub(super) partial: bool,
    /// As they were made: all rows, and all rows again for each repetition.
    pub(super) runs: Vec<Run>,
    /// How many rows there are.
    #[serde(skip)]
    pub(super) rows: usize,
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
    pub(super) workload: Workload,
    /// The templates that queries are drawn from.
    pub(super) templates: Vec<String>,
    pub(super) streams: usize,
    pub(super) queries_per_stream: usize,
    /// How often each row is run.
    pub(super) repeat: usize,
    /// Of each query one of these, as a share of the range.
    pub(super) selectivity: Vec<f64>,
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
    /// Share of the requests that a declared store refuses at first.
    pub(super) refused: Option<f64>,
    pub(super) max_request_bytes: u64,
    /// Of an object store, as `--price` takes them.
    pub(super) prices: Option<String>,
}

/// One run of the query list.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    /// The policy as it was given; `none` for plain DataFusion.
    pub(super) policy: String,
    pub(super) params: String,
    pub(super) delivery: Delivery,
    pub(super) seed: u64,
    /// Which of the runs of its row it is, from 1.
    pub(super) repetition: usize,
    pub(super) streams: usize,
    pub(super) pool_bytes: u64,
    pub(super) touched_bytes: u64,
    /// Requests for a page; 0 without a pool.
    pub(super) page_requests: u64,
    /// Of those, requests that found their page on its way and waited for a load that another had
    /// begun.
    pub(super) joined_requests: u64,
    /// Scans that came out of order, and those that might have and came in order.
    pub(super) scans_out_of_order: u64,
    pub(super) scans_back_in_order: u64,
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
    /// Processor time of the whole process, all cores together; null where the system does not
    /// tell.
    pub(super) cpu_s: Option<f64>,
    /// How busy all processors of the machine were with it, from 0 to 1.
    pub(super) processors_busy: Option<f64>,
    pub(super) queries: Vec<QueryRun>,
    /// Requests to storage, each one contiguous range.
    pub(super) storage_requests: u64,
    /// What an object store was asked besides; null for files.
    pub(super) store: Option<StoreRun>,
    /// What a tier on flash did; null where there is none.
    pub(super) flash: Option<FlashRun>,
    /// All of the pool's own memory.
    pub(super) pool_memory_bytes: u64,
    /// Footers and page indexes, kept outside the pool.
    pub(super) footer_bytes: u64,
    /// The most memory that the process held during the run, data of the bench itself included;
    /// null where the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// For the charts.
    #[serde(skip)]
    pub(super) timeline: super::timeline::Timeline,
}

/// What an object store was asked, the tables' schemas and footers included.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct StoreRun {
    pub(super) gets: u64,
    pub(super) heads: u64,
    pub(super) lists: u64,
    /// Attempts that a declared store refused.
    pub(super) refused: u64,
    /// Of the bytes that were read, those that lay between wanted ones and were thrown away. Null
    /// without a pool, where DataFusion's client throws them away uncounted.
    pub(super) gap_bytes: Option<u64>,
    pub(super) cost_usd: f64,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Delivery {
    /// Plain DataFusion, without a pool
    None,
    /// DataFusion's own order, through a pool with clock
    Stock,
    /// File order, shared by all partitions of a scan that is registered; a row for each policy
    InOrder,
    /// What is in memory first, and what serves several scans; a row for each policy
    OutOfOrder,
}

impl From<pagecast_datafusion::Delivery> for Delivery {
    fn from(delivery: pagecast_datafusion::Delivery) -> Self {
        match delivery {
            pagecast_datafusion::Delivery::Stock => Self::Stock,
            pagecast_datafusion::Delivery::InOrder => Self::InOrder,
            pagecast_datafusion::Delivery::OutOfOrder => Self::OutOfOrder,
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
            Self::OutOfOrder => "out-of-order",
        }
    }
}

/// One query of a run.
#[derive(Debug, Serialize)]
pub(super) struct QueryRun {
    pub(super) name: String,
    /// How long its range is, as a share.
    pub(super) selectivity: f64,
    pub(super) stream: usize,
    pub(super) wall_s: f64,
    pub(super) rows: usize,
    /// What storage brought on its behalf, footers left out; null without a pool.
    pub(super) bytes_read: Option<u64>,
}

impl Run {
    /// What charts and progress call the row.
    pub(super) fn label(&self) -> String {
        match self.delivery {
            Delivery::None => "no pool".into(),
            delivery => {
                let tier = self.flash.as_ref().map(|flash| format!(", flash {}", flash.filling()));
                format!("{} {}{}", delivery.name(), self.policy, tier.unwrap_or_default())
            }
        }
    }

    /// The part of the page requests that waited for a load of another's.
    pub(super) fn joined_share(&self) -> f64 {
        if self.page_requests == 0 { 0.0 } else { self.joined_requests as f64 / self.page_requests as f64 }
    }
}

/// What is busy for this part of a run's time sets it.
const BUSY: f64 = 0.8;

/// A row of the table: its runs, at least one.
pub(super) struct Row<'a>(Vec<&'a Run>);

impl<'a> Row<'a> {
    /// The median run by bytes read: the one whose course a chart shows.
    pub(super) fn typical(&self) -> &'a Run {
        let mut runs = self.0.clone();
        runs.sort_by_key(|run| run.bytes_read);
        runs[(runs.len() - 1) / 2]
    }

    pub(super) fn runs(&self) -> &[&'a Run] {
        &self.0
    }

    /// The median of what `figure` says of each run; of an even number the mean of the middle two.
    pub(super) fn median(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        let figures = self.sorted(figure);
        let (low, high) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        low.midpoint(high)
    }

    fn median_bytes(&self, figure: impl Fn(&Run) -> u64) -> u64 {
        self.median(|run| figure(run) as f64) as u64
    }

    fn sorted(&self, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        let mut figures: Vec<f64> = self.0.iter().map(|&run| figure(run)).collect();
        figures.sort_by(f64::total_cmp);
        figures
    }

    /// How far the runs are apart: the least and the most, as parts of the median.
    fn spread(&self, figure: impl Fn(&Run) -> f64 + Copy) -> String {
        let (figures, median) = (self.sorted(figure), self.median(figure));
        match figures[..] {
            [least, .., most] if median > 0.0 => format!("{:.2}-{:.2}", least / median, most / median),
            _ => "-".into(),
        }
    }
}

/// The row that stands for what is ours: `pbm` out of order, or else in order, or else what read
/// least of the rows whose scans are registered.
pub(super) fn ours<'a, 'r>(rows: &'a [Row<'r>]) -> Option<&'a Row<'r>> {
    let registered = |row: &&Row<'_>| matches!(row.typical().delivery, Delivery::InOrder | Delivery::OutOfOrder);
    let registered = || rows.iter().filter(registered);
    let read = |row: &Row<'_>| row.median(|run| run.bytes_read as f64);
    let pbm = || registered().filter(|row| row.typical().policy == "pbm");
    pbm()
        .find(|row| row.typical().delivery == Delivery::OutOfOrder)
        .or_else(|| pbm().next())
        .or_else(|| registered().min_by(|a, b| read(a).total_cmp(&read(b))))
}

/// What a figure of a row is beside the same of stock delivery.
pub(super) fn beside(ours: f64, stock: Option<f64>) -> Option<f64> {
    stock.filter(|&stock| stock > 0.0).map(|stock| ours / stock)
}

impl Results {
    /// The rows that have a run, in the order of the table.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let rows = self.rows.min(self.runs.len());
        (0..rows).map(|row| Row(self.runs.iter().skip(row).step_by(self.rows).collect())).collect()
    }

    fn stock<'a, 'r>(rows: &'a [Row<'r>]) -> Option<&'a Row<'r>> {
        rows.iter().find(|row| row.typical().delivery == Delivery::Stock)
    }

    /// What our row saved beside stock delivery, in a sentence.
    pub(super) fn headline(&self) -> Option<String> {
        let rows = self.rows();
        let stock = Self::stock(&rows)?;
        let read = |row: &Row<'_>| row.median(|run| run.bytes_read as f64);
        let ours = ours(&rows)?;
        let bytes = beside(read(ours), Some(read(stock)))?;
        let time = beside(ours.median(|run| run.wall_s), Some(stock.median(|run| run.wall_s)))?;
        let compared = match (bytes * 100.0).round() as u64 {
            100 => "as many bytes as".to_owned(),
            percent @ 0..100 => format!("{} % fewer bytes than", 100 - percent),
            percent => format!("{} % more bytes than", percent - 100),
        };
        let run = ours.typical();
        let delivered = if run.delivery == Delivery::OutOfOrder { " out of order" } else { "" };
        let policy = &run.policy;
        Some(format!(
            "{policy}{delivered} read {compared} DataFusion's own order with a clock cache, in {time:.2} of its time"
        ))
    }

    /// Sentences on the rows in which processors set the time and not storage, and on those in
    /// which neither did.
    pub(super) fn bound(&self) -> impl Iterator<Item = String> {
        let rate = self.config.storage.bandwidth_bytes_s;
        // How busy storage was, which is not known of what is not declared.
        let storage = |row: &Row<'_>| match (row.median(|run| run.bytes_read as f64), rate) {
            (0.0, _) => Some(0.0),
            (_, rate) => rate.map(|rate| row.median(|run| run.bytes_read as f64 / rate as f64 / run.wall_s)),
        };
        let rows = self.rows();
        let named = |is_so: &dyn Fn(f64, Option<f64>) -> bool| {
            let known = rows.iter().filter(|row| row.typical().processors_busy.is_some());
            let busy = |row: &Row<'_>| row.median(|run| run.processors_busy.unwrap_or(0.0));
            let rows = known.filter(|row| is_so(busy(row), storage(row)));
            rows.map(|row| row.typical().label()).collect::<Vec<_>>().join(", ")
        };
        let percent = BUSY * 100.0;
        let processors = named(&|busy, storage| busy >= BUSY && storage.is_none_or(|busy| busy < BUSY));
        let nobody = named(&|busy, storage| busy < BUSY && storage.is_some_and(|busy| busy < BUSY));
        let processors = (!processors.is_empty()).then(|| {
            format!("Processors, not storage, set the time of {processors}: they were busy for {percent:.0} % of it or more.")
        });
        let nobody = (!nobody.is_empty()).then(|| {
            format!("Neither processors nor storage were busy for {percent:.0} % of the time of {nobody}: something else was waited for.")
        });
        processors.into_iter().chain(nobody)
    }

    /// A sentence on the rows whose scans came in order, though they might have come otherwise.
    pub(super) fn back_in_order(&self) -> Option<String> {
        let of_row = |row: &Row<'_>| {
            let Run { scans_out_of_order: out, scans_back_in_order: back, .. } = *row.typical();
            (back > 0).then(|| format!("{} {back} of {}", row.typical().label(), back + out))
        };
        let rows: Vec<String> = self.rows().iter().filter_map(of_row).collect();
        (!rows.is_empty()).then(|| {
            let rows = rows.join(", ");
            format!("Scans of few row groups, or too large for the pool, came in file order: {rows}.")
        })
    }

    /// The heads and rows of the result table, for the terminal and for the page. Figures are
    /// medians of a row's runs.
    pub(super) fn cells(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let rows = self.rows();
        let stock = Self::stock(&rows);
        let read = |run: &Run| run.bytes_read as f64;
        let wall = |run: &Run| run.wall_s;
        let ratio = |row: &Row<'_>, figure: &dyn Fn(&Run) -> f64| {
            let ratio = beside(row.median(figure), stock.map(|stock| stock.median(figure)));
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x"))
        };
        let pooled = |row: &Row<'_>, cell: &dyn Fn() -> String| {
            if row.typical().delivery == Delivery::None { "-".into() } else { cell() }
        };
        type Cell<'a> = Box<dyn Fn(&Row<'_>) -> String + 'a>;
        let mut columns: Vec<(&'static str, Cell<'_>)> = vec![
            ("delivery", Box::new(|row| row.typical().delivery.name().to_owned())),
            ("policy", Box::new(|row| row.typical().policy.clone())),
            ("hit rate", Box::new(|row| pooled(row, &|| percent(row.median(|run| run.hit_rate.unwrap_or(0.0)))))),
            ("joined", Box::new(|row| pooled(row, &|| percent(row.median(Run::joined_share))))),
            ("requested", Box::new(|row| bytes_text(row.median_bytes(|run| run.bytes_requested)))),
            ("read", Box::new(|row| bytes_text(row.median_bytes(|run| run.bytes_read)))),
            ("read /stock", Box::new(|row| ratio(row, &read))),
            (
                "Belady",
                Box::new(|row| pooled(row, &|| bytes_text(row.median_bytes(|run| run.belady_bytes_read.unwrap_or(0))))),
            ),
            ("bypassed", Box::new(|row| bytes_text(row.median_bytes(|run| run.bypassed_bytes)))),
            ("evictions", Box::new(|row| row.median_bytes(|run| run.evictions).to_string())),
            ("wall", Box::new(|row| seconds_text(row.median(wall)))),
            ("wall /stock", Box::new(|row| ratio(row, &wall))),
            (
                "busy",
                Box::new(|row| match row.typical().processors_busy {
                    Some(_) => format!("{:.2}", row.median(|run| run.processors_busy.unwrap_or(0.0))),
                    None => "-".into(),
                }),
            ),
            ("pool memory", Box::new(|row| bytes_text(row.median_bytes(|run| run.pool_memory_bytes)))),
            (
                "peak RSS",
                Box::new(|row| match row.typical().peak_rss_bytes {
                    Some(_) => bytes_text(row.median_bytes(|run| run.peak_rss_bytes.unwrap_or(0))),
                    None => "-".into(),
                }),
            ),
        ];
        if self.config.workload == Workload::Tpch {
            let hourly = |run: &Run| run.queries.len() as f64 * 3600.0 / run.wall_s;
            columns.push(("queries /h", Box::new(move |row| format!("{:.0}", row.median(hourly)))));
        }
        if self.config.workload == Workload::Dashboards {
            let seconds = |of: fn(&[f64]) -> f64| {
                move |run: &Run| {
                    let queries = run.queries.iter().map(|query| (query.name.as_str(), query.wall_s));
                    of(&dashboards::latencies(queries))
                }
            };
            let column = move |of| -> Cell<'_> { Box::new(move |row| format!("{:.2} s", row.median(seconds(of)))) };
            columns.push(("report", column(dashboards::median)));
            columns.push(("worst", column(|all| all.last().copied().unwrap_or(0.0))));
        }
        if rows.iter().any(|row| row.typical().store.is_some()) {
            let of = |figure: fn(&StoreRun) -> f64| move |run: &Run| run.store.as_ref().map_or(0.0, figure);
            let count = move |figure: fn(&StoreRun) -> f64| -> Cell<'_> {
                Box::new(move |row| format!("{:.0}", row.median(of(figure))))
            };
            columns.push(("GET", count(|store| store.gets as f64)));
            columns.push(("HEAD", count(|store| store.heads as f64)));
            columns.push(("LIST", count(|store| store.lists as f64)));
            columns.push(("refused", count(|store| store.refused as f64)));
            let gaps = of(|store| store.gap_bytes.unwrap_or(0) as f64);
            columns.push(("gaps", Box::new(move |row| pooled(row, &|| bytes_text(row.median(gaps) as u64)))));
            columns.push(("cost", Box::new(move |row| dollars(row.median(of(|store| store.cost_usd))))));
        }
        if rows.iter().any(|row| row.typical().flash.is_some()) {
            let of = |figure: fn(&FlashRun) -> u64| -> Cell<'_> {
                Box::new(move |row| match &row.typical().flash {
                    Some(_) => bytes_text(row.median_bytes(|run| run.flash.as_ref().map_or(0, figure))),
                    None => "-".into(),
                })
            };
            let filling = |row: &Row<'_>| row.typical().flash.as_ref().map_or("-", FlashRun::filling);
            columns.push(("flash", Box::new(move |row| filling(row).to_owned())));
            columns.push(("from flash", of(|flash| flash.bytes_read)));
            columns.push(("to flash", of(|flash| flash.bytes_written)));
        }
        if self.config.repeat > 1 {
            columns.push(("runs", Box::new(|row| row.runs().len().to_string())));
            columns.push(("read, least-most", Box::new(|row| row.spread(read))));
            columns.push(("wall, least-most", Box::new(|row| row.spread(wall))));
        }
        let heads = columns.iter().map(|(head, _)| *head).collect();
        (heads, rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect()).collect())
    }

    /// The table and the line of circumstances that ends a bench.
    pub(super) fn summary(&self) -> String {
        let (heads, rows) = self.cells();
        let mut table = Table::new(&heads, 2);
        rows.into_iter().for_each(|row| table.row(row));
        let config = &self.config;
        let medians = match config.repeat {
            0 | 1 => String::new(),
            _ => "Figures are medians of a row's runs; least-most: how far these are apart, as parts of the median.\n"
                .into(),
        };
        let partial = match self.partial {
            true => format!("partial: {} of {} runs were done\n", self.runs.len(), self.rows * config.repeat),
            false => String::new(),
        };
        let off = self.runs.iter().filter_map(|run| run.flash.as_ref()?.off.clone()).next();
        let notes: String =
            self.back_in_order().into_iter().chain(self.bound()).chain(off).map(|note| note + "\n").collect();
        format!(
            "{table}\n{medians}{partial}{notes}seed {} | {} streams x {} queries | touched {} | pool {} | storage {} | {}\n",
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

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
