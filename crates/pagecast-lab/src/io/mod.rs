//! Reads a second through the pool, from a file larger than it, over positional threads and over
//! io_uring.
//!
//! Four callers ask for random pages, 64 at a time, none next to another, so that each miss is a
//! request of its own. The backends take turns, each with a pool that is full already; figures are
//! medians of the rounds. A second table says what reading ahead is worth over a declared device, a
//! third how fast checkpoints write.

mod ahead;
mod write;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagecast::storage::Device;
use pagecast::{PolicySpec, Pool, PoolOptions, Relation};
use pagecast_core::random::Random;
use serde_json::{Value, json};

const FILE_BYTES: u64 = 1 << 30;
const POOL_BYTES: u64 = 64 << 20;
const PAGES: [u32; 2] = [4 << 10, 64 << 10];
const CALLERS: u64 = 4;
const AT_ONCE: usize = 64;
/// Bytes that a read asks for while the pool is filled.
const AT_A_TIME: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Read this file, which is made if there is none; checkpoints are written beside it
    #[arg(long)]
    file: Option<PathBuf>,
    /// Leave out the other tables
    #[arg(long, value_name = "TABLE", value_parser = ["checkpoints"])]
    only: Option<String>,
    /// Medians are of so many rounds
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: NonZeroUsize,
    /// A round of reads takes so long
    #[arg(long, value_name = "S", default_value = "1")]
    seconds: NonZeroU64,
}

/// What one backend did in one round.
#[derive(Clone, Copy)]
struct Round {
    reads_s: f64,
    /// Processor time of a read, callers included.
    cpu_us: f64,
}

pub(crate) fn run(args: &Args) -> Result<Value, String> {
    let mut tables = if args.only.is_some() { json!({}) } else { reads(args)? };
    tables["checkpoints"] = checkpoints(args)?.into();
    Ok(tables)
}

/// Checkpoints over each backend, with and without copies first, and `dd`.
fn checkpoints(args: &Args) -> Result<Vec<Value>, String> {
    println!("\ncheckpoints of {} MiB; medians, and dd with direct requests of 4 MiB", write::BYTES >> 20);
    println!("{:>10} {:>13} {:>7} {:>5}  backend", "pages", "double write", "MiB/s", "/ dd");
    // A folder of the disk that is measured: beside the given file, if there is one.
    let beside = args.file.as_deref().and_then(Path::parent).map(tempfile::tempdir_in);
    let folder = beside.unwrap_or_else(tempfile::tempdir).map_err(|e| e.to_string())?;
    let mib_s = |taken: Duration| (write::BYTES >> 20) as f64 / taken.as_secs_f64();
    let mut rows = Vec::new();
    for (name, pattern) in [("neighbours", write::Pattern::Whole), ("scattered", write::Pattern::Scattered)] {
        for double_write in [false, true] {
            let backends = [("positional", Device::local()), ("io_uring", Device::uring())];
            let mut rounds = [Vec::new(), Vec::new()];
            for _ in 0..args.rounds.get() {
                let dd = mib_s(write::dd(folder.path())?);
                for ((_, device), rounds) in backends.iter().zip(&mut rounds) {
                    let ours = write::checkpoint(device.clone(), folder.path(), pattern, double_write)?;
                    rounds.push((mib_s(ours), mib_s(ours) / dd));
                }
            }
            for ((backend, device), rounds) in backends.iter().zip(&rounds) {
                let (speed, ratio) = (median(rounds, |r| r.0), median(rounds, |r| r.1));
                println!("{name:>10} {double_write:>13} {speed:>7.0} {ratio:>5.2}  {}", device.describe());
                rows.push(json!({
                    "pages": name, "double_write": double_write, "backend": backend, "mib_s": speed, "dd_ratio": ratio,
                }));
            }
        }
    }
    Ok(rows)
}

