//! Cooperative scans: who reads which stretch of a table next, and what is loaded for whom.
//!
//! Source: Świtakowski 2011, §3.2 to 3.4 (the Active Buffer Manager), §8.2.2 (several workers of
//! one scan) and §8.2.5 (scans that load for themselves). The idea is that of Zukowski et al.,
//! VLDB 2007.
//!
//! A table is cut into *units*. A scan whose rows may come in any order registers with *chunks*: a
//! unit each, and which of its blocks the scan needs. Its workers [`take`](Cooperation::take)
//! chunks, first those that are in the pool. What is not is loaded for short scans first, and of
//! what a scan needs that is loaded first which serves many others. The manager decides and does
//! nothing: the host loads, tells which pages come and go, and keeps who waits. What leaves the
//! pool is not chosen here but by the one policy of the pool, which asks the predictor.
//!
//! Suits scans of the same tables at the same time, of which each alone would read more than stays
//! in the pool. Where few blocks are wanted by two scans, or all fit, nothing is gained.
//!
//! How the thesis' functions (Figure 3.3) are read:
//! * *Which scan*: starved ones, the one with the fewest chunks left first; what it has waited
//!   counts, in durations of a mean load, by the number of registered scans (A7).
//! * *Which chunk to load for it*: starved interested scans, by the missing pages of all that they
//!   need of the unit; then more interested scans, then the lowest number. All of that is loaded,
//!   and not only what the first scan needs (A2).
//! * *Which chunk to hand out*: resident pages by interested scans, so that what few need can go.
//! * A scan is *interested* if it needs a block that the other needs, too: columns are nothing but
//!   blocks here, and what a scan does not need of a unit it does not wait for.
//!
//! Deviations, and why:
//! * The thesis loads one chunk at a time in a thread of its own. Here the host carries loads out,
//!   several if it likes; each under way counts as an available chunk of the scan it is for.
//! * Starved is below two available chunks for each worker, or all that are left: else a scan with
//!   its last chunk cached would be chosen for ever (A3). Scans for which nothing can be loaded are
//!   passed (A1). A worker looks again when woken (A5). A chunk without pages is always ready
//!   (A8).
//! * KeepRelevance, FreeMemory (A4) and with them almost starved scans (A6) are not here. Loads
//!   wait instead while the processors have enough to do ([`set_enough_at_work`]): else a device
//!   that is faster than they are brings chunks over those that most scans have still to read.
//!   With 128 scans on two cores and a pool of 10 % the closed loop read the table 20 times, and
//!   now once.
//! * Of the chunks of a scan the eight that may be worth most are compared by the pages of all
//!   that would be loaded. The others are not better than their bound: the pages of the scan's own
//!   need.
//! * A chunk may have several units ([`Chunk::joined`]): that is the pair of chunks of a
//!   Cooperative Merge Join (§5.3), in one scan instead of two. Its relevances are over all parts,
//!   and those that are missing are loaded one by one: what is begun has the fewest pages left.
//! * A scan that waits never reads for itself while the manager loads. It was tried: in Table 6.1's
//!   workload after one load of waiting 15 % more was read, and short scans took more than twice as
//!   long.
//! * A load that ends makes its chunk deliverable, complete or not, and what is handed out may
//!   leave. So nothing hangs on memory: a pool smaller than a chunk finishes, by reads past it.
//!
//! Invariants, which `tests/cooperation_model.rs` checks after every step of random histories and
//! `tests/cooperation_shuttle.rs` under many schedules:
//! * (C1) A chunk is needed, out or done. It is handed out once, and again only after it was given
//!   back.
//! * (C2) Nobody waits while a chunk of his may be handed out: [`wake`](Cooperation::wake) names
//!   every member with a waiting worker that [`take`](Cooperation::take) would serve.
//! * (C3) A unit is in one load at most; a block that two units share may be in two, which the host
//!   reads once. When a load ends, the chunk for which it was chosen may be
//!   handed out, if it is needed still.
//! * (C4) A block is resident in every unit that has it, or in none, as was told last.
//! * (C5) A need's missing pages, and a member's left and available chunks, are what its sets say.
//! * (C6) A unit is there while a chunk that is not done or a load refers to it. The last one
//!   frees it, and what was known of residency goes with it.
//!
//! * (C7) Whoever waits is not left alone: a load is under way, or may begin, or somebody at work
//!   will ask, or [`look_again`](Cooperation::look_again) says when the host is to.
//!
//! Cost: `take` and `next_load` O(chunks of one scan), with 1,000 units and 100 scans 6 to 15 µs
//! (`make bench-prediction ARGS='--only cooperation'`); a page that comes or goes O(needs of its
//! units), and O(scans that need it) when a need becomes complete or incomplete; registration
//! O(chunks · needs of a unit). Memory: see [`CooperationConfig`].
//!
//! [`set_enough_at_work`]: Cooperation::set_enough_at_work
//!
//! ```
//! use pagecast_core::cooperation::{Cooperation, CooperationConfig, Chunk, Take, Unit};
//! use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
//!
//! let config = CooperationConfig::of(8, 4, 128, 2);
//! let memory: Vec<AtomicU64> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
//! let mut manager = Cooperation::format(memory, config)?;
//!
//! // Four row groups of 100 blocks. One scan reads the first 20 of each, another 50 of the last two.
//! let unit = |group: u32| Unit { relation: RelationId(7), first: 100 * group, blocks: 100 };
//! let chunk = |group, need| Chunk { unit: unit(group), need, joined: false };
//! let narrow: Vec<Chunk> = (0..4).map(|group| chunk(group, &[(1 << 20) - 1])).collect();
//! let wide: Vec<Chunk> = (2..4).map(|group| chunk(group, &[(1 << 50) - 1])).collect();
//! let pool_is_empty = |_: PageId| false;
//! let long = manager.register(&narrow, 1, 0, pool_is_empty)?;
//! let short = manager.register(&wide, 1, 0, pool_is_empty)?;
//! assert_eq!(manager.take(long, 0), Take::Wait);
//! assert_eq!(manager.take(short, 0), Take::Wait);
//!
//! // The scan with less left comes first. Its load brings what the other needs of the unit, too.
//! let load = manager.next_load(10).unwrap();
//! assert_eq!((load.member, load.chunk), (short, 0));
//! let mut pages = Vec::new();
//! manager.pages(&load, |page| pages.push(page));
//! assert_eq!(pages.len(), 50);
//! pages.iter().for_each(|&page| manager.arrived(page));
//! manager.loaded(&load, 20);
//! let mut woken = Vec::new();
//! manager.wake(|member| woken.push(member));
//! assert_eq!(woken, [long, short]);
//! assert_eq!(manager.take(long, 20), Take::Chunk { chunk: 2, resident: true, shared: true });
//! assert_eq!(manager.take(short, 20), Take::Chunk { chunk: 0, resident: true, shared: false });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// From the bottom up: bits, error, layout, state, chunks, needs, units, members, handout,
// relevance, loads, manager. A module uses those before it (`tests/layers.rs` of the pool).
mod bits;
mod chunks;
mod error;
mod handout;
mod layout;
mod loads;
mod manager;
mod members;
mod needs;
mod relevance;
mod state;
mod units;

