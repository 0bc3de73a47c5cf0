//! Shares of the pool that are set by hand: caps, which bound what a relation, a scan or several
//! scans together may take, and reserves, which spare a relation's pages.
//!
//! **Cap.** The resident pages that whoever is capped had loaded stand in a ring. When the ring
//! is full, the next load takes the frame of the oldest of them that nobody holds, and the policy
//! is not asked. Pages that are pinned stay, and pages on their way are not in the ring yet: by as
//! many a cap is exceeded for a while.
//!
//! **Reserve.** While no more pages of a relation are resident than are to be kept, an eviction
//! passes over them as if they were pinned; only if nothing else can be had it takes one. Every
//! policy is steered by that alone.
//!
//! Cost: nothing where none is set. With caps, a lock and the claims of one load for each miss; 16
//! bytes for each page in a ring. With reserves, up to [`MAX_RESERVES`] comparisons for each
//! candidate of an eviction, and under policies that go through a list, a step for each kept page
//! that stands in front of the victim.

use std::collections::{HashMap, HashSet, VecDeque};

use pagecast_core::policy::Access;
use pagecast_core::{FrameId, PageId, RelationId, ScanId};

use super::Cache;
use crate::stats::Counter;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
use crate::sync::{Mutex, unless_mistaken};
use crate::token::Owned;

/// Relations that may be kept at once.
pub(crate) const MAX_RESERVES: usize = 16;

/// Whom a cap is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Capped {
    Relation(RelationId),
    Scan(ScanId),
    /// All scans of a [`Share`](crate::Share).
    Share(u64),
}

/// The caps that are set.
pub(super) struct Caps {
    /// How many there are: without any, nobody takes the lock. Relaxed: a load that misses a cap
    /// set this moment is as one that was there before.
    number: AtomicU32,
    /// Shares so far, which are numbered.
    shares: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rings: HashMap<Capped, Ring>,
    /// The share that a scan counts against.
    shares: HashMap<ScanId, u64>,
}

struct Ring {
    most: u32,
    /// Frames with the page that each held when it came, the oldest first.
    pages: VecDeque<(u32, PageId)>,
}

impl Caps {
    pub(super) fn new() -> Self {
        Self { number: AtomicU32::new(0), shares: AtomicU64::new(0), state: Mutex::new(State::default()) }
    }

    fn set(&self, whose: Capped, most: Option<u32>, pages: VecDeque<(u32, PageId)>) {
        let rings = &mut self.state.lock().rings;
        match most {
            Some(most) => drop(rings.insert(whose, Ring { most: most.max(1), pages })),
            None => drop(rings.remove(&whose)),
        }
        self.number.store(rings.len() as u32, Relaxed);
    }

    fn of(&self, access: &Access) -> impl Iterator<Item = Capped> + use<> {
        let share = access.scan.and_then(|scan| self.state.lock().shares.get(&scan).copied());
        let relation = Capped::Relation(access.page.relation());
        [Some(relation), access.scan.map(Capped::Scan), share.map(Capped::Share)].into_iter().flatten()
    }

    fn are_set(&self) -> bool {
        self.number.load(Relaxed) > 0
    }

    fn in_ring(&self, whose: Capped) -> usize {
        self.state.lock().rings.get(&whose).map_or(0, |ring| ring.pages.len())
    }

    /// Whether a frame with its page stands in a ring.
    #[cfg(all(test, pagecast_shuttle))]
    pub(super) fn has(&self, whose: Capped, page: (u32, PageId)) -> bool {
        self.state.lock().rings.get(&whose).is_some_and(|ring| ring.pages.contains(&page))
    }

    /// Relations that are capped.
    fn relations(&self) -> Vec<RelationId> {
        let relation = |capped: &Capped| match *capped {
            Capped::Relation(relation) => Some(relation),
            Capped::Scan(_) | Capped::Share(_) => None,
        };
        self.state.lock().rings.keys().filter_map(relation).collect()
    }