/// All that is about reads.
fn reads(args: &Args) -> Result<Value, String> {
    let temporary = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = args.file.clone().unwrap_or_else(|| temporary.path().join("pages"));
    if !file.exists() {
        fill(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    println!("{:>9}  {:>10} {:>10}  backend", "page", "reads/s", "CPU us");
    let length = Duration::from_secs(args.seconds.get());
    let mut rows = Vec::new();
    for page_size in PAGES {
        let backends = [("positional", Device::local()), ("io_uring", Device::uring())];
        let mut rounds = backends.each_ref().map(|_| Vec::new());
        for number in 0..args.rounds.get() {
            for ((_, device), rounds) in backends.iter().zip(&mut rounds) {
                rounds.push(round(device, &file, page_size, number as u64, length)?);
            }
        }
        for ((name, device), rounds) in backends.iter().zip(&rounds) {
            let (reads_s, cpu_us) = (median(rounds, |r| r.reads_s), median(rounds, |r| r.cpu_us));
            println!("{page_size:>9}  {reads_s:>10.0} {cpu_us:>10.1}  {}", device.describe());
            rows.push(json!({
                "page_bytes": page_size, "backend": name, "device": device.describe(), "threads": device.threads(),
                "reads_s": reads_s, "cpu_us_per_read": cpu_us,
            }));
        }
        let ratio = |a: usize, b: usize| median(&rounds[a], |r| r.reads_s) / median(&rounds[b], |r| r.reads_s);
        println!("{page_size:>9}  io_uring / positional: {:.2} times the reads", ratio(1, 0));
    }
    let scans = scans(args)?;
    Ok(json!({ "rows": rows, "read_ahead": scans }))
}

/// Scans with and without reading ahead.
fn scans(args: &Args) -> Result<Vec<Value>, String> {
    println!("\nscans over a declared device ({}), pbm; medians", ahead::model());
    println!(
        "{:>7} {:>5} {:>6} {:>8} {:>7} {:>7} {:>5} {:>6}",
        "streams", "pool", "ahead", "MiB read", "wall s", "useful", "late", "wasted"
    );
    let mut rows = Vec::new();
    for (streams, pool) in [(1, 0.1), (2, 0.5), (8, 0.3), (8, 0.6)] {
        for share in [0.0, 0.125, 0.25] {
            let setting = ahead::Setting { streams, pool, ahead: share };
            let run = |seed| ahead::run(setting, seed as u64);
            let outcomes = (0..args.rounds.get()).map(run).collect::<Result<Vec<_>, _>>()?;
            let of = |figure: fn(&ahead::Outcome) -> f64| median(&outcomes, figure);
            let (read, wall) = (of(|o| o.stats.bytes_read as f64 / 1048576.0), of(|o| o.wall.as_secs_f64()));
            let (useful, late) = (of(|o| o.stats.prefetch_useful as f64), of(|o| o.stats.prefetch_late as f64));
            let wasted = of(|o| o.stats.prefetch_wasted as f64);
            println!("{streams:>7} {pool:>5} {share:>6} {read:>8.1} {wall:>7.2} {useful:>7} {late:>5} {wasted:>6}");
            rows.push(json!({
                "streams": streams, "pool": pool, "ahead": share, "mib_read": read, "wall_s": wall,
                "useful": useful, "late": late, "wasted": wasted,
            }));
        }
    }
    Ok(rows)
}

fn median<T>(rounds: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn round(device: &Device, file: &Path, page_size: u32, seed: u64, length: Duration) -> Result<Round, String> {
    let policy = PolicySpec::parse("clock").map_err(|e| e.to_string())?;
    let options = PoolOptions::default().memory(POOL_BYTES).page_size(page_size).policy(policy).device(device.clone());
    let pool = Pool::new(options).map_err(|e| e.to_string())?;
    let table = pool.open(file).map_err(|e| e.to_string())?;
    for start in (0..2 * POOL_BYTES).step_by(AT_A_TIME as usize) {
        table.read_blocking(std::slice::from_ref(&(start..start + AT_A_TIME)), None).map_err(|e| e.to_string())?;
    }
    let before = (device.stats().requests, processor_time()?, Instant::now());
    let outcome = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (table, random) = (&table, Random::new(seed * CALLERS + caller));
                scope.spawn(move || read(table, random, length))
            })
            .collect();
        callers.into_iter().try_for_each(|caller| caller.join().map_err(|_| "a caller panicked".to_owned())?)
    });
    outcome?;
    let reads = (device.stats().requests - before.0).max(1) as f64;
    let (cpu, elapsed) = (processor_time()? - before.1, before.2.elapsed());
    Ok(Round { reads_s: reads / elapsed.as_secs_f64(), cpu_us: cpu.as_secs_f64() * 1e6 / reads })
}

/// Asks for pages until the time is over.
fn read(table: &Relation, mut random: Random, length: Duration) -> Result<(), String> {
    let (begin, page_size) = (Instant::now(), u64::from(table.page_size()));
    while begin.elapsed() < length {
        let mut ranges = Vec::with_capacity(AT_ONCE);
        for _ in 0..AT_ONCE {
            // Every other page only: no two are neighbours.
            let start = u64::from(random.below(table.pages() / 2)) * 2 * page_size;
            ranges.push(start..start + 64);
        }
        table.read_blocking(&ranges, None).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn fill(path: &Path) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    let mut random = Random::new(1);
    for _ in 0..FILE_BYTES / 4096 {
        let mut block = [0u8; 4096];
        block[..8].copy_from_slice(&(u64::from(random.below(u32::MAX))).to_le_bytes());
        file.write_all(&block)?;
    }
    file.into_inner()?.sync_all()
}

/// Of all threads of this process, ended ones too.
fn processor_time() -> Result<Duration, String> {
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|e| format!("/proc/self/stat: {e}"))?;
    // The name of the program, in parentheses, may hold anything; 11 more fields follow it up to
    // user time.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace()).ok_or("/proc/self/stat: no name")?;
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux shows times in hundredths of a second, whatever the kernel's own tick is.
    Ok(Duration::from_millis(ticks * 10))
}
