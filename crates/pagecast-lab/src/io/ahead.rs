//! What reading ahead is worth: scans over a declared device, with and without it.
//!
//! Each stream scans random 30 % ranges of the table, eight pages at a time, and says how far it
//! is. Streams take no time of their own, so that what is measured is waiting alone.

use std::path::Path;
use std::time::{Duration, Instant};

use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
use pagecast::storage::{DeclaredModel, Device, MemoryFiles};
use pagecast::{Pool, PoolOptions, PoolStats, PrefetchOptions, Relation};
use pagecast_core::random::Random;

const PAGE: u64 = 64 << 10;
const TABLE_PAGES: u32 = 1024;
/// Of one read.
const GROUP: u32 = 8;
const SCANS: u32 = 4;
const MODEL: DeclaredModel =
    DeclaredModel { bandwidth: 100_000_000, latency: Duration::from_millis(5), outstanding: 16 };

/// One way to run the scans.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) streams: u32,
    /// Memory of the pool as a share of the table.
    pub(crate) pool: f64,
    /// Share of the frames for pages ahead; 0: scans do not read ahead.
    pub(crate) ahead: f64,
}

/// What it took.
pub(crate) struct Outcome {
    pub(crate) wall: Duration,
    pub(crate) stats: PoolStats,
}

/// The declared device, in words.
pub(crate) fn model() -> String {
    MODEL.to_string()
}

/// Runs the scans.
pub(crate) fn run(setting: Setting, seed: u64) -> Result<Outcome, String> {
    let files = MemoryFiles::new();
    files.write("table", vec![1; TABLE_PAGES as usize * PAGE as usize]);
    let pool = Pool::new(
        PoolOptions::default()
            .memory((f64::from(TABLE_PAGES) * PAGE as f64 * setting.pool) as u64)
            .seed(seed)
            .device(Device::new(files, Some(MODEL)))
            .prefetch(PrefetchOptions::default().share(setting.ahead).read_ahead(setting.ahead > 0.0)),
    )
    .map_err(|e| e.to_string())?;
    let table = pool.open(Path::new("table")).map_err(|e| e.to_string())?;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let streams: Vec<_> = (0..setting.streams)
            .map(|stream| {
                let (pool, table) = (&pool, &table);
                let random = Random::new(seed * 1000 + u64::from(stream));
                scope.spawn(move || self::stream(pool, table, random))
            })
            .collect();
        streams.into_iter().try_for_each(|stream| stream.join().map_err(|_| "a stream panicked".to_owned())?)
    })?;
    Ok(Outcome { wall: begin.elapsed(), stats: pool.stats() })
}

fn stream(pool: &Pool, table: &Relation, mut random: Random) -> Result<(), String> {
    let blocks = TABLE_PAGES * 3 / 10 / GROUP * GROUP;
    for _ in 0..SCANS {
        let first = random.below(TABLE_PAGES - blocks);
        let runs = [Run { first, blocks, position: 0, span: blocks.into() }];
        let parts = [Part { relation: table.id(), pages: Pages::Runs(&runs) }];
        let spec = ScanSpec { kind: ScanKind(0), length: blocks.into(), parts: &parts };
        let scan = pool.register(&spec).map_err(|e| e.to_string())?;
        for group in (0..blocks).step_by(GROUP as usize) {
            let start = u64::from(first + group) * PAGE;
            // A read takes what is resident at once: the scan needs none of these pages to be kept.
            scan.report((group + GROUP).into());
            let range = start..start + u64::from(GROUP) * PAGE;
            table.read_blocking(std::slice::from_ref(&range), Some(scan.id())).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
