//! A second manager of cooperation: plain collections, every figure computed anew from them when it
//! is asked for. Slow, and easy to read.

use pagecast_core::PageId;
use pagecast_core::cooperation::{Chunk, Loading, MemberId, MemberView, Take, Unit};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// As many candidates are compared exactly, as in the manager.
const EXACT: usize = 8;
/// Available chunks for each worker below which a scan starves, as in the manager.
const STARVED: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Needed,
    /// Handed out; by whom and when it began to be read, if pages are missing.
    Out(Option<u64>),
    Done,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) unit: Unit,
    pub(crate) pages: BTreeSet<PageId>,
    pub(crate) state: State,
    /// A part of the chunk before it.
    pub(crate) joined: bool,
    granted: bool,
    superfluous: bool,
}

#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) id: MemberId,
    pub(crate) parts: Vec<Part>,
    workers: u32,
    waiting: bool,
    /// A worker was told to wait, and none was served since.
    unserved: bool,
    ends_early: bool,
    since: u64,
    shared: u64,
}

#[derive(Debug)]
pub(crate) struct Under {
    pub(crate) member: MemberId,
    pub(crate) chunk: u32,
    pub(crate) unit: Unit,
    wanted: BTreeSet<PageId>,
    since: u64,
}

type NeedKey = (u32, u32, u32, Vec<PageId>);

#[derive(Debug)]
pub(crate) struct Naive {
    pub(crate) loading: Loading,
    pub(crate) scans: BTreeMap<u32, Scan>,
    pub(crate) resident: BTreeSet<PageId>,
    pub(crate) loads: Vec<Under>,
    load_ticks: f64,
    /// With so many workers at work no load begins; 0: loads never wait.
    pub(crate) enough_at_work: u32,
    hand_outs: u64,
    unit_loaders: HashMap<Unit, Option<MemberId>>,
    need_loaders: HashMap<NeedKey, Option<MemberId>>,
}

/// The blocks of a need-mask.
fn pages(chunk: &Chunk<'_>) -> BTreeSet<PageId> {
    let unit = chunk.unit;
    let has = |index: u32| chunk.need.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1);
    (0..unit.blocks).filter(|&index| has(index)).map(|index| PageId::new(unit.relation, unit.first + index)).collect()
}

impl Part {
    fn key(&self) -> NeedKey {
        (self.unit.relation.0, self.unit.first, self.unit.blocks, self.pages.iter().copied().collect())
    }

    /// Whether the two concern each other.
    fn meets(&self, other: &Part) -> bool {
        self.unit == other.unit && (self.pages == other.pages || !self.pages.is_disjoint(&other.pages))
    }

    fn is_needed(&self) -> bool {
        self.state == State::Needed
    }
}

impl Scan {
    /// The parts of chunk `number`; none of what is a part itself.
    fn chunk(&self, number: usize) -> &[Part] {
        let Some(first) = self.parts.get(number).filter(|part| !part.joined) else { return &[] };
        let others = self.parts[number + 1..].iter().take_while(|part| part.joined).count();
        debug_assert!(!first.joined);
        &self.parts[number..=number + others]
    }

    fn chunk_mut(&mut self, number: usize) -> &mut [Part] {
        let count = self.chunk(number).len();
        self.parts.get_mut(number..number + count).unwrap_or_default()
    }

    /// The chunks by number.
    fn chunks(&self) -> impl Iterator<Item = (usize, &[Part])> {
        (0..self.parts.len()).map(|number| (number, self.chunk(number))).filter(|(_, parts)| !parts.is_empty())
    }
}

/// Scans for pages, compared as a fraction, then scans interested.
fn compare(a: (u64, u64, u64), b: (u64, u64, u64)) -> Ordering {
    (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.2.cmp(&b.2))
}

impl Naive {
    pub(crate) fn new() -> Self {
        Self {
            loading: Loading::default(),
            scans: BTreeMap::new(),
            resident: BTreeSet::new(),
            loads: Vec::new(),
            load_ticks: 0.0,
            enough_at_work: 0,
            hand_outs: 0,
            unit_loaders: HashMap::new(),
            need_loaders: HashMap::new(),
        }
    }

    fn missing(&self, part: &Part) -> u64 {
        part.pages.iter().filter(|page| !self.resident.contains(page)).count() as u64
    }

