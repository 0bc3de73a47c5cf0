//! Cooperative scans for C: who reads which chunk of a table next.
//!
//! The caller numbers the chunks of a relation. To the manager each is a unit of one block, whose
//! number is the chunk's: what a scan needs of a chunk is all of it, so nothing is gained by
//! knowing more. Scans read for themselves what is missing (`Loading::Opportunistic`). All calls
//! are made under one lock of the caller's.

use crate::pointers::{Memory, put, values, values_mut};
use crate::{FAULTY, FULL, OK};
use pagecast_core::cooperation::{Chunk, Cooperation, CooperationConfig, Loading, MemberId, Refusal, Take, Unit};
use pagecast_core::{PageId, RelationId};

/// How much the manager is to hold.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Config {
    scans: u32,
    chunks: u32,
    words: u32,
}

impl From<&Config> for CooperationConfig {
    fn from(config: &Config) -> Self {
        Self { scans: config.scans, units: config.chunks, words: config.words }
    }
}

/// What a scan was handed.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Taken {
    chunk: u32,
    resident: bool,
    shared: bool,
}

/// How a scan stands.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MemberView {
    chunks: u32,
    left: u32,
    out: u32,
    available: u32,
    shared: u64,
}

/// A chunk that some scan needs.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ChunkView {
    relation: u32,
    chunk: u32,
    wanted: u32,
    resident: bool,
}

const CHUNK: i32 = 0;
const WAIT: i32 = 1;
const END: i32 = 2;

fn attach(memory: Memory) -> Option<Cooperation<&'static [pagecast_core::sync::atomic::AtomicU64]>> {
    Cooperation::attach(memory.words()).ok()
}

fn unit(relation: u32, chunk: u32) -> Unit {
    Unit { relation: RelationId(relation), first: chunk, blocks: 1 }
}

#[unsafe(no_mangle)]
/// Words that a manager of `config` takes; 0 if it has no size.
pub extern "C" fn cooperation_words(config: *const Config) -> usize {
    let words = values(config, 1).first().map_or(usize::MAX, |config| CooperationConfig::from(config).words());
    if words == usize::MAX { 0 } else { words }
}

#[unsafe(no_mangle)]
/// Makes `memory` a manager without scans.
pub extern "C" fn cooperation_format(memory: Memory, config: *const Config) -> bool {
    let Some(config) = values(config, 1).first() else { return false };
    let Ok(mut manager) = Cooperation::format(memory.words(), config.into()) else { return false };
    manager.set_loading(Loading::Opportunistic);
    true
}

#[unsafe(no_mangle)]
/// Registers a scan of `count` chunks from `first` on; bit `i` of `resident` says whether chunk
/// `first + i` is in the pool.
pub extern "C" fn cooperation_register(
    memory: Memory,
    relation: u32,
    first: u32,
    count: u32,
    resident: *const u64,
    workers: u32,
    now: u64,
    member: *mut u64,
) -> i32 {
    let Some(mut manager) = attach(memory) else { return FAULTY };
    let resident = values(resident, count.div_ceil(64) as usize);
    let is_resident = |page: PageId| {
        let bit = page.block().wrapping_sub(first);
        resident.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    };
    let chunk = |number: u32| Chunk { unit: unit(relation, first.wrapping_add(number)), need: &[1], joined: false };
    match manager.register_each(count, chunk, workers, now, is_resident) {
        Ok(id) => {
            put(member, id.raw());
            OK
        }
        Err(Refusal::BadChunk { .. }) => FAULTY,
        Err(_) => FULL,
    }
}

#[unsafe(no_mangle)]
/// What a worker of a scan reads next. Chunks are counted from the scan's first.
pub extern "C" fn cooperation_take(memory: Memory, member: u64, now: u64, taken: *mut Taken) -> i32 {
    let Some(mut manager) = attach(memory) else { return END };
    match manager.take(MemberId::from_raw(member), now) {
        Take::Chunk { chunk, resident, shared } => {
            put(taken, Taken { chunk, resident, shared });
            CHUNK
        }
        Take::Wait => WAIT,
        Take::End => END,
    }
}

#[unsafe(no_mangle)]
/// A chunk that was handed out has been read.
pub extern "C" fn cooperation_consumed(memory: Memory, member: u64, chunk: u32) {
    if let Some(mut manager) = attach(memory) {
        manager.consumed(MemberId::from_raw(member), chunk);
    }
}

#[unsafe(no_mangle)]
/// A chunk that was handed out has not been read: it may be handed out again.
pub extern "C" fn cooperation_give_back(memory: Memory, member: u64, chunk: u32) {
    if let Some(mut manager) = attach(memory) {
        manager.give_back(MemberId::from_raw(member), chunk);
    }
}

#[unsafe(no_mangle)]
/// A scan does not need a chunk after all.
pub extern "C" fn cooperation_remove(memory: Memory, member: u64, chunk: u32) {
    if let Some(mut manager) = attach(memory) {
        manager.remove(MemberId::from_raw(member), chunk);
    }
}

#[unsafe(no_mangle)]
/// Ends a scan.
pub extern "C" fn cooperation_finish(memory: Memory, member: u64) {
    if let Some(mut manager) = attach(memory) {
        manager.finish(MemberId::from_raw(member));
    }
}

#[unsafe(no_mangle)]
/// A chunk has come into the pool, or has left it.
pub extern "C" fn cooperation_note(memory: Memory, relation: u32, chunk: u32, resident: bool) {
    if let Some(mut manager) = attach(memory) {
        let page = PageId::new(RelationId(relation), chunk);
        if resident {
            manager.arrived(page);
        } else {
            manager.left(page);
        }
    }
}

#[unsafe(no_mangle)]
/// Whether some scan has still to read a chunk, or reads it now.
pub extern "C" fn cooperation_needed(memory: Memory, relation: u32, chunk: u32) -> bool {
    attach(memory).is_some_and(|manager| manager.is_needed(unit(relation, chunk)))
}

#[unsafe(no_mangle)]
/// Whether some scan has been handed a chunk and has not read it yet.
pub extern "C" fn cooperation_is_out(memory: Memory, relation: u32, chunk: u32) -> bool {
    attach(memory).is_some_and(|manager| manager.is_out(unit(relation, chunk)))
}

#[unsafe(no_mangle)]
/// How a scan stands; false if it has ended.
pub extern "C" fn cooperation_member(memory: Memory, member: u64, view: *mut MemberView) -> bool {
    let Some(found) = attach(memory).and_then(|manager| manager.member(MemberId::from_raw(member))) else {
        return false;
    };
    let (chunks, left, out) = (found.chunks, found.left, found.out);
    put(view, MemberView { chunks, left, out, available: found.available, shared: found.shared });
    true
}

#[unsafe(no_mangle)]
/// The first `most` chunks that some scan needs; how many there are.
pub extern "C" fn cooperation_units(memory: Memory, views: *mut ChunkView, most: u32) -> u32 {
    let Some(manager) = attach(memory) else { return 0 };
    let mut places = values_mut(views, most as usize).iter_mut();
    let mut count = 0;
    manager.units(|found| {
        count += 1;
        if let Some(place) = places.next() {
            let (relation, chunk) = (found.unit.relation.0, found.unit.first);
            *place = ChunkView { relation, chunk, wanted: found.wanted, resident: found.resident > 0 };
        }
    });
    count
}
