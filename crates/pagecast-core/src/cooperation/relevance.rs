//! What is best: which chunk to hand out, for whom to load, and what.
//!
//! The functions are those of Figure 3.3 of the thesis, by the counts that needs keep: `U` and `L`
//! are sizes of sets of members, `P` is a count of pages.

use super::bits::{Bits, numbers};
use super::members::Member;
use super::needs::Need;
use super::state::State;
use super::units::UnitRecord;
use crate::Tick;
use core::cmp::Ordering;

/// How many chunks are compared by the pages of all that would be loaded; the others only by a
/// bound on that.
const EXACT: usize = 8;

/// A number of scans for a number of pages, and what decides between equals.
#[derive(Clone, Copy)]
struct Worth {
    scans: u32,
    pages: u32,
    interested: u32,
}

impl Worth {
    /// Greater: more scans a page, then more interested ones.
    #[inline]
    fn compare(self, other: Self) -> Ordering {
        let own = u64::from(self.scans) * u64::from(other.pages);
        let others = u64::from(other.scans) * u64::from(self.pages);
        own.cmp(&others).then(self.interested.cmp(&other.interested))
    }
}

/// A chunk that may be loaded.
#[derive(Clone, Copy)]
struct Candidate {
    number: u32,
    worth: Worth,
}

impl Candidate {
    /// Whether it is better than `other`: worth more, or as much with a lower number.
    #[inline]
    fn precedes(self, other: Self) -> bool {
        self.worth.compare(other.worth).then(other.number.cmp(&self.number)).is_gt()
    }
}

impl<'a> Member<'a> {
    /// The available chunk with the most resident pages per interested scan (UseRelevance); of
    /// equals the one with the lowest number.
    pub(super) fn chunk_to_use(self) -> Option<u32> {
        let mut best: Option<(u32, u64, u64)> = None;
        for number in self.ready().iter() {
            let needs = self.needs(number);
            let pages: u32 = needs.map(|need| need.pages().saturating_sub(need.missing())).sum();
            let (interested, _) = self.interested(|| self.needs(number), self.state.starved());
            let (pages, scans) = (u64::from(pages), u64::from(interested.max(1)));
            if best.is_none_or(|(_, most, least)| pages * least > most * scans) {
                best = Some((number, pages, scans));
            }
        }
        best.map(|(number, ..)| number)
    }

