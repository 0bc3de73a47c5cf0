//! pagecast's predictor and steering for C: `include/pagecast_predictor.h` says what each function
//! does.
//!
//! No allocation, no lock, no unwinding. Who registers and finishes holds the host's lock;
//! everything else may be called by any number of processes at once, `predictor_reach` and
//! `predictor_report` also in a signal handler.
#![no_std]

mod cooperation;
mod forecast;
mod pointers;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{
    Pages, Part, Predictor, PredictorConfig, RegisterError, Registry, Run, ScanKind, ScanSpec, scatter,
};
use pagecast_core::recurrence::Frequency;
use pagecast_core::steering::{Candidate, Choice, Fallback, Switches, Uses, choose, pass};
use pagecast_core::{PageId, RelationId, ScanId};
pub use pointers::Memory;
use pointers::{put, values, values_mut};

/// How much the predictor is to hold.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Config {
    scans: u32,
    words: u32,
    cells: u32,
    scan_words: u32,
    marks: u32,
}

impl From<&Config> for PredictorConfig {
    fn from(config: &Config) -> Self {
        let &Config { scans, words, cells, scan_words, marks } = config;
        // A scan has one relation in PostgreSQL, and a second part for the entries of its index.
        Self { scans, parts: scans.saturating_mul(2), runs: 0, bitset_words: words, cells, scan_words, marks }
    }
}

/// What steering goes by; unknown numbers are the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SwitchNumbers {
    frequency: u8,
    fallback: u8,
}

impl From<&SwitchNumbers> for Switches {
    fn from(numbers: &SwitchNumbers) -> Self {
        let frequency = match numbers.frequency {
            1 => Frequency::Min,
            2 => Frequency::Mean,
            3 => Frequency::Off,
            _ => Frequency::Max,
        };
        let fallback = match numbers.fallback {
            1 => Fallback::Lru,
            2 => Fallback::Random,
            _ => Fallback::Clock,
        };
        Self { frequency, fallback }
    }
}

/// A running scan as the views show it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct View {
    position: u64,
    length: u64,
    pace: f64,
    started: u64,
}

const OK: i32 = 0;
const FULL: i32 = 1;
const FAULTY: i32 = 2;

fn status(result: Result<ScanId, RegisterError>, scan: *mut u64) -> i32 {
    match result {
        Ok(id) => {
            put(scan, id.raw());
            OK
        }
        Err(error) if error.is_full() => FULL,
        Err(_) => FAULTY,
    }
}

fn register(memory: Memory, kind: u8, length: u64, part: Part<'_>, now: u64, scan: *mut u64) -> i32 {
    let Ok(mut registry) = Registry::attach(memory.words()) else { return FAULTY };
    status(registry.register(&ScanSpec { kind: ScanKind(kind), length, parts: &[part] }, now), scan)
}

#[unsafe(no_mangle)]
/// Words that a predictor of `config` takes; 0 if it has no size.
pub extern "C" fn predictor_words(config: *const Config) -> usize {
    let words = values(config, 1).first().map_or(usize::MAX, |config| PredictorConfig::from(config).words());
    if words == usize::MAX { 0 } else { words }
}

#[unsafe(no_mangle)]
/// Makes `memory` a predictor without scans.
pub extern "C" fn predictor_format(memory: Memory, config: *const Config) -> bool {
    let Some(config) = values(config, 1).first() else { return false };
    Registry::format(memory.words(), config.into()).is_ok()
}

#[unsafe(no_mangle)]
/// Registers a scan of runs of blocks.
pub extern "C" fn predictor_register_runs(
    memory: Memory,
    kind: u8,
    relation: u32,
    runs: *const Run,
    count: usize,
    length: u64,
    now: u64,
    scan: *mut u64,
) -> i32 {
    let part = Part { relation: RelationId(relation), pages: Pages::Runs(values(runs, count)) };
    register(memory, kind, length, part, now, scan)
}

#[unsafe(no_mangle)]
/// Registers a scan of a set of blocks.
pub extern "C" fn predictor_register_bitset(
    memory: Memory,
    kind: u8,
    relation: u32,
    first: u32,
    bits: *const u64,
    count: usize,
    length: u64,
    now: u64,
    scan: *mut u64,
) -> i32 {
    let pages = Pages::Bitset { first, words: values(bits, count), position: 0 };
    register(memory, kind, length, Part { relation: RelationId(relation), pages }, now, scan)
}

#[unsafe(no_mangle)]
/// Registers a scan that reads its runs, each at the position of its chunk, in any order.
pub extern "C" fn predictor_register_unordered(
    memory: Memory,
    kind: u8,
    relation: u32,
    runs: *const Run,
    count: usize,
    chunks: u64,
    now: u64,
    scan: *mut u64,
) -> i32 {
    let Ok(mut registry) = Registry::attach(memory.words()) else { return FAULTY };
    let part = Part { relation: RelationId(relation), pages: Pages::Runs(values(runs, count)) };
    let spec = ScanSpec { kind: ScanKind(kind), length: chunks, parts: &[part] };
    status(registry.register_unordered(&spec, now), scan)
}

#[unsafe(no_mangle)]
/// A scan without order has read a chunk.
pub extern "C" fn predictor_complete(memory: Memory, scan: u64, chunk: u64, now: u64) {
    if let Ok(predictor) = Predictor::attach(memory.words()) {
        predictor.complete(ScanId::from_raw(scan), chunk, now);
    }
}

