//! How the memory of a pool is divided.

use pagecast_core::cooperation::CooperationConfig;
use pagecast_core::forecast::{TEMPLATES, Template};
use pagecast_core::policy::{Batching, HitNeed, Policy, PolicySpec};
use pagecast_core::predictor::PredictorConfig;
use pagecast_core::tuples::{Room, Shares};

use super::prefetch::Prefetch;
use crate::cache::Cache;
use crate::cooperation::Cooperation;
use crate::options::{PoolOptions, PrefetchOptions, TupleOptions};
use crate::stats::Statistics;
use crate::{MAX_PAGE_SIZE, PoolError};

/// Where a pool's memory goes, in bytes. The stacks of its I/O threads and what is kept of each
/// open file (its name and a descriptor) are not in it; neither are the buffers of reads, which are
/// their callers', and those of writes, of at most 4 MiB for each thread that writes and as much
/// again for double writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// The pages themselves.
    pub frames: u64,
    /// Frame headers and the list of free frames.
    pub headers: u64,
    /// The page table.
    pub table: u64,
    /// The policy, ghosts included, and the queues of hits on their way to it; those of sessions
    /// are the sessions'.
    pub policy: u64,
    /// The predictor, and what is known of queries that come back.
    pub predictor: u64,
    /// What the manager of unordered scans knows.
    pub cooperation: u64,
    /// Loads in flight, at most.
    pub inflight: u64,
    /// What scans will read next, where they read ahead.
    pub prefetch: u64,
    /// What is known of items that go on without their pages; they themselves are in `frames`.
    pub tuples: u64,
    /// What is known of pages on flash, and the buffers of those on their way there.
    pub flash: u64,
    /// Statistics.
    pub statistics: u64,
    /// All of it.
    pub total: u64,
}

/// The division of a pool's memory.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Frames at first.
    pub(crate) frames: u32,
    /// Frames that headers, page table and policy are made for.
    pub(crate) max_frames: u32,
    pub(crate) predictor: PredictorConfig,
    pub(crate) cooperation: CooperationConfig,
    page_size: u32,
    /// Of a pool without frames in use.
    metadata: MemoryUse,
}