    /// Takes the oldest out of a ring that is full.
    fn take_oldest(&self, whose: Capped) -> Option<(u32, PageId)> {
        self.state.lock().rings.get_mut(&whose).filter(|ring| ring.is_full())?.pages.pop_front()
    }

    fn put(&self, whose: Capped, page: (u32, PageId)) {
        if let Some(ring) = self.state.lock().rings.get_mut(&whose) {
            ring.pages.push_back(page);
        }
    }
}

impl Ring {
    fn is_full(&self) -> bool {
        self.pages.len() as u32 >= self.most
    }
}

/// The relations that are kept.
pub(super) struct Reserves {
    /// How many of the places are taken, from the first on; each is taken and given up under the
    /// lock.
    number: AtomicU32,
    places: [Reserve; MAX_RESERVES],
    changing: Mutex<()>,
}

struct Reserve {
    relation: AtomicU32,
    /// Pages to be kept; 0 in a place that was given up.
    most: AtomicU32,
    /// Resident pages. Off by the loads and evictions under way when the reserve was set.
    resident: AtomicI64,
}

impl Reserves {
    pub(super) fn new() -> Self {
        let place = || Reserve { relation: AtomicU32::new(0), most: AtomicU32::new(0), resident: AtomicI64::new(0) };
        Self { number: AtomicU32::new(0), places: std::array::from_fn(|_| place()), changing: Mutex::new(()) }
    }

    fn places(&self) -> &[Reserve] {
        &self.places[..self.number.load(Relaxed) as usize]
    }

    fn of(&self, relation: RelationId) -> Option<&Reserve> {
        self.places()
            .iter()
            .find(|reserve| reserve.relation.load(Relaxed) == relation.0 && reserve.most.load(Relaxed) > 0)
    }

    /// Whether an eviction passes over the page.
    pub(super) fn spare(&self, page: PageId) -> bool {
        self.of(page.relation())
            .is_some_and(|reserve| reserve.resident.load(Relaxed) <= reserve.most.load(Relaxed).into())
    }

    /// Relations that are kept.
    fn relations(&self) -> impl Iterator<Item = RelationId> {
        let kept = self.places().iter().filter(|reserve| reserve.most.load(Relaxed) > 0);
        kept.map(|reserve| RelationId(reserve.relation.load(Relaxed)))
    }

    /// Whether any relation is kept.
    pub(super) fn are_set(&self) -> bool {
        !self.places().is_empty()
    }

    /// How many pages of a kept relation are taken to be resident.
    #[cfg(all(test, pagecast_shuttle))]
    pub(super) fn resident(&self, relation: RelationId) -> Option<i64> {
        Some(self.of(relation)?.resident.load(Relaxed))
    }

    /// A page came or left.
    pub(super) fn count(&self, page: PageId, by: i64) {
        if let Some(reserve) = self.of(page.relation()) {
            reserve.resident.fetch_add(by, Relaxed);
        }
    }
}

impl Cache {
    /// Bounds the frames of a relation or scan, or lifts the bound.
    pub(crate) fn cap(&self, whose: Capped, most: Option<u32>) {
        let pages = match (whose, most) {
            (Capped::Relation(relation), Some(_)) => self.resident_of(relation).collect(),
            _ => VecDeque::new(),
        };
        self.caps.set(whose, most, pages);
    }

    /// A new share of so many frames, by its number.
    pub(crate) fn share(&self, most: u32) -> u64 {
        let share = self.caps.shares.fetch_add(1, Relaxed);
        self.cap(Capped::Share(share), Some(most));
        share
    }

    /// From here on pages of the scan's loads are the share's, or nobody's.
    pub(crate) fn count_against(&self, scan: ScanId, share: Option<u64>) {
        if self.caps.shares.load(Relaxed) == 0 {
            return;
        }
        let shares = &mut self.caps.state.lock().shares;
        match share {
            Some(share) => drop(shares.insert(scan, share)),
            None => drop(shares.remove(&scan)),
        }
    }