    fn is_complete(&self, part: &Part) -> bool {
        part.granted || self.missing(part) == 0
    }

    fn is_ready(&self, chunk: &[Part]) -> bool {
        chunk[0].is_needed() && chunk.iter().all(|part| self.is_complete(part))
    }

    pub(crate) fn available(&self, scan: &Scan) -> u32 {
        scan.chunks().filter(|(_, chunk)| self.is_ready(chunk)).count() as u32
    }

    fn left(scan: &Scan) -> u32 {
        scan.chunks().filter(|(_, chunk)| chunk[0].is_needed()).count() as u32
    }

    fn out(scan: &Scan) -> u32 {
        scan.chunks().filter(|(_, chunk)| matches!(chunk[0].state, State::Out(_))).count() as u32
    }

    /// Whether a chunk of the unit is out, of any scan.
    pub(crate) fn is_out(&self, unit: Unit) -> bool {
        let mut parts = self.scans.values().flat_map(|scan| &scan.parts);
        parts.any(|part| part.unit == unit && matches!(part.state, State::Out(_)))
    }

    fn has_ended(scan: &Scan) -> bool {
        Self::left(scan) == 0 && (scan.ends_early || Self::out(scan) == 0)
    }

    fn enough(&self, scan: &Scan) -> u32 {
        (STARVED * scan.workers).min(Self::left(scan))
    }

    fn is_starved(&self, scan: &Scan) -> bool {
        self.available(scan) < self.enough(scan)
    }

    fn waits(scan: &Scan) -> bool {
        scan.waiting || scan.unserved
    }

    fn reads_for_itself(&self) -> bool {
        self.loading == Loading::Opportunistic
    }

    pub(crate) fn is_servable(&self, scan: &Scan) -> bool {
        let left = Self::left(scan);
        self.available(scan) > 0 || Self::has_ended(scan) || left > 0 && self.reads_for_itself()
    }

    pub(crate) fn is_loading(&self, unit: Unit) -> bool {
        self.loads.iter().any(|load| load.unit == unit)
    }

    fn is_read(&self, unit: Unit) -> bool {
        let reads = |part: &Part| part.unit == unit && matches!(part.state, State::Out(Some(_)));
        self.scans.values().any(|scan| scan.parts.iter().any(reads))
    }

