//! A long run of everything at once: 64 sessions that pin, read, scan, cancel, hold and change
//! pages, on storage that fails, over files that are replaced, in a pool that is resized. At its
//! end every invariant holds, no pin is left, no change is lost, memory is bounded.
//!
//! `SOAK_SECONDS` says how long (3 unless it is set; `make test` runs 60, `make soak` 1800),
//! `SOAK_SEED` which run; both are printed.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
use pagecast::storage::{Device, Fault, FaultStorage, Faults, MemoryFiles, WriteFault};
use pagecast::{
    FixedRows, Format, Lsn, Pool, PoolError, PoolOptions, Relation, Session, TupleId, TupleOptions, Tuples,
    WriteOptions,
};
use pagecast_core::random::Random;

mod outcome;
use outcome::{OVER, after, counter, resident_bytes, settle, watch};

const SESSIONS: u64 = 64;
const PAGE: u64 = 4096;
const FILES: u32 = 6;
const PAGES: u32 = 300;
/// Pages of the file that is changed.
const COUNTERS: u32 = 100;
/// Bytes of an item, and the one of each page that counts.
const ITEM: usize = 64;
const COUNTING_ITEM: u32 = 16;
const ITEMS: FixedRows = FixedRows { first: 0, row: ITEM as u32 };
const MIN_MEMORY: u64 = 1000 << 10;
const MAX_MEMORY: u64 = 6 << 20;
/// What this process may grow by in the second half of the run: allocators keep some.
const MAX_GROWTH: u64 = 24 << 20;
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
}

fn path(file: u32) -> PathBuf {
    PathBuf::from(format!("file-{file}"))
}

/// A page says in every word which page of which file it is, and the low bits of the file's
/// generation.
fn word(file: u32, block: u32, generation: u8) -> u64 {
    (u64::from(file) << 40) | (u64::from(block) << 8) | u64::from(generation)
}

fn content(file: u32, generation: u8) -> Vec<u8> {
    let page = |block| word(file, block, generation).to_le_bytes().repeat(PAGE as usize / 8);
    (0..PAGES).flat_map(page).collect()
}

/// All words of the bytes are the same, and of this page in some generation.
fn verify(bytes: &[u8], file: u32, block: u32) {
    assert_eq!(bytes.len() as u64, PAGE);
    let first = &bytes[..8];
    let found = u64::from_le_bytes(first.try_into().unwrap());
    assert_eq!(found >> 8, word(file, block, 0) >> 8, "page {block} of file {file} has another's bytes");
    assert!(bytes.chunks_exact(8).all(|word| word == first), "page {block} of file {file} is of two generations");
}

/// What may go wrong in this run; anything else is a fault of the pool.
fn expected(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Io { .. } | PoolError::NoFrame { .. } | PoolError::Changed { .. } | PoolError::Write { .. }
    )
}

struct Soak {
    pool: Pool,
    files: MemoryFiles,
    faults: Faults,
    /// The file that is changed, and what each of its pages must count.
    counters: Relation,
    counts: Vec<AtomicU64>,
    /// What an item of each of its pages must count, which is changed without the page if that
    /// works.
    item_counts: Vec<Mutex<u64>>,
    counter_items: Tuples,
    /// The newest relation of each file. It has one layout, and its handle is shared.
    items: Mutex<HashMap<u32, Tuples>>,
    over: AtomicBool,
    requests: AtomicU64,
    refused: AtomicU64,
    /// What each session does, as the number that it drew; the last one is who disturbs.
    doing: Arc<Vec<AtomicU32>>,
}

impl Soak {
    /// Opened under the lock, so that no older relation takes the place of a newer one.
    fn open(&self, file: u32) -> Tuples {
        let mut items = self.items.lock().unwrap();
        let relation = self.pool.open(&path(file)).unwrap();
        if items.get(&file).is_none_or(|known| known.relation().id() != relation.id()) {
            items.insert(file, self.pool.tuples(&relation, ITEMS).unwrap());
        }
        items[&file].clone()
    }