#[unsafe(no_mangle)]
/// Ends a scan; whether it was running.
pub extern "C" fn predictor_finish(memory: Memory, scan: u64, now: u64) -> bool {
    Registry::attach(memory.words()).is_ok_and(|mut registry| registry.finish(ScanId::from_raw(scan), now))
}

#[unsafe(no_mangle)]
/// A scan is done with all positions in front of `position`.
pub extern "C" fn predictor_report(memory: Memory, scan: u64, position: u64, now: u64) {
    if let Ok(predictor) = Predictor::attach(memory.words()) {
        predictor.report(ScanId::from_raw(scan), position, now);
    }
}

#[unsafe(no_mangle)]
/// A scan has come to a block; whether it still runs.
pub extern "C" fn predictor_reach(memory: Memory, scan: u64, relation: u32, block: u32, now: u64) -> bool {
    let page = PageId::new(RelationId(relation), block);
    Predictor::attach(memory.words()).is_ok_and(|predictor| predictor.reach(ScanId::from_raw(scan), page, now))
}

#[unsafe(no_mangle)]
/// How a scan stands; false if it has finished.
pub extern "C" fn predictor_view(memory: Memory, scan: u64, view: *mut View) -> bool {
    let found = Predictor::attach(memory.words()).ok().and_then(|predictor| predictor.scan(ScanId::from_raw(scan)));
    let Some(found) = found else { return false };
    put(view, View { position: found.position, length: found.length, pace: found.pace, started: found.started });
    true
}

#[unsafe(no_mangle)]
/// Ticks until a block is wanted; `UINT64_MAX` if nobody wants it.
pub extern "C" fn predictor_next_access(memory: Memory, relation: u32, block: u32, now: u64) -> u64 {
    let page = PageId::new(RelationId(relation), block);
    let predictor = Predictor::attach(memory.words()).ok();
    predictor.and_then(|predictor| predictor.next_access(Question::new(page, now))).unwrap_or(u64::MAX)
}

#[unsafe(no_mangle)]
/// How far from its place a block may be read, see [`scatter`]; `UINT64_MAX` if the correlation
/// says too little.
pub extern "C" fn predictor_scatter(correlation: f64, blocks: u64) -> u64 {
    scatter(correlation, blocks).unwrap_or(u64::MAX)
}

#[unsafe(no_mangle)]
/// An index scan has come to a block by an entry of its index.
pub extern "C" fn predictor_mark(memory: Memory, relation: u32, block: u32, index: u32, entry: u32) {
    if let Ok(predictor) = Predictor::attach(memory.words()) {
        predictor.mark(PageId::new(RelationId(relation), block), PageId::new(RelationId(index), entry));
    }
}

#[unsafe(no_mangle)]
/// Of the entries of an index that have led to a block the one nearest to `near`; whether there is
/// any.
pub extern "C" fn predictor_marked(
    memory: Memory,
    relation: u32,
    block: u32,
    index: u32,
    near: u32,
    entry: *mut u32,
) -> bool {
    let Ok(predictor) = Predictor::attach(memory.words()) else { return false };
    let marked = predictor.marked(PageId::new(RelationId(relation), block), RelationId(index));
    let Some(nearest) = marked.min_by_key(|entry| entry.abs_diff(near)) else { return false };
    put(entry, nearest);
    true
}

#[unsafe(no_mangle)]
/// Sets the usage counts of buffers ahead of the hand, see [`choose`].
pub extern "C" fn predictor_choose(
    memory: Memory,
    buffers: *mut Candidate,
    count: usize,
    victims: usize,
    switches: *const SwitchNumbers,
    now: u64,
    choice: *mut Choice,
) {
    let switches = values(switches, 1).first().map(Switches::from).unwrap_or_default();
    if let Ok(predictor) = Predictor::attach(memory.words()) {
        put(choice, choose(values_mut(buffers, count), victims, switches, &predictor, now));
    }
}

#[unsafe(no_mangle)]
/// Lowers the usage counts of buffers that have been looked at and are kept, see [`pass`].
pub extern "C" fn predictor_pass(buffers: *mut Candidate, count: usize) {
    pass(values_mut(buffers, count));
}

#[unsafe(no_mangle)]
/// What to remember of a buffer after a registered scan has read it; whether it was there for our
/// sake.
pub extern "C" fn predictor_read_by_scan(
    uses: *mut Uses,
    relation: u32,
    block: u32,
    usage: u8,
    came_in: bool,
    now: u64,
) -> bool {
    let Some(uses) = values_mut(uses, 1).first_mut() else { return false };
    let page = PageId::new(RelationId(relation), block);
    let saved;
    (*uses, saved) = uses.read_by_scan(page, usage, came_in, now);
    saved
}

#[unsafe(no_mangle)]
/// A page was found by who is no registered scan of its table: whether it was there for our sake,
/// which is said once.
pub extern "C" fn predictor_found(uses: *mut Uses, relation: u32, block: u32) -> bool {
    let Some(uses) = values_mut(uses, 1).first_mut() else { return false };
    let kept;
    (*uses, kept) = uses.found(PageId::new(RelationId(relation), block));
    kept
}