    /// Scans with a needed chunk that shares a block with one of these parts.
    fn sharers<'a>(&'a self, parts: &'a [&'a Part]) -> impl Iterator<Item = &'a Scan> {
        let meets = |other: &Part| other.is_needed() && parts.iter().any(|part| other.meets(part));
        self.scans.values().filter(move |scan| scan.parts.iter().any(meets))
    }

    /// What is known of units and needs that nobody refers to is forgotten.
    fn forget(&mut self) {
        let parts = || self.scans.values().flat_map(|scan| &scan.parts).filter(|part| part.state != State::Done);
        let units: Vec<Unit> = parts().map(|part| part.unit).chain(self.loads.iter().map(|load| load.unit)).collect();
        let needs: Vec<NeedKey> = parts().map(Part::key).collect();
        self.unit_loaders.retain(|unit, _| units.contains(unit));
        self.need_loaders.retain(|need, _| needs.contains(need));
    }

    pub(crate) fn register(&mut self, id: MemberId, chunks: &[Chunk<'_>], workers: u32, now: u64) {
        let part = |(number, chunk): (usize, &Chunk<'_>)| Part {
            unit: chunk.unit,
            pages: pages(chunk),
            state: State::Needed,
            joined: chunk.joined && number > 0,
            granted: false,
            superfluous: false,
        };
        let parts: Vec<Part> = chunks.iter().enumerate().map(part).collect();
        for part in &parts {
            let loader = *self.unit_loaders.entry(part.unit).or_default();
            self.need_loaders.entry(part.key()).or_insert(loader);
        }
        let scan = Scan {
            id,
            parts,
            workers: workers.max(1),
            waiting: false,
            unserved: false,
            ends_early: false,
            since: now,
            shared: 0,
        };
        assert!(self.scans.insert(id.slot(), scan).is_none(), "a slot is used twice");
    }

    fn find(&self, id: MemberId) -> Option<&Scan> {
        self.scans.get(&id.slot()).filter(|scan| scan.id == id)
    }

    fn find_mut(&mut self, id: MemberId) -> Option<&mut Scan> {
        self.scans.get_mut(&id.slot()).filter(|scan| scan.id == id)
    }

    pub(crate) fn take(&mut self, id: MemberId, now: u64) -> Take {
        let Some(scan) = self.find(id) else { return Take::End };
        if Self::has_ended(scan) {
            return Take::End;
        }
        let use_relevance = |chunk: &[Part]| {
            let resident = chunk.iter().map(|part| part.pages.len() as u64 - self.missing(part)).sum();
            let parts: Vec<&Part> = chunk.iter().collect();
            (resident, self.sharers(&parts).count().max(1) as u64, 0)
        };
        let mut chosen = None;
        for (number, chunk) in scan.chunks().filter(|(_, chunk)| self.is_ready(chunk)) {
            if chosen.is_none_or(|(_, best)| compare(use_relevance(chunk), best).is_gt()) {
                chosen = Some((number, use_relevance(chunk)));
            }
        }
        let mut chosen = chosen.map(|(number, _)| number);
        if chosen.is_none() && self.reads_for_itself() {
            let missing = || scan.chunks().filter(|(_, chunk)| chunk[0].is_needed());
            let alone = |chunk: &[Part]| {
                self.to_load(chunk).iter().all(|part| !self.is_loading(part.unit) && !self.is_read(part.unit))
            };
            let is_any_alone = missing().any(|(_, chunk)| alone(chunk));
            let mut candidates: Vec<_> = missing().filter(|(_, chunk)| alone(chunk) == is_any_alone).collect();
            candidates.sort_by(|a, b| compare(self.bound(&self.to_load(b.1)), self.bound(&self.to_load(a.1))));
            chosen = candidates.first().map(|(number, _)| *number);
        }
        let Some(number) = chosen else {
            let scan = self.find_mut(id).unwrap();
            if !Self::waits(scan) {
                scan.since = now;
            }
            (scan.waiting, scan.unserved) = (true, true);
            return Take::Wait;
        };
        let chunk = scan.chunk(number).to_vec();
        let resident = chunk.iter().all(|part| self.missing(part) == 0);
        let is_others = |part: &Part| self.need_loaders[&part.key()].is_some_and(|loader| loader != id);
        let shared = resident && chunk.iter().any(is_others);
        for (place, part) in chunk.iter().enumerate() {
            let reads = self.missing(part) > 0;
            if reads {
                self.unit_loaders.insert(part.unit, Some(id));
            }
            let order = self.hand_outs;
            self.hand_outs += 1;
            let part = &mut self.find_mut(id).unwrap().parts[number + place];
            (part.state, part.granted) = (State::Out(reads.then_some(order)), false);
        }
        let scan = self.find_mut(id).unwrap();
        (scan.unserved, scan.since) = (false, now);
        scan.shared += u64::from(shared);
        Take::Chunk { chunk: number as u32, resident, shared }
    }

    pub(crate) fn end_early(&mut self, id: MemberId) {
        if let Some(scan) = self.find_mut(id) {
            scan.ends_early = true;
        }
    }

    pub(crate) fn stop_waiting(&mut self, id: MemberId) {
        if let Some(scan) = self.find_mut(id) {
            (scan.waiting, scan.unserved) = (false, false);
        }
    }

    pub(crate) fn end_chunk(&mut self, id: MemberId, chunk: u32, consumed: bool) {
        let Some(scan) = self.find_mut(id) else { return };
        for part in scan.chunk_mut(chunk as usize).iter_mut().filter(|part| matches!(part.state, State::Out(_))) {
            part.state = if consumed || part.superfluous { State::Done } else { State::Needed };
        }
        self.forget();
    }

    pub(crate) fn remove(&mut self, id: MemberId, chunk: u32) {
        let Some(scan) = self.find_mut(id) else { return };
        for part in scan.chunk_mut(chunk as usize) {
            match part.state {
                State::Needed => part.state = State::Done,
                State::Out(_) => part.superfluous = true,
                State::Done => {}
            }
        }
        self.forget();
    }

    pub(crate) fn finish(&mut self, id: MemberId) {
        if self.find(id).is_some() {
            self.scans.remove(&id.slot());
        }
        self.forget();
    }

    /// Starved scans with something in common, their own missing pages, interested scans.
    fn bound(&self, parts: &[&Part]) -> (u64, u64, u64) {
        let starved = self.sharers(parts).filter(|scan| self.is_starved(scan)).count().max(1) as u64;
        let missing: u64 = parts.iter().map(|part| self.missing(part)).sum();
        (starved, missing.max(1), self.sharers(parts).count() as u64)
    }

    /// Parts of a chunk with pages to be loaded.
    fn to_load<'a>(&self, chunk: &'a [Part]) -> Vec<&'a Part> {
        chunk.iter().filter(|part| !self.is_complete(part)).collect()
    }

    /// All that a load for `part` brings, resident or not.
    fn wanted(&self, part: &Part) -> BTreeSet<PageId> {
        let starved = self.scans.values().filter(|scan| self.is_starved(scan));
        let served = starved.flat_map(|scan| &scan.parts).filter(|other| other.is_needed() && other.meets(part));
        part.pages.iter().chain(served.flat_map(|other| &other.pages)).copied().collect()
    }

    /// The chunk, and which of its parts.
    fn chunk_to_load<'a>(&self, scan: &'a Scan) -> Option<(usize, &'a Part)> {
        let loadable = |chunk: &'a [Part]| -> Vec<&'a Part> {
            self.to_load(chunk).into_iter().filter(|part| !self.is_loading(part.unit)).collect()
        };
        for read in [false, true] {
            let next = |chunk: &'a [Part]| loadable(chunk).into_iter().find(|part| self.is_read(part.unit) == read);
            let is_candidate = |chunk: &'a [Part]| chunk[0].is_needed() && next(chunk).is_some();
            let mut candidates: Vec<_> = scan.chunks().filter(|(_, chunk)| is_candidate(chunk)).collect();
            candidates.sort_by(|a, b| compare(self.bound(&loadable(b.1)), self.bound(&loadable(a.1))));
            let exact = |chunk: &'a [Part]| {
                let pages =
                    |part: &&Part| self.wanted(part).iter().filter(|page| !self.resident.contains(page)).count();
                let missing: usize = loadable(chunk).iter().map(pages).sum();
                let bound = self.bound(&loadable(chunk));
                (bound.0, missing as u64, bound.2)
            };
            let mut best: Vec<_> =
                candidates.iter().take(EXACT).map(|&(number, chunk)| (exact(chunk), number, chunk)).collect();
            best.sort_by(|a, b| compare(b.0, a.0).then(a.1.cmp(&b.1)));
            if let Some(&(_, number, chunk)) = best.first() {
                return Some((number, next(chunk)?));
            }
        }
        None
    }

    fn holds_back(&self, now: u64) -> bool {
        let since = now.saturating_sub((64.0 * self.load_ticks) as u64);
        let moving = self.scans.values().filter(|scan| scan.since >= since);
        let at_work: u32 = moving.map(|scan| (Self::out(scan) + self.available(scan)).min(scan.workers)).sum();
        self.enough_at_work > 0 && self.load_ticks > 0.0 && at_work >= self.enough_at_work
    }

    /// Whoever waits while loads are held back is not left alone (C7).
    pub(crate) fn look_again(&self, now: u64) -> Option<u64> {
        let waits = self.scans.values().any(|scan| scan.waiting);
        (waits && self.holds_back(now)).then(|| ((8.0 * self.load_ticks) as u64).max(1))
    }

    pub(crate) fn next_load(&mut self, now: u64) -> Option<(MemberId, u32)> {
        let Loading::Manager { outstanding } = self.loading else { return None };
        if self.loads.len() as u32 >= outstanding.max(1) || self.holds_back(now) {
            return None;
        }
        let own_loads = |scan: &Scan| self.loads.iter().filter(|load| load.member == scan.id).count() as u32;
        let relevance = |scan: &Scan| {
            let waits = Self::waits(scan) && self.load_ticks > 0.0;
            let waiting = if waits { (now - scan.since) as f64 / self.load_ticks } else { 0.0 };
            waiting / f64::from(self.scans.len() as u32) - f64::from(Self::left(scan))
        };
        let mut triggers: Vec<&Scan> =
            self.scans.values().filter(|scan| self.available(scan) + own_loads(scan) < self.enough(scan)).collect();
        triggers.sort_by(|a, b| relevance(b).total_cmp(&relevance(a)));
        let (scan, (number, part)) = triggers.iter().find_map(|scan| Some((scan, self.chunk_to_load(scan)?)))?;
        let (member, chunk, unit, wanted) = (scan.id, number as u32, part.unit, self.wanted(part));
        self.unit_loaders.insert(unit, Some(member));
        self.loads.push(Under { member, chunk, unit, wanted, since: now });
        Some((member, chunk))
    }

    /// The pages of the load at `index` that are missing.
    pub(crate) fn pages(&self, index: usize) -> Vec<PageId> {
        self.loads[index].wanted.iter().filter(|page| !self.resident.contains(page)).copied().collect()
    }

    pub(crate) fn loaded(&mut self, index: usize, now: u64) {
        let load = self.loads.remove(index);
        let ticks = (now - load.since) as f64;
        self.load_ticks = if self.load_ticks > 0.0 { 0.875 * self.load_ticks + 0.125 * ticks } else { ticks };
        if let Some(scan) = self.find_mut(load.member) {
            let parts = scan.chunk_mut(load.chunk as usize).iter_mut();
            parts.filter(|part| part.is_needed() && part.unit == load.unit).for_each(|part| part.granted = true);
        }
        self.forget();
    }

    pub(crate) fn arrived(&mut self, page: PageId) {
        if !self.resident.insert(page) {
            return;
        }
        let mut complete: HashMap<NeedKey, (Unit, Option<(u64, MemberId)>)> = HashMap::new();
        for scan in self.scans.values() {
            let parts = scan.parts.iter().filter(|part| part.state != State::Done && part.pages.contains(&page));
            for part in parts.filter(|part| self.missing(part) == 0) {
                let latest = &mut complete.entry(part.key()).or_insert((part.unit, None)).1;
                if let State::Out(Some(order)) = part.state
                    && latest.is_none_or(|(other, _)| order > other)
                {
                    *latest = Some((order, scan.id));
                }
            }
        }
        for (need, (unit, reader)) in &complete {
            let reader = reader.map(|(_, reader)| reader).filter(|_| !self.is_loading(*unit));
            self.need_loaders.insert(need.clone(), reader.or(self.unit_loaders[unit]));
        }
        for part in self.scans.values_mut().flat_map(|scan| &mut scan.parts) {
            if matches!(part.state, State::Out(_)) && complete.contains_key(&part.key()) {
                part.state = State::Out(None);
            }
        }
    }

    pub(crate) fn left_pool(&mut self, page: PageId) {
        self.resident.remove(&page);
    }

    pub(crate) fn wake(&mut self) -> Vec<MemberId> {
        let ready = |scan: &&Scan| scan.waiting && self.is_servable(scan);
        let woken: Vec<MemberId> = self.scans.values().filter(ready).map(|scan| scan.id).collect();
        for id in &woken {
            self.find_mut(*id).unwrap().waiting = false;
        }
        woken
    }

    pub(crate) fn views(&self) -> Vec<MemberView> {
        let view = |scan: &Scan| MemberView {
            id: scan.id,
            workers: scan.workers,
            chunks: scan.parts.len() as u32,
            left: Self::left(scan),
            out: Self::out(scan),
            available: self.available(scan),
            waiting: scan.waiting,
            starved: self.is_starved(scan),
            shared: scan.shared,
        };
        self.scans.values().map(view).collect()
    }

    /// Units that somebody refers to, and by how many scans each is wanted.
    pub(crate) fn units(&self) -> HashMap<Unit, u32> {
        let wants = |scan: &&Scan, unit| scan.parts.iter().any(|part| part.unit == unit && part.is_needed());
        let wanted = |unit| self.scans.values().filter(|scan| wants(scan, unit)).count() as u32;
        self.unit_loaders.keys().map(|&unit| (unit, wanted(unit))).collect()
    }

    /// Blocks of a unit that are in the pool.
    pub(crate) fn resident_of(&self, unit: Unit) -> u32 {
        (0..unit.blocks).filter(|block| self.resident.contains(&PageId::new(unit.relation, unit.first + block))).count()
            as u32
    }

    /// Whether a scan has needed every block of a unit, so that all of it is known.
    pub(crate) fn knows_all(&self, unit: Unit) -> bool {
        let whole = |part: &Part| part.unit == unit && part.pages.len() == unit.blocks as usize;
        self.scans.values().any(|scan| scan.parts.iter().any(|part| whole(part) && part.state != State::Done))
    }
}