    /// Reserves up to `most` pages of a relation, or none any more with 0. False if too many
    /// relations are kept already.
    pub(crate) fn reserve(&self, relation: RelationId, most: u32) -> bool {
        let _one_at_a_time = self.reserves.changing.lock();
        if let Some(reserve) = self.reserves.of(relation) {
            reserve.most.store(most, Relaxed);
            return true;
        }
        if most == 0 {
            return true;
        }
        let number = self.reserves.number.load(Relaxed) as usize;
        let given_up = self.reserves.places().iter().position(|reserve| reserve.most.load(Relaxed) == 0);
        let Some(reserve) = self.reserves.places.get(given_up.unwrap_or(number)) else { return false };
        reserve.relation.store(relation.0, Relaxed);
        reserve.resident.store(0, Relaxed);
        reserve.most.store(most, Relaxed);
        self.reserves.number.store(number.max(given_up.map_or(number + 1, |place| place + 1)) as u32, Relaxed);
        reserve.resident.fetch_add(self.resident_of(relation).count() as i64, Relaxed);
        true
    }

    /// The relations with resident pages, items that stay without their pages, a cap or a reserve.
    pub(crate) fn relations_in_use(&self) -> HashSet<RelationId> {
        let resident = self.headers.iter().filter_map(|header| header.tagged());
        let mut relations: HashSet<_> = resident.map(|page| page.relation()).collect();
        relations.extend(self.relations_with_items());
        relations.extend(self.caps.relations());
        relations.extend(self.reserves.relations());
        relations
    }

    pub(super) fn resident_of(&self, relation: RelationId) -> impl Iterator<Item = (u32, PageId)> {
        let tagged = self.headers.iter().zip(0..).filter_map(|(header, frame)| Some((frame, header.tagged()?)));
        tagged.filter(move |(_, page)| page.relation() == relation)
    }

    /// A frame of the relation's or scan's own, if it has as many as it may. What it has beyond
    /// that is freed.
    pub(super) fn take_capped(&self, access: &Access) -> Option<Owned> {
        if !self.caps.are_set() {
            return None;
        }
        let mut taken = None;
        for whose in self.caps.of(access) {
            // Once round at most: what cannot be had goes to the back.
            for _ in 0..self.caps.in_ring(whose) {
                // The rings' lock is free again here: it is the last to be taken (I6).
                let Some((frame, page)) = self.caps.take_oldest(whose) else { break };
                match self.claim_and_forget(frame, page) {
                    Some(owned) if taken.is_none() && owned.index() < self.frames() => taken = Some(owned),
                    Some(owned) => self.free.give(owned, &self.memory),
                    None if self.headers[frame as usize].is_tagged(page) => {
                        unless_mistaken!(CAP_FORGOTTEN, self.caps.put(whose, (frame, page)));
                    }
                    None => {}
                }
            }
        }
        taken
    }

    /// Whether the relation or the scan has as many pages as it may.
    pub(super) fn is_at_cap(&self, access: &Access) -> bool {
        self.caps.are_set() && {
            let of = self.caps.of(access);
            let rings = &self.caps.state.lock().rings;
            of.filter_map(|whose| rings.get(&whose)).any(Ring::is_full)
        }
    }

    fn claim_and_forget(&self, frame: u32, page: PageId) -> Option<Owned> {
        let owned = self.take_from(frame, page).ok()?;
        self.policy.forget(self, FrameId(frame), page);
        self.statistics.add(Counter::Evictions, 1);
        Some(owned)
    }

    /// The page of a load is resident. Called before anybody learns it, under the locks of shard
    /// and load.
    pub(super) fn note_arrival(&self, access: &Access, frame: u32) {
        self.reserves.count(access.page, 1);
        if self.caps.are_set() {
            self.caps.of(access).for_each(|whose| self.caps.put(whose, (frame, access.page)));
        }
    }
}
