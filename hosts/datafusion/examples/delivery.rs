//! Why delivery decides what many streams read: a model of `pagecast bench` without Parquet and
//! without decoding.
//!
//! The pool, its policies and the declared storage are the real ones. A query reads 30 % of 46 row
//! groups shaped like lineitem's; decoding a row group is a worker thread that sleeps. So the
//! processors' part can be chosen, and so can what is shared: which of a query's partitions reads
//! which row groups.
//!
//! `cargo run --release -p pagecast-datafusion --example delivery -- stock clock 64 2 20 1`:
//! delivery, policy, streams, queries of each, milliseconds to decode a row group, seed.
//! Deliveries:
//!
//! * `stock`: a partition has its half of the file. Nothing is registered.
//! * `split`: a partition has half of the query's own range. Nothing is registered.
//! * `two`: two partitions take row groups in order from one queue, registered as one scan, as
//!   in-order delivery does.
//! * `one`: the same with one partition.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
use pagecast::storage::{DeclaredModel, Device, MemoryFiles};
use pagecast::{PolicySpec, Pool, PoolOptions, Relation, Scan, ScanId};
use parking_lot::Mutex;
use tokio::task::JoinSet;

const ROW_GROUPS: usize = 46;
const ROW_GROUP_BYTES: u64 = 4_800_000;
/// What TPC-H Q1 reads of a row group, column after column, in KiB; Q6 reads those marked.
const COLUMNS: [(u64, bool); 7] =
    [(100, true), (640, true), (64, true), (64, false), (20, false), (16, false), (180, true)];