pub use crate::predictor::FormatError;
pub use error::{ChunkFault, Refusal};
pub use layout::CooperationConfig;
pub use manager::Cooperation;

use crate::{RelationId, Tick};

/// A stretch of blocks of a relation, say a row group. The same three numbers are the same unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unit {
    /// The relation.
    pub relation: RelationId,
    /// The first block.
    pub first: u32,
    /// How many blocks; neighbouring units may have blocks in common.
    pub blocks: u32,
}

/// What is handed out at once: blocks of a unit; of several units, if others are joined to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// The unit.
    pub unit: Unit,
    /// Bit `i` of word `w` stands for block `first + 64 * w + i`. Words that are missing are 0. A
    /// chunk without blocks may be handed out at once.
    pub need: &'a [u64],
    /// Whether it is a part of the chunk before it, to be read together with it: of another table,
    /// say. Such a chunk has the number of its first part. The first of a scan is joined to none.
    pub joined: bool,
}

/// A member of the cooperation: a registered scan. A slot and the generation of its use, so that a
/// stale name is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemberId {
    slot: u32,
    generation: u32,
}

impl MemberId {
    /// No member ever has this name.
    pub const NOBODY: Self = Self { slot: u32::MAX, generation: 0 };

    /// Slot and generation in one word.
    #[inline]
    pub const fn raw(self) -> u64 {
        crate::words::join(self.slot, self.generation)
    }

