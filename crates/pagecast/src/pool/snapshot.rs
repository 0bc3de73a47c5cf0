//! A pool looked at from outside: what an operator sees.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use pagecast_core::cooperation::MemberView;
use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::ScanView;
use pagecast_core::{RelationId, ScanId};

use super::Pool;
use crate::cache::FrameCounts;
use crate::storage::DeviceStats;
use crate::{FlashView, MemoryUse, PoolStats};

/// A pool at one moment, or nearly: pages come and go while it is taken, so that its numbers may
/// differ by a few.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Since the pool was made.
    pub age: Duration,
    /// The policy with all its parameters.
    pub policy: String,
    /// Bytes of a page.
    pub page_size: u32,
    /// Frames by state.
    pub frames: FrameCounts,
    /// Where the memory goes.
    pub memory: MemoryUse,
    /// What was done since the pool was made.
    pub stats: PoolStats,
    /// What storage was asked for, by all who use the device.
    pub device: DeviceStats,
    /// The tier on flash, if there is one.
    pub flash: Option<FlashView>,
    /// The open files, in the order of their numbers, which is mostly that of their opening.
    pub relations: Vec<RelationView>,
    /// The scans that are registered.
    pub scans: Vec<ScanView>,
    /// The unordered ones as the manager of cooperation sees them.
    pub unordered: Vec<(ScanId, MemberView)>,
}

/// An open file in a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RelationView {
    /// Its number.
    pub id: RelationId,
    /// Its name.
    pub path: PathBuf,
    /// How many pages it has.
    pub pages: u32,
    /// Pages of it that are resident.
    pub resident: u32,
    /// Those of them that are pinned.
    pub pinned: u32,
    /// The requests for its pages, if
    /// [`PoolOptions::count_relations`](crate::PoolOptions::count_relations) is on.
    pub requests: Option<RelationRequests>,
}

/// A frame that holds a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FrameView {
    /// The page's relation.
    pub relation: RelationId,
    /// The page's number in it.
    pub block: u32,
    /// Who holds it now.
    pub pins: u32,
    /// The time until the first scan reads it, as the predictor has it; `None` if no scan wants it.
    pub wanted: Option<Duration>,
}

/// The requests for the pages of one relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RelationRequests {
    /// All of them.
    pub requests: u64,
    /// Those that found the page resident.
    pub hits: u64,
    /// Those that found it on its way.
    pub waits: u64,
}

impl RelationRequests {
    /// The part of the requests that found their page resident, 0 to 1; 0 before the first.
    pub fn hit_rate(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.hits as f64 / self.requests as f64 }
    }
}

impl Pool {
    /// The pool as it is now. Costs a look at each frame and stops nobody.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// let device = Device::new(files, None);
    /// let pool = Pool::new(PoolOptions::default().memory(1 << 20).device(device).count_relations(true))?;
    /// let table = pool.open("table".as_ref())?;
    /// drop(table.pin(0, None)?);
    /// drop(table.pin(0, None)?);
    /// let snapshot = pool.snapshot();
    /// assert_eq!(snapshot.frames.resident, 1);
    /// assert_eq!(snapshot.relations[0].requests.unwrap().hit_rate(), 0.5);
    /// # Ok::<(), pagecast::PoolError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let engine = &self.0;
        let mut by_relation: HashMap<RelationId, [u32; 2]> = HashMap::new();
        let frames = engine.cache.survey(|page, pins, _| {
            let [resident, pinned] = by_relation.entry(page.relation()).or_default();
            *resident += 1;
            *pinned += u32::from(pins > 0);
        });
        let relations = engine.relations().into_iter().map(|relation| {
            let [resident, pinned] = by_relation.get(&relation.id()).copied().unwrap_or_default();
            let requests = relation.counted();
            let requests =
                requests.map(|PoolStats { requests, hits, waits, .. }| RelationRequests { requests, hits, waits });
            RelationView {
                id: relation.id(),
                path: relation.path().to_owned(),
                pages: relation.pages(),
                resident,
                pinned,
                requests,
            }
        });
        Snapshot {
            age: Duration::from_nanos(engine.now()),
            policy: format!("{}({})", self.policy().algorithm(), self.policy().params()),
            page_size: self.page_size(),
            frames,
            memory: self.memory(),
            stats: self.stats(),
            device: self.device().stats(),
            flash: self.flash(),
            relations: relations.collect(),
            scans: self.scans(),
            unordered: self.unordered_scans(),
        }
    }

    /// Up to `most` frames, spread evenly over the pool, each with its page and when that is
    /// wanted. Costs what an eviction costs for each, and stops nobody.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// let pool = Pool::new(PoolOptions::default().memory(1 << 20).device(Device::new(files, None)))?;
    /// let table = pool.open("table".as_ref())?;
    /// drop(table.pin(0, None)?);
    /// let views = pool.frame_views(u32::MAX);
    /// let resident: Vec<_> = views.iter().flatten().collect();
    /// assert_eq!((views.len(), resident.len()), (pool.frames() as usize, 1));
    /// // No scan has said that it wants the page.
    /// assert_eq!((resident[0].relation, resident[0].wanted), (table.id(), None));
    /// # Ok::<(), pagecast::PoolError>(())
    /// ```
    pub fn frame_views(&self, most: u32) -> Vec<Option<FrameView>> {
        let (engine, frames) = (&self.0, self.frames());
        let (count, now) = (frames.min(most), engine.now());
        let view = |at: u32| {
            let frame = u64::from(at) * u64::from(frames) / u64::from(count);
            let (page, pins) = engine.cache.page_in(frame as u32)?;
            let wanted = engine.predictor.next_access(Question::new(page, now)).map(Duration::from_nanos);
            Some(FrameView { relation: page.relation(), block: page.block(), pins, wanted })
        };
        (0..count).map(view).collect()
    }

    /// Panics if an invariant of the pool does not hold: a pin or a load that is left, a page in
    /// two frames, a frame that is lost. For tests of those who embed a pool; nobody may be at work
    /// on it. Costs a look at each frame.
    pub fn check(&self) {
        self.0.cache.check();
    }
}