const POOL: u64 = 17_300_000;
const WORKERS: usize = 2;

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [delivery, policy, streams, queries, decoding, seed] = &args[..] else {
        return Err("usage: delivery stock|split|two|one POLICY STREAMS QUERIES MILLISECONDS SEED".into());
    };
    let files = MemoryFiles::new();
    files.write("table", vec![1; ROW_GROUPS * ROW_GROUP_BYTES as usize]);
    let model = DeclaredModel {
        bandwidth: 40_000_000,
        latency: Duration::from_millis(5),
        outstanding: DeclaredModel::OUTSTANDING,
    };
    let device = Device::new(files, Some(model));
    let policy = PolicySpec::parse(policy)?;
    let pool = Pool::new(PoolOptions::default().memory(POOL).policy(policy).device(device))?;
    let table = pool.open("table".as_ref())?;
    let decoding = Duration::from_secs_f64(decoding.parse::<f64>()? / 1e3);
    let bench = Arc::new(Bench { pool, table, delivery: delivery.parse()?, decoding });

    let mut draws = draws(seed.parse()?);
    let (streams, queries) = (streams.parse::<usize>()?, queries.parse::<usize>()?);
    let lists: Vec<Vec<Query>> =
        (0..streams).map(|_| (0..queries).map(|_| Query::draw(&mut draws)).collect()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let begin = Instant::now();
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for list in lists {
            running.spawn(Arc::clone(&bench).stream(list));
        }
        while let Some(stream) = running.join_next().await {
            stream??;
        }
        Ok::<_, Error>(())
    })?;
    let stats = bench.pool.stats();
    let share = |part: u64| part as f64 / stats.requests as f64;
    println!(
        "read {} MiB, hits {:.2}, joined {:.2} of {} page requests, {:.1} s",
        stats.bytes_read >> 20,
        share(stats.hits),
        share(stats.waits),
        stats.requests,
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Numbers from 0 to 1 without a pattern that matters here.
fn draws(seed: u64) -> impl FnMut() -> f64 {
    let mut state = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(seed);
    move || {
        state = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(state);
        state as f64 / u64::MAX as f64
    }
}

#[derive(Clone, Copy)]
struct Query {
    all_columns: bool,
    first: usize,
    last: usize,
}

impl Query {
    fn draw(draw: &mut impl FnMut() -> f64) -> Self {
        let (all_columns, low) = (draw() < 0.5, draw() * 0.7);
        let at = |share: f64| (share * ROW_GROUPS as f64) as usize;
        Self { all_columns, first: at(low), last: (at(low + 0.3) + 1).min(ROW_GROUPS) }
    }

    fn ranges(self, row_group: usize) -> Vec<Range<u64>> {
        let mut at = row_group as u64 * ROW_GROUP_BYTES + 1_400_000;
        let mut ranges = Vec::new();
        for (kibibytes, both) in COLUMNS {
            let end = at + (kibibytes << 10);
            if both || self.all_columns {
                ranges.push(at..end);
            }
            at = end;
        }
        ranges
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Delivery {
    Stock,
    Split,
    Two,
    One,
}

impl std::str::FromStr for Delivery {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stock" => Ok(Self::Stock),
            "split" => Ok(Self::Split),
            "two" => Ok(Self::Two),
            "one" => Ok(Self::One),
            _ => Err(format!("`{text}` is no delivery; write stock, split, two or one")),
        }
    }
}

struct Bench {
    pool: Pool,
    table: Relation,
    delivery: Delivery,
    decoding: Duration,
}

impl Bench {
    async fn stream(self: Arc<Self>, queries: Vec<Query>) -> Result<(), Error> {
        for query in queries {
            let border = match self.delivery {
                Delivery::Stock => (ROW_GROUPS / 2).clamp(query.first, query.last),
                Delivery::Split => query.first.midpoint(query.last),
                Delivery::Two | Delivery::One => query.last,
            };
            let part = |rows: Range<usize>| Arc::new(Queue::new(&self, query, rows));
            let front = part(query.first..border);
            let partitions = match self.delivery {
                Delivery::Stock | Delivery::Split => vec![front, part(border..query.last)],
                Delivery::Two => vec![Arc::clone(&front), front],
                Delivery::One => vec![front],
            };
            let mut running = JoinSet::new();
            for queue in partitions {
                running.spawn(Arc::clone(&self).partition(query, queue));
            }
            while let Some(partition) = running.join_next().await {
                partition??;
            }
        }
        Ok(())
    }

    async fn partition(self: Arc<Self>, query: Query, queue: Arc<Queue>) -> Result<(), Error> {
        while let Some((row_group, scan)) = queue.next() {
            self.table.read(&query.ranges(row_group), scan).await?;
            // A worker decodes and does nothing else meanwhile.
            std::thread::sleep(if query.all_columns { self.decoding } else { self.decoding / 2 });
        }
        Ok(())
    }
}

/// Row groups in order, and where the scan stands: at the first that was not asked for.
struct Queue(Mutex<(VecDeque<usize>, u64, Option<Scan>)>);

impl Queue {
    fn new(bench: &Bench, query: Query, row_groups: Range<usize>) -> Self {
        let ordered = matches!(bench.delivery, Delivery::Two | Delivery::One);
        let scan = if ordered { Self::register(bench, query, row_groups.clone()) } else { None };
        Self(Mutex::new((row_groups.collect(), 0, scan)))
    }

    /// A scan that finds no room runs without being known.
    fn register(bench: &Bench, query: Query, row_groups: Range<usize>) -> Option<Scan> {
        let page = u64::from(bench.pool.page_size());
        let mut runs: Vec<Run> = Vec::new();
        for (position, row_group) in row_groups.clone().enumerate() {
            for range in query.ranges(row_group) {
                let end = runs.last().map_or(0, |run| u64::from(run.first + run.blocks));
                let (first, last) = ((range.start / page).max(end), range.end.div_ceil(page));
                if first < last {
                    let blocks = (last - first) as u32;
                    runs.push(Run { first: first as u32, blocks, position: position as u64, span: 0 });
                }
            }
        }
        let parts = [Part { relation: bench.table.id(), pages: Pages::Runs(&runs) }];
        bench.pool.register(&ScanSpec { kind: ScanKind(0), length: row_groups.len() as u64, parts: &parts }).ok()
    }

    fn next(&self) -> Option<(usize, Option<ScanId>)> {
        let (row_groups, position, scan) = &mut *self.0.lock();
        let row_group = row_groups.pop_front()?;
        let id = scan.as_ref().map(Scan::id);
        *position += 1;
        if let Some(scan) = scan {
            scan.report(*position);
        }
        Some((row_group, id))
    }
}
