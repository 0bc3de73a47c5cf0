//! A trace through a real pool, in its order and in one thread.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pagecast::predictor::{Pages, Part, ScanKind, ScanSpec};
use pagecast::storage::{DirectIo, Generation, Storage};
use pagecast::{FlashAdmission, FlashOptions, Pool, PoolOptions, Relation, RelationId, Scan};
use pagecast_sim::trace::{Extent, LoadedEvent, Registration, Trace};

use super::Figures;

const PAGE: u32 = 4096;
/// What a page takes on flash, beside its part of the index.
const SLOT: u64 = 2 * PAGE as u64;

/// What came of it.
pub(super) struct Built {
    pub(super) figures: Figures,
    pub(super) bytes_written: u64,
    pub(super) skipped: u64,
    pub(super) broken: u64,
    pub(super) wall_s: f64,
    pub(super) requests_per_second: f64,
}

/// Replays `trace` through a pool of `frames` frames over a tier of `slots` pages in `folder`.
/// Writes are of `budget` pages a second, if there is one.
pub(super) fn replay(
    trace: &Trace,
    frames: u32,
    slots: u32,
    (admission, budget): (FlashAdmission, Option<f64>),
    folder: &Path,
) -> Result<Built, String> {
    let scratch = tempfile::tempdir_in(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let bytes = u64::from(PAGE) * (1 + u64::from(slots).div_ceil(128)) + u64::from(slots) * SLOT;
    let writes = budget.map(|pages| (pages * SLOT as f64) as u64);
    let flash = FlashOptions::new(scratch.path(), bytes).admission(admission).writes(writes);
    let pool = pool_of(frames, flash)?;
    let mut replay = Replay { tables: tables(trace, &pool)?, scans: HashMap::new(), pool };
    let started = Instant::now();
    replay.run(trace)?;
    let wall_s = started.elapsed().as_secs_f64();
    let (stats, view) = (replay.pool.stats(), replay.pool.flash().ok_or("no tier")?);
    if let Some(off) = view.off {
        return Err(off);
    }
    Ok(Built {
        figures: Figures { reads: stats.loads - stats.flash_hits, written: stats.flash_pages_written },
        bytes_written: stats.flash_bytes_written,
        skipped: view.skipped,
        broken: view.broken,
        wall_s,
        requests_per_second: trace.requests().len() as f64 / wall_s,
    })
}

/// A pool with as many frames: what it needs beside them is told by a first one.
fn pool_of(frames: u32, flash: FlashOptions) -> Result<Pool, String> {
    let with = |memory: u64| {
        let options = PoolOptions::default().memory(memory).page_size(PAGE);
        Pool::new(options.flash(flash.clone())).map_err(|error| error.to_string())
    };
    let mut memory = u64::from(frames) * u64::from(PAGE) + (8 << 20);
    for _ in 0..200 {
        let pool = with(memory)?;
        let more = i64::from(pool.frames()) - i64::from(frames);
        if more == 0 {
            return Ok(pool);
        }
        memory = memory.saturating_add_signed(-more * i64::from(PAGE));
        drop(pool);
    }
    Err(format!("no pool of {frames} frames can be made"))
}

struct Replay {
    pool: Pool,
    tables: HashMap<RelationId, Relation>,
    scans: HashMap<u32, Scan>,
}

impl Replay {
    fn run(&mut self, trace: &Trace) -> Result<(), String> {
        let mut events = trace.events().iter().peekable();
        for (at, &number) in trace.requests().iter().enumerate() {
            while let Some(event) = events.next_if(|event| event.before as usize <= at) {
                self.apply(&event.event)?;
            }
            let page = trace.pages()[number as usize];
            let table = self.tables.get(&page.relation()).ok_or("a page of no table")?;
            let scan = trace.scan(at).and_then(|scan| self.scans.get(&scan)).map(Scan::id);
            let pin = table.pin(page.block(), scan).map_err(|error| error.to_string())?;
            if pin[..4] != page.block().to_le_bytes() {
                return Err(format!("page {page:?} has the bytes of another"));
            }
            drop(pin);
            // A replay gives up pages as fast as memory; what is real waits for its store.
            self.pool.settle_flash();
        }
        Ok(())
    }

    fn apply(&mut self, event: &LoadedEvent) -> Result<(), String> {
        match event {
            LoadedEvent::Register(registration) => {
                let scan = self.register(registration)?;
                self.scans.insert(registration.scan, scan);
            }
            LoadedEvent::Report(scan, position) => {
                self.scans.get(scan).into_iter().for_each(|scan| scan.report(*position));
            }
            LoadedEvent::Finish(scan) => drop(self.scans.remove(scan)),
            LoadedEvent::Pace(_) | LoadedEvent::Wait(_) | LoadedEvent::Changed(_) => {}
        }
        Ok(())
    }

    fn register(&self, registration: &Registration) -> Result<Scan, String> {
        let mut parts = Vec::new();
        for (relation, extent) in &registration.parts {
            let relation = self.tables.get(relation).ok_or("a scan of no table")?.id();
            let Extent::Runs(runs) = extent else { return Err("a scan that is no list of runs".into()) };
            parts.push(Part { relation, pages: Pages::Runs(runs) });
        }
        let spec = ScanSpec { kind: ScanKind(registration.kind), length: registration.length, parts: &parts };
        self.pool.register(&spec).map_err(|error| error.to_string())
    }
}

fn tables(trace: &Trace, pool: &Pool) -> Result<HashMap<RelationId, Relation>, String> {
    let mut pages: HashMap<RelationId, u32> = HashMap::new();
    for page in trace.pages() {
        let most = pages.entry(page.relation()).or_default();
        *most = (*most).max(page.block() + 1);
    }
    let open = |(relation, pages): (RelationId, u32)| {
        let far: Arc<dyn Storage> = Arc::new(Far::new(relation, pages));
        let table = pool.open_storage(&far).map_err(|error| error.to_string())?;
        Ok((relation, table))
    };
    pages.into_iter().map(open).collect()
}

/// A table that is far away: each page begins with its number.
struct Far {
    name: PathBuf,
    generation: Generation,
}

impl Far {
    fn new(relation: RelationId, pages: u32) -> Self {
        let size = u64::from(pages) * u64::from(PAGE);
        let name = format!("far://tables/{}", relation.0).into();
        Self { name, generation: Generation::of_object(size, 0, Some("one")) }
    }
}

impl Storage for Far {
    fn path(&self) -> &Path {
        &self.name
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn current(&self) -> io::Result<Generation> {
        Ok(self.generation)
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let first = (offset / u64::from(PAGE)) as u32;
        let mut read = 0;
        for (page, block) in bufs.iter_mut().flat_map(|buf| buf.chunks_exact_mut(PAGE as usize)).zip(first..) {
            page.fill(0);
            page[..4].copy_from_slice(&block.to_le_bytes());
            read += page.len();
        }
        Ok(read)
    }

    fn alignment(&self) -> usize {
        PAGE as usize
    }

    fn compares_reads(&self) -> bool {
        true
    }

    fn may_be_copied(&self) -> bool {
        true
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }
}