    /// How many scans need a block that one of these needs has, and how many of those starve.
    #[inline]
    fn interested<N: Iterator<Item = Need<'a>>>(self, needs: impl Fn() -> N, starved: Bits<'_>) -> (u32, u32) {
        let (mut interested, mut starving) = (0, 0);
        for index in 0..starved.count {
            let sharers = needs().fold(0, |sharers, need| sharers | need.sharers().word(index));
            interested += sharers.count_ones();
            starving += (sharers & starved.word(index)).count_ones();
        }
        (interested, starving)
    }

    /// The chunk that the scan does best to read for itself: one that nobody reads or loads if
    /// there is any, then the one with the most starved interested scans per missing page of its
    /// own need.
    pub(super) fn chunk_to_read(self) -> Option<u32> {
        let mut best: Option<(bool, Candidate)> = None;
        for number in self.missing() {
            let alone = self.to_load(number).all(|need| self.state.business(need.unit()) == (false, false));
            let candidate = Candidate { number, worth: self.bound(|| self.to_load(number)) };
            if best.is_none_or(|(other, best)| if alone == other { candidate.precedes(best) } else { alone }) {
                best = Some((alone, candidate));
            }
        }
        best.map(|(_, best)| best.number)
    }

    /// Needed chunks that may not be handed out yet.
    fn missing(self) -> impl Iterator<Item = u32> + use<'a> {
        numbers(self.needed().words().zip(self.ready().words()).map(|(needed, ready)| needed & !ready))
    }

    /// What is missing of a chunk: the needs of parts that have pages to be loaded.
    #[inline]
    fn to_load(self, number: u32) -> impl Iterator<Item = Need<'a>> + use<'a> {
        self.parts(number).filter(|part| !part.is_complete()).filter_map(|part| part.need())
    }

    /// The same without what is being loaded.
    #[inline]
    fn loadable(self, number: u32) -> impl Iterator<Item = Need<'a>> + use<'a> {
        self.to_load(number).filter(move |need| !self.state.business(need.unit()).0)
    }

    /// The chunk with the highest LoadRelevance among those with a unit that is not being
    /// loaded, and what is to be loaded of it. Units that nobody reads come first.
    pub(super) fn chunk_to_load(self) -> Option<(u32, Need<'a>)> {
        self.best_to_load(true).or_else(|| self.best_to_load(false))
    }

    fn best_to_load(self, alone: bool) -> Option<(u32, Need<'a>)> {
        let mut candidates: [Option<Candidate>; EXACT] = [None; EXACT];
        let next = |number| self.to_load(number).find(|need| self.state.business(need.unit()) == (false, !alone));
        for number in self.missing().filter(|&number| next(number).is_some()) {
            insert(&mut candidates, Candidate { number, worth: self.bound(|| self.loadable(number)) });
        }
        let (mut best, starved): (Option<Candidate>, _) = (None, self.state.starved());
        for candidate in candidates.into_iter().flatten() {
            // None of those that follow can be better: their bounds are no higher.
            if best.is_some_and(|best| !candidate.precedes(best)) {
                break;
            }
            let gathered = |need: Need<'a>| self.state.unit(need.unit()).map_or(0, |unit| unit.gather(need, starved));
            let pages = self.loadable(candidate.number).map(gathered).sum();
            let exact = Candidate { worth: Worth { pages, ..candidate.worth }, ..candidate };
            if best.is_none_or(|best| exact.precedes(best)) {
                best = Some(exact);
            }
        }
        best.and_then(|best| Some((best.number, next(best.number)?)))
    }

    /// The best that loading for these needs can be: as many starved scans as have a block in
    /// common with them, and no pages but their own.
    #[inline]
    fn bound<N: Iterator<Item = Need<'a>>>(self, needs: impl Fn() -> N) -> Worth {
        let (interested, starving) = self.interested(&needs, self.state.starved());
        let pages: u32 = needs().map(Need::missing).sum();
        Worth { scans: starving.max(1), pages: pages.max(1), interested }
    }

    /// CscanRelevance: short scans first, and waiting counts.
    fn relevance(self, now: Tick) -> f64 {
        let (running, _) = self.state.counts();
        let load_ticks = self.state.load_ticks();
        let waiting = match self.waits_since() {
            Some(since) if load_ticks > 0.0 => now.saturating_sub(since) as f64 / load_ticks,
            _ => 0.0,
        };
        waiting / f64::from(running.max(1)) - f64::from(self.left())
    }
}

impl<'a> State<'a> {
    /// The chunk to load next, and what of it: of the most relevant starved scan for which
    /// anything can be loaded.
    pub(super) fn choose_load(self, now: Tick) -> Option<(Member<'a>, u32, Need<'a>)> {
        let mut last: Option<(f64, u32)> = None;
        // One round for each member at most: those without anything to load are passed.
        for _ in 0..self.layout.config.scans {
            let mut next: Option<(f64, Member<'a>)> = None;
            for member in self.starved().iter().filter_map(|slot| self.slot(slot)) {
                if member.available().saturating_add(member.loads()) >= member.enough() {
                    continue;
                }
                let relevance = member.relevance(now);
                let follows =
                    last.is_none_or(|(value, slot)| relevance < value || (relevance == value && member.slot > slot));
                if follows && next.is_none_or(|(value, _)| relevance > value) {
                    next = Some((relevance, member));
                }
            }
            let (relevance, member) = next?;
            if let Some((chunk, need)) = member.chunk_to_load() {
                return Some((member, chunk, need));
            }
            last = Some((relevance, member.slot));
        }
        None
    }
}

impl<'a> UnitRecord<'a> {
    /// Gathers the blocks of all needs that a load for `need` serves, namely those of starved scans
    /// that have a block in common with it; how many of them are missing. The unit is not being
    /// loaded.
    pub(super) fn gather(self, need: Need<'a>, starved: Bits<'_>) -> u32 {
        let wanted = self.wanted();
        wanted.clear();
        wanted.add_all(self.mask(need));
        for other in self.needs().filter(|&other| other.members().meets(starved) && self.meet(other, need)) {
            wanted.add_all(self.mask(other));
        }
        wanted.len().saturating_sub(wanted.common(self.resident()))
    }
}

/// Puts a candidate at its place among the best ones, if it is one of them.
fn insert(best: &mut [Option<Candidate>; EXACT], candidate: Candidate) {
    let precedes = |held: &Option<Candidate>| held.is_none_or(|held| candidate.precedes(held));
    if !best.last().is_some_and(precedes) {
        return;
    }
    let place = best.iter().position(precedes).unwrap_or(EXACT);
    let mut carried = Some(candidate);
    for held in best.iter_mut().skip(place) {
        core::mem::swap(held, &mut carried);
    }
}