impl Plan {
    /// As many frames as fit, now and at most.
    pub(crate) fn new(options: &PoolOptions) -> Result<Self, PoolError> {
        let page_size = options.page_size;
        if page_size == 0 || page_size > MAX_PAGE_SIZE || !page_size.is_multiple_of(4096) {
            return Err(PoolError::PageSize { given: page_size, max: MAX_PAGE_SIZE });
        }
        let (share, max) = (options.prefetch.share, PrefetchOptions::MAX_SHARE);
        if !(0.0..=max).contains(&share) {
            return Err(PoolError::PrefetchShare { given: share, max });
        }
        let max_memory = options.max_memory.unwrap_or(options.memory).max(options.memory);
        let for_frames = |predictor: &PredictorConfig, cooperation: &CooperationConfig, frames: u32| {
            let metadata = metadata(options, predictor, cooperation, frames);
            metadata.with_frames(frames, page_size).total
        };
        let mut predictor = options.predictor.unwrap_or_else(|| predictor_for(options));
        let cooperation = options.cooperation.unwrap_or_else(|| cooperation_within(options.memory / 64));
        let mut cooperation = Cooperation::config(cooperation);
        if options.cooperation.is_none() && for_frames(&predictor, &cooperation, 1) > options.memory {
            cooperation = Cooperation::config(CooperationConfig::EMPTY);
        }
        if options.predictor.is_none() && for_frames(&predictor, &cooperation, 1) > options.memory {
            predictor = predictor_within(0);
        }
        // The use grows with the frames: bisect for the most that fit. `fits` always does,
        // `too_many` never.
        let (mut fits, mut too_many) = (1, u32::MAX);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if for_frames(&predictor, &cooperation, middle) <= max_memory {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        let metadata = metadata(options, &predictor, &cooperation, fits);
        let mut plan = Self { frames: 0, max_frames: fits, predictor, cooperation, page_size, metadata };
        plan.frames = plan.frames_within(options.memory)?;
        Ok(plan)
    }

    /// How many frames fit into `memory` bytes together with what is made for the most frames; at
    /// least 1.
    pub(crate) fn frames_within(&self, memory: u64) -> Result<u32, PoolError> {
        let page_size = self.page_size;
        let minimum = self.memory(1).total;
        if memory < minimum {
            return Err(PoolError::TooSmall { given: memory, page_size, minimum });
        }
        let frames = (memory - self.metadata.total) / u64::from(page_size);
        Ok(frames.min(u64::from(self.max_frames)) as u32)
    }

    /// Where the memory goes when `frames` frames are in use.
    pub(crate) fn memory(&self, frames: u32) -> MemoryUse {
        self.metadata.with_frames(frames, self.page_size)
    }
}

impl MemoryUse {
    fn with_frames(mut self, frames: u32, page_size: u32) -> Self {
        self.frames = u64::from(frames) * u64::from(page_size);
        self.total = self.total.saturating_add(self.frames);
        self
    }
}

/// What fits into a part of the memory, and as much again for scans that are expected.
fn predictor_for(options: &PoolOptions) -> PredictorConfig {
    let running = predictor_within(options.memory / 32);
    let PredictorConfig { scans, parts, runs, bitset_words, scan_words, .. } = running;
    match options.policy.forecasts() {
        true => PredictorConfig {
            scans: 2 * scans,
            parts: 2 * parts,
            runs: 2 * runs,
            bitset_words: 2 * bitset_words,
            scan_words: 2 * scan_words,
            ..running
        },
        false => running,
    }
}

/// What is known of queries that come back.
fn forecast_bytes(options: &PoolOptions) -> u64 {
    if options.policy.forecasts() { (TEMPLATES * Template::BYTES) as u64 } else { 0 }
}

/// What a pool of at most `frames` frames needs beside their pages.
fn metadata(
    options: &PoolOptions,
    predictor: &PredictorConfig,
    cooperation: &CooperationConfig,
    frames: u32,
) -> MemoryUse {
    let [headers, table, inflight] = Cache::metadata_bytes(frames, options.loads);
    let policy = &options.policy;
    let batching = if keeps_order(policy) {
        let pages = u64::from(frames) * Batching::BYTES_PER_FRAME;
        Cache::queue_bytes(options.batching.within(frames).length()) + pages
    } else {
        Cache::queue_bytes(0)
    };
    let mut memory = MemoryUse {
        frames: 0,
        headers,
        table,
        policy: u64::from(frames) * u64::from(policy.bytes_per_frame())
            + u64::from(policy.bytes_apart(frames))
            + batching,
        predictor: predictor.bytes() + forecast_bytes(options),
        cooperation: cooperation.bytes(),
        inflight,
        prefetch: Prefetch::bytes(&options.prefetch, predictor, frames),
        tuples: options.tuples.map_or(0, |tuples| tuple_bytes(options, &tuples, frames)),
        flash: options.flash.as_ref().map_or(0, |flash| flash.memory(options.page_size, options.memory)),
        statistics: Statistics::BYTES,
        total: 0,
    };
    let known = [memory.policy, memory.predictor, memory.cooperation, memory.prefetch];
    let parts =
        [memory.headers, table, inflight, memory.tuples, memory.flash, memory.statistics].into_iter().chain(known);
    memory.total = parts.fold(0, u64::saturating_add);
    memory
}

/// What keeping tuples takes, the frames that hold them not included.
fn tuple_bytes(options: &PoolOptions, tuples: &TupleOptions, frames: u32) -> u64 {
    let room = Room::new(options.page_size);
    let learning = if tuples.learn { Shares::bytes(&options.policy, frames, room) } else { 0 };
    Cache::tuple_bytes(frames, options.page_size) + learning
}

/// Whether hits wait for the policy in queues.
fn keeps_order(policy: &PolicySpec) -> bool {
    matches!(policy.build(1, 0), Ok(Policy::Sequential(policy)) if policy.hit_need() == HitNeed::Order)
}

/// The predictor's default, halved until it takes at most `bytes` or has room for a handful of
/// scans only.
fn predictor_within(bytes: u64) -> PredictorConfig {
    let mut config = PredictorConfig::default();
    while config.bytes() > bytes && config.scans > 8 {
        config = PredictorConfig {
            scans: config.scans / 2,
            parts: config.parts / 2,
            runs: config.runs / 2,
            bitset_words: config.bitset_words / 2,
            cells: config.cells / 2,
            ..config
        };
    }
    config
}

/// Room for hundreds of unordered scans of a thousand chunks, halved until it takes at most
/// `bytes`; none where not even a small scan would fit. Many scans of few chunks need places more
/// than words.
fn cooperation_within(bytes: u64) -> CooperationConfig {
    let of_words = |words: u32| CooperationConfig {
        scans: (words / 64).clamp(32, 1024),
        units: (words / 64).clamp(64, 8192),
        words,
    };
    let mut config = of_words(1 << 20);
    while config.bytes() > bytes {
        if config.words <= 256 {
            return CooperationConfig::EMPTY;
        }
        config = of_words(config.words / 2);
    }
    config
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use pagecast_core::cooperation::{Chunk, Load, Unit};
    use pagecast_core::{PageId, RelationId, ScanId, Tick};

    use super::*;
    use crate::cooperation::{Account, Loader};

    #[test]
    fn the_plan_fits_and_leaves_less_than_a_frame_unused() {
        for memory in [1 << 20, (64 << 20) + 4321, 3 << 30] {
            for policy in ["clock", "lru", "pbm", "random"] {
                let policy = PolicySpec::parse(policy).unwrap();
                let options = PoolOptions::default().memory(memory).policy(policy);
                let plan = Plan::new(&options).unwrap();
                assert_eq!(plan.frames, plan.max_frames);
                assert!(plan.memory(plan.frames).total <= memory);
                // One frame more would not fit; a doubled page table is part of what it would take.
                let more = metadata(&options, &plan.predictor, &plan.cooperation, plan.frames + 1);
                assert!(more.with_frames(plan.frames + 1, options.page_size).total > memory);
            }
        }
    }

    #[test]
    fn unordered_scans_have_room_in_pools_of_every_size() {
        for (memory, scans, chunks) in
            [(1 << 20, 2, 30), (16 << 20, 128, 20), (40 << 20, 40, 300), (256 << 20, 100, 700), (1 << 30, 300, 1000)]
        {
            let plan = Plan::new(&PoolOptions::default().memory(memory)).unwrap();
            let cooperation = Cooperation::new(plan.cooperation).unwrap();
            let chunk = |first| Chunk {
                unit: Unit { relation: RelationId(0), first, blocks: 80 },
                need: &[u64::MAX, 0xffff],
                joined: false,
            };
            let chunks: Vec<_> = (0..chunks).map(|unit| chunk(unit * 80)).collect();
            for scan in 0..scans {
                let account = Account::new(ScanId::from_raw(scan));
                let member = cooperation.register(&chunks, 1, account, || Box::new(|_| false), &Nobody);
                assert!(member.is_ok(), "{memory} bytes, scan {scan}: {member:?}");
            }
            assert!(plan.memory(0).cooperation <= memory / 64);
        }
    }

    /// Loads nothing.
    struct Nobody;

    impl Loader for Nobody {
        fn now(&self) -> Tick {
            0
        }

        fn bring(&self, _: Load, _: Option<Arc<Account>>, _: Vec<PageId>) {}

        fn later(&self, _: Tick) -> bool {
            true
        }
    }

    #[test]
    fn too_little_memory_is_told_with_the_least_that_works() {
        for memory in [0, 4096, 80_000] {
            let options = PoolOptions::default().memory(memory);
            let Err(PoolError::TooSmall { given, minimum, .. }) = Plan::new(&options) else {
                panic!("it is too small")
            };
            assert_eq!(given, memory);
            assert!(Plan::new(&options.clone().memory(minimum)).is_ok());
            assert!(Plan::new(&options.memory(minimum - 1)).is_err());
        }
    }

    #[test]
    fn a_pool_that_may_grow_pays_for_its_headers_now() {
        let options = PoolOptions::default().memory(16 << 20).max_memory(64 << 20);
        let plan = Plan::new(&options).unwrap();
        let alike = PoolOptions::default().predictor(plan.predictor).cooperation(plan.cooperation);
        let fixed = Plan::new(&alike.memory(64 << 20));
        assert_eq!(plan.max_frames, fixed.unwrap().max_frames);
        assert!(plan.memory(plan.frames).total <= 16 << 20 && plan.memory(plan.frames + 1).total > 16 << 20);
        assert_eq!(plan.frames_within(u64::MAX).unwrap(), plan.max_frames);
        assert!(matches!(plan.frames_within(1 << 10), Err(PoolError::TooSmall { .. })));
    }

    #[test]
    fn page_sizes_are_checked() {
        for page_size in [0, 1000, 4097, MAX_PAGE_SIZE + 4096] {
            let options = PoolOptions::default().page_size(page_size);
            assert!(matches!(Plan::new(&options), Err(PoolError::PageSize { .. })));
        }
    }
}