    fn read_items(
        &self,
        session: &mut Session<'_>,
        items: &Tuples,
        file: u32,
        random: &mut Random,
    ) -> Result<(), PoolError> {
        for _ in 0..20 {
            let (block, item) = (random.below(PAGES), random.below(2));
            let mut bytes = [0; ITEM];
            assert_eq!(session.read_tuple(items, TupleId { block, item }, &mut bytes)?, Some(ITEM));
            verify(&bytes.repeat(PAGE as usize / ITEM), file, block);
            self.requests.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Changes items that nobody else changes meanwhile.
    fn count_items_up(&self, session: &mut Session<'_>, random: &mut Random) -> Result<(), PoolError> {
        for _ in 0..5 {
            let block = random.below(COUNTERS);
            let mut count = self.item_counts[block as usize].lock().unwrap();
            let id = TupleId { block, item: COUNTING_ITEM };
            let mut bytes = [0; ITEM];
            session.read_tuple(&self.counter_items, id, &mut bytes)?;
            assert_eq!(bytes[..], count.to_le_bytes().repeat(ITEM / 8), "an item of page {block} has lost a change");
            let next = (*count + 1).to_le_bytes().repeat(ITEM / 8);
            match random.below(2) {
                0 => self.counter_items.update(id, &next, || Lsn::NONE)?,
                _ => self.counter_items.write(id, &next, || Lsn::NONE)?,
            }
            *count += 1;
            self.requests.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Counts a refusal that this run provokes; opens the file anew if it was replaced.
    fn refused(&self, error: PoolError, items: &mut Tuples, file: u32) {
        assert!(expected(&error), "{error}");
        self.refused.fetch_add(1, Relaxed);
        if matches!(error, PoolError::Changed { .. }) {
            *items = self.open(file);
        }
    }

    /// One session's life: a few requests of one kind after another, until the run is over.
    fn live(&self, number: usize, mut random: Random) {
        let mut open: Vec<_> = (0..FILES).map(|file| self.open(file)).collect();
        let mut session = self.pool.session();
        while !self.over.load(Relaxed) {
            let file = random.below(FILES);
            let items = &mut open[file as usize];
            let relation = items.relation();
            let kind = random.below(12);
            self.doing[number].store(kind, Relaxed);
            let done = match kind {
                0 => self.hold_several(&mut session, relation, file, &mut random),
                1 => self.scan(&mut session, relation, file, &mut random),
                2 => self.cancel(relation, &mut random),
                3 => self.read(&mut session, relation, file, &mut random),
                4 => self.count_up(&mut random),
                5 => self.count_items_up(&mut session, &mut random),
                6 | 7 => self.read_items(&mut session, items, file, &mut random),
                _ => self.pin_some(&mut session, relation, file, &mut random),
            };
            if let Err(error) = done {
                self.refused(error, items, file);
            }
            if random.below(200) == 0 {
                drop(std::mem::replace(&mut session, self.pool.session()));
            }
        }
        self.doing[number].store(OVER, Relaxed);
    }

    fn pin_some(
        &self,
        session: &mut Session<'_>,
        relation: &Relation,
        file: u32,
        random: &mut Random,
    ) -> Result<(), PoolError> {
        for _ in 0..20 {
            // Three of four requests go to a tenth of the pages.
            let block = if random.below(4) == 0 { random.below(PAGES) } else { random.below(PAGES / 10) };
            let mut copy = [0; PAGE as usize];
            if session.try_copy(relation, block, 0, &mut copy, None) == Some(PAGE as usize) {
                verify(&copy, file, block);
            } else {
                verify(&session.pin(relation, block, None)?, file, block);
            }
            self.requests.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn hold_several(
        &self,
        session: &mut Session<'_>,
        relation: &Relation,
        file: u32,
        random: &mut Random,
    ) -> Result<(), PoolError> {
        let first = random.below(PAGES - 4);
        let mut pins = Vec::new();
        for block in first..first + 1 + random.below(4) {
            pins.push((block, session.pin(relation, block, None)?));
            self.requests.fetch_add(1, Relaxed);
        }
        std::thread::sleep(Duration::from_micros(random.below(300).into()));
        pins.iter().for_each(|(block, pin)| verify(pin, file, *block));
        Ok(())
    }

    fn scan(
        &self,
        session: &mut Session<'_>,
        relation: &Relation,
        file: u32,
        random: &mut Random,
    ) -> Result<(), PoolError> {
        let first = random.below(PAGES - 40);
        let runs = [Run { first, blocks: 40, position: 0, span: 40 }];
        let parts = [Part { relation: relation.id(), pages: Pages::Runs(&runs) }];
        // Where there is no room for another scan it runs without being known.
        let scan = self.pool.register(&ScanSpec { kind: ScanKind(0), length: 40, parts: &parts }).ok();
        for step in 0..40 {
            let id = scan.as_ref().map(pagecast::Scan::id);
            verify(&session.pin(relation, first + step, id)?, file, first + step);
            self.requests.fetch_add(1, Relaxed);
            if let Some(scan) = &scan {
                scan.report(u64::from(step) + 1);
            }
        }
        Ok(())
    }

    fn read(
        &self,
        session: &mut Session<'_>,
        relation: &Relation,
        file: u32,
        random: &mut Random,
    ) -> Result<(), PoolError> {
        let (first, count) = (random.below(PAGES - 30), 1 + random.below(30));
        let range = u64::from(first) * PAGE..u64::from(first + count) * PAGE;
        let read = session.read_blocking(relation, &[range], None)?;
        for (page, block) in read.data[0].chunks(PAGE as usize).zip(first..) {
            verify(page, file, block);
        }
        self.requests.fetch_add(count.into(), Relaxed);
        Ok(())
    }

    /// Changes pages that nobody else can have meanwhile. Twice the same number, so that half a
    /// change shows.
    fn count_up(&self, random: &mut Random) -> Result<(), PoolError> {
        for _ in 0..5 {
            let block = random.below(COUNTERS);
            let mut page = self.counters.pin_mut(block, None)?;
            let count = &self.counts[block as usize];
            let before = count.load(Relaxed);
            assert_eq!(counter(&page), before, "page {block} has lost a change");
            page[..8].copy_from_slice(&(before + 1).to_le_bytes());
            std::thread::yield_now();
            page[2048..2056].copy_from_slice(&(before + 1).to_le_bytes());
            count.store(before + 1, Relaxed);
            self.requests.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Asks for pages and goes away.
    fn cancel(&self, relation: &Relation, random: &mut Random) -> Result<(), PoolError> {
        let start = u64::from(random.below(PAGES - 10)) * PAGE;
        let range = start..start + 10 * PAGE;
        let mut read = pin!(relation.read(std::slice::from_ref(&range), None));
        let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut wait = pin!(relation.pin_async(random.below(PAGES), None));
        let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Ok(())
    }

    /// Sizes, faults and replaced files, one after the other.
    fn disturb(&self, mut random: Random) {
        let mut generation = 0u8;
        while !self.over.load(Relaxed) {
            let kind = random.below(13);
            self.doing[SESSIONS as usize].store(kind, Relaxed);
            match kind {
                10 => {
                    let done = self.pool.flush();
                    assert!(done.as_ref().map_or_else(expected, |_| true), "{done:?}");
                }
                11 => self.faults.plan_writes((0..10).map(|_| match random.below(6) {
                    0 => WriteFault::Error(ErrorKind::Other),
                    1 => WriteFault::Short(random.below(5000) as usize),
                    2 => WriteFault::Torn(random.below(5000) as usize),
                    _ => WriteFault::None,
                })),
                0..5 => self.resize(MIN_MEMORY + random.next() % (MAX_MEMORY - MIN_MEMORY)),
                5..8 => self.faults.plan((0..20).map(|_| match random.below(10) {
                    0 => Fault::Error(ErrorKind::Other),
                    1 => Fault::Error(ErrorKind::Interrupted),
                    2 => Fault::Short(random.below(5000) as usize),
                    3 if random.below(20) == 0 => Fault::Panic,
                    _ => Fault::None,
                })),
                8 => drop(self.pool.give_back_idle()),
                12 => {
                    let relation = self.open(random.below(FILES)).relation().clone();
                    relation.cap((random.below(2) == 0).then_some(20)).unwrap();
                    relation.reserve(random.below(2) * 20).unwrap();
                    let frames = self.pool.snapshot().frames;
                    assert!(frames.free <= frames.in_use && frames.pinned <= frames.resident);
                }
                _ => {
                    let file = random.below(FILES);
                    generation = generation.wrapping_add(1);
                    self.files.write(path(file), content(file, generation));
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.doing[SESSIONS as usize].store(OVER, Relaxed);
    }

    fn resize(&self, memory: u64) {
        let resized = self.pool.resize(memory).unwrap();
        assert!(resized.frames == self.pool.frames() && self.pool.memory().total <= memory);
    }
}

fn run(policy: &str, length: Duration, seed: u64) {
    let (files, faults) = (MemoryFiles::new(), Faults::default());
    (0..FILES).for_each(|file| files.write(path(file), content(file, 0)));
    let device = Device::new(FaultStorage { files: files.clone(), faults: faults.clone() }, None);
    let pool = Pool::new(
        PoolOptions::default()
            .memory(MIN_MEMORY)
            .max_memory(MAX_MEMORY)
            .page_size(PAGE as u32)
            .policy(policy.parse().unwrap())
            .device(device)
            .seed(seed)
            .tuples((policy != "lirs").then(|| TupleOptions::default().learn(false).max_share(0.5)))
            .count_relations(policy == "2q"),
    );
    let (over, requests, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let pool = pool.unwrap();
    let sealed = WriteOptions::default().create(true).format(Format::Sealed);
    let counters = pool.open_to_write(Path::new("counters"), &sealed).unwrap();
    assert_eq!(counters.grow(COUNTERS).unwrap(), 0);
    let counts = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
    let item_counts = (0..COUNTERS).map(|_| Mutex::new(0)).collect();
    let counter_items = pool.tuples(&counters, ITEMS).unwrap();
    let items = Mutex::default();
    let doing: Arc<Vec<AtomicU32>> = Arc::new((0..=SESSIONS).map(|_| AtomicU32::new(0)).collect());
    let _watched = watch(pool.clone(), doing.clone(), length);
    let soak = Soak {
        pool,
        files,
        faults,
        counters,
        counts,
        item_counts,
        counter_items,
        items,
        over,
        requests,
        refused,
        doing,
    };
    let started = Instant::now();
    let ready = Barrier::new(SESSIONS as usize + 2);
    let grown = std::thread::scope(|scope| {
        let (soak, ready) = (&soak, &ready);
        for session in 0..SESSIONS {
            scope.spawn(move || {
                ready.wait();
                soak.live(session as usize, Random::new(seed.wrapping_add(session * 7919 + 1)));
            });
        }
        scope.spawn(move || {
            ready.wait();
            soak.disturb(Random::new(seed));
        });
        ready.wait();
        std::thread::sleep(length / 2);
        let early = resident_bytes();
        std::thread::sleep(length - length / 2);
        let late = resident_bytes();
        soak.over.store(true, Relaxed);
        early.zip(late).map(|(early, late)| late.saturating_sub(early))
    });
    soak.faults.clear();
    soak.pool.flush().unwrap();
    settle(&soak.pool);
    let stats = soak.pool.stats();
    println!(
        "{policy}: {} requests verified ({} changes), {} refused as they should be, hit rate {:.3}, {} loads, {} of them failed, {} \
         evictions, {:.1} s, memory grew by {} KiB",
        soak.requests.load(Relaxed),
        soak.counts.iter().map(|count| count.load(Relaxed)).sum::<u64>(),
        soak.refused.load(Relaxed),
        stats.hit_rate(),
        stats.loads,
        stats.failed_loads,
        stats.evictions,
        started.elapsed().as_secs_f64(),
        grown.unwrap_or(0) >> 10,
    );
    assert!(soak.requests.load(Relaxed) > 0 && stats.failed_loads > 0, "the run did what it is for");
    if let Some(tuples) = soak.pool.tuple_stats() {
        println!("{tuples:?}");
        assert!(tuples.hits > 0 && tuples.dissolved > 0, "{tuples:?}");
    }
    assert!(grown.is_none_or(|bytes| bytes <= MAX_GROWTH), "{grown:?} bytes more than at the beginning");
    after(&soak);
}

#[test]
fn soak() {
    let seconds = setting("SOAK_SECONDS", 3);
    let seed = setting("SOAK_SEED", 20_261_121);
    println!("SOAK_SECONDS={seconds} SOAK_SEED={seed}, {SESSIONS} sessions");
    // The storage's planned panics are caught by the pool; their words would drown the rest.
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some("a planned panic of the storage") {
            before(panic);
        }
    }));
    let policies = ["pbm", "2q", "clock", "lirs"];
    for policy in policies {
        run(policy, Duration::from_secs(seconds) / policies.len() as u32, seed);
    }
}
