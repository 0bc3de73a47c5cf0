//! The queries of AMG-Buffer's paper through a real pool with tuples, and beside it the simulator
//! at the same bytes: pages alone, ours with its learned share, and AMG-Buffer.
//!
//! Reads and writes are of single items, and a write does not read its item first. The relation is
//! sealed, so that a page has an item less than the paper's. There is no log. Each cell is taken
//! without checkpoints, as in the paper, and with one after each 100,000 requests.
//! The pool's loads include those that bring changed items into their pages, which the simulator
//! counts apart.

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{FixedRows, Format, Lsn, Pool, PoolOptions, TupleId, TupleOptions, Tuples, WriteOptions};
use pagecast_core::policy::PolicySpec;
use pagecast_sim::generate::generate;
use pagecast_sim::trace::{Rows, Trace};
use pagecast_sim::tuples::{TupleOptions as Simulated, TupleSpec, simulate_tuples};

const PAGE: u32 = 4_096;
const PAGES: u32 = 8_192;
const ROW: u32 = 128;
/// The seal takes the place of one more.
const ROWS: u32 = PAGE / ROW - 1;
/// An eighth of the table, as in the paper.
const MEMORY: u64 = PAGES as u64 * PAGE as u64 / 8;
/// The parts of queries that are for one item.
const HYBRIDS: [u32; 3] = [20, 50, 80];
/// Requests between two checkpoints.
const CHECKPOINTS: [Option<u32>; 2] = [None, Some(100_000)];
const SIMULATED: [&str; 3] = ["off", "learn", "amg"];

/// What one buffer did with one part of narrow queries.
pub(crate) struct Row {
    pub(crate) hybrid: u32,
    pub(crate) checkpoint: Option<u32>,
    pub(crate) buffer: String,
    pub(crate) requests: u64,
    /// Pages read.
    pub(crate) loads: u64,
    pub(crate) written: u64,
    pub(crate) tuple_hits: u64,
}

/// All cells, of a trace of so many queries each.
pub(crate) fn measure(queries: u32) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for hybrid in HYBRIDS {
        let workload = format!("amg(queries={queries},pages={PAGES},rows={ROWS},bytes={ROW},hybrid={hybrid}%)");
        let mut source = generate(&workload, 1).map_err(|error| error.to_string())?;
        let trace = Trace::load(&workload, &mut source).map_err(|error| error.to_string())?;
        for checkpoint in CHECKPOINTS {
            for tuples in [None, Some(TupleOptions::default())] {
                rows.push(Row { hybrid, ..built(&trace, tuples, checkpoint)? });
            }
            for spec in SIMULATED {
                rows.push(Row { hybrid, ..simulated(&trace, spec, checkpoint)? });
            }
        }
    }
    Ok(rows)
}

fn simulated(trace: &Trace, spec: &str, checkpoint: Option<u32>) -> Result<Row, String> {
    let policy = PolicySpec::parse("pbm").map_err(|error| error.to_string())?;
    let rows = Rows { page: PAGE, count: ROWS, bytes: ROW };
    let options = Simulated { memory: MEMORY, rows, skip: 0.0, checkpoint, seed: 1 };
    let outcome = simulate_tuples(trace, &policy, TupleSpec::parse(spec)?, &options);
    let counts = outcome.map_err(|error| error.to_string())?.counts;
    Ok(Row {
        hybrid: 0,
        checkpoint,
        buffer: format!("simulated {spec}"),
        requests: counts.requests,
        loads: counts.misses + counts.cleaning_reads,
        written: counts.write_backs,
        tuple_hits: counts.tuple_hits,
    })
}

/// The same requests through a pool, in one session.
fn built(trace: &Trace, tuples: Option<TupleOptions>, checkpoint: Option<u32>) -> Result<Row, String> {
    let buffer = if tuples.is_some() { "pool learn" } else { "pool off" }.to_owned();
    let (pool, tuples) = pool(tuples)?;
    let before = pool.stats();
    let mut session = pool.session();
    let mut row = [0; ROW as usize];
    for (at, &number) in trace.requests().iter().enumerate() {
        let block = trace.pages()[number as usize].block();
        let id = TupleId { block, item: trace.item(at).ok_or("a request without an item")? };
        if trace.is_write(at) {
            tuples.write(id, &row, || Lsn(2 + at as u64)).map_err(|error| error.to_string())?;
        } else {
            let found = session.read_tuple(&tuples, id, &mut row).map_err(|error| error.to_string())?;
            if found != Some(row.len()) {
                return Err(format!("{id:?} is not found"));
            }
        }
        if checkpoint.is_some_and(|every| (at + 1).is_multiple_of(every as usize)) {
            pool.flush().map_err(|error| error.to_string())?;
        }
    }
    drop(session);
    let stats = pool.stats();
    Ok(Row {
        hybrid: 0,
        checkpoint,
        buffer,
        requests: trace.requests().len() as u64,
        loads: stats.loads - before.loads,
        written: stats.pages_written - before.pages_written,
        tuple_hits: stats.tuple_hits,
    })
}

fn pool(tuples: Option<TupleOptions>) -> Result<(Pool, Tuples), String> {
    let options = PoolOptions::default().memory(MEMORY).page_size(PAGE).tuples(tuples);
    let pool = Pool::new(options.device(Device::new(MemoryFiles::new(), None))).map_err(|e| e.to_string())?;
    let sealed = WriteOptions::default().create(true).format(Format::Sealed);
    let relation = pool.open_to_write("rows".as_ref(), &sealed).map_err(|e| e.to_string())?;
    relation.grow(PAGES).map_err(|e| e.to_string())?;
    for block in 0..PAGES {
        relation.pin_mut(block, None).map_err(|e| e.to_string())?.logged(Lsn(1));
    }
    pool.flush().map_err(|e| e.to_string())?;
    let tuples = pool.tuples(&relation, FixedRows { first: 0, row: ROW }).map_err(|e| e.to_string())?;
    Ok((pool, tuples))
}