    /// The name with this packed form.
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        let (slot, generation) = crate::words::split(raw);
        Self { slot, generation }
    }

    /// The slot, below the configuration's number of scans. Reused after the scan finished.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

/// The answer to a worker that wants a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// Read this one.
    Chunk {
        /// Its number, from 0 in the order of registration; of joined ones that of the first.
        chunk: u32,
        /// Whether all of it is in the pool, as far as is known.
        resident: bool,
        /// Whether a load or read for another scan brought it, or a part of it.
        shared: bool,
    },
    /// Nothing may be handed out now. The worker is woken and asks again.
    Wait,
    /// Nothing is needed any more, and nothing is out that could be given back, unless the member
    /// [ends early](Cooperation::end_early).
    End,
}

/// A load that the host is to begin: pages of one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// For whom it was chosen.
    pub member: MemberId,
    /// The chunk of this member that is deliverable after it, or after the loads of its other
    /// parts.
    pub chunk: u32,
    unit: u32,
    sequence: u64,
    since: Tick,
}

/// Who loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loading {
    /// The manager chooses loads, of which the host has so many under way at most.
    Manager {
        /// At least 1.
        outstanding: u32,
    },
    /// Each scan reads what is missing for itself.
    Opportunistic,
}

impl Default for Loading {
    fn default() -> Self {
        // With one a device with latency is idle between loads.
        Self::Manager { outstanding: 2 }
    }
}

/// Workers at work for each processor with which it has enough to do, so that loads wait
/// ([`Cooperation::set_enough_at_work`]). In the closed loop 2 and 4 read the same; with 4 a slow
/// device is as busy as if loads never waited.
pub const ENOUGH_AT_WORK: u32 = 4;

/// A registered scan, as seen at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberView {
    /// Its name.
    pub id: MemberId,
    /// How many workers take its chunks.
    pub workers: u32,
    /// How many chunks it was registered with, joined ones each.
    pub chunks: u32,
    /// Chunks that are needed: neither handed out nor done.
    pub left: u32,
    /// Chunks that are handed out.
    pub out: u32,
    /// Needed chunks that may be handed out.
    pub available: u32,
    /// Whether a worker waits.
    pub waiting: bool,
    /// Whether it starves.
    pub starved: bool,
    /// Chunks that loads or reads for others have brought.
    pub shared: u64,
}

/// A unit that a scan needs or that is being loaded, as seen at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitView {
    /// Its name.
    pub unit: Unit,
    /// Blocks that are in the pool, as far as is known.
    pub resident: u32,
    /// Scans with a chunk of it that is neither handed out nor done.
    pub wanted: u32,
    /// Whether it is being loaded.
    pub loading: bool,
}

/// How much a manager holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Registered scans.
    pub scans: u32,
    /// Units that they need, or that are being loaded.
    pub units: u32,
    /// Words for chunks and units, of the configuration's `words`.
    pub words: u64,
    /// Loads under way.
    pub loads: u32,
    /// Scans that were refused since the start because something was full.
    pub refused: u64,
}
