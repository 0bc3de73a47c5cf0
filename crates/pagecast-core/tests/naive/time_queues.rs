//! `pbm-pq`: queues of pages, by the time to their next use.

use super::remove;
use pagecast_core::PageId;
use pagecast_core::oracle::{Oracle, Question};

/// PBM's queues as vectors of pages, the least recently used first.
pub(crate) struct TimeQueues {
    /// Equal slices, or the width of tiers of so many queues doubling.
    doubling: Option<usize>,
    queues: Vec<Vec<u64>>,
    unwanted: Vec<u64>,
    waiting: Vec<u64>,
    resident: Vec<u64>,
    frames: usize,
    bulk: usize,
    given: usize,
    fixed_slice: u64,
    slice: u64,
    slices_passed: u64,
    slice_began: u64,
    admissions: Vec<u64>,
    changes: u64,
    now: u64,
}

impl TimeQueues {
    pub(crate) fn new(frames: usize, doubling: Option<usize>, queues: usize, (slice, bulk): (u64, usize)) -> Self {
        Self {
            doubling,
            queues: vec![Vec::new(); queues],
            unwanted: vec![],
            waiting: vec![],
            resident: vec![],
            frames,
            bulk,
            given: 0,
            fixed_slice: slice,
            slice: slice.max(1),
            slices_passed: 0,
            slice_began: 0,
            admissions: vec![],
            changes: 0,
            now: 0,
        }
    }

    /// Takes a page off whatever list it is on.
    fn unlist(&mut self, page: u64) {
        let lists = self.queues.iter_mut().chain([&mut self.unwanted, &mut self.waiting]);
        lists.for_each(|list| _ = remove(list, page));
    }

    /// The queue for a time, by walking along the queues' ends.
    fn queue_of(&self, ticks: u64) -> usize {
        let mut end = 0;
        for queue in 0..self.queues.len() {
            end += self.slice * self.doubling.map_or(1, |per_tier| 1 << (queue / per_tier));
            if ticks < end {
                return queue;
            }
        }
        self.queues.len() - 1
    }

    fn pass_slice(&mut self) {
        self.slices_passed += 1;
        let first = std::mem::take(&mut self.queues[0]);
        self.waiting.extend(first);
        let per_tier = self.doubling.unwrap_or(self.queues.len());
        for tier in 0..self.queues.len() / per_tier {
            if self.slices_passed.is_multiple_of(1 << tier) {
                let begin = tier * per_tier;
                let first = self.queues.remove(begin);
                self.queues.insert(begin + per_tier - 1, vec![]);
                if tier > 0 {
                    self.queues[begin - 1] = first;
                }
            }
        }
    }

    fn catch_up(&mut self, oracle: &dyn Oracle) {
        let slices = (self.now - self.slice_began) / self.slice;
        self.slice_began += slices * self.slice;
        if oracle.scan_changes() != self.changes || slices > self.queues.len() as u64 {
            self.waiting.append(&mut self.unwanted);
            self.queues.iter_mut().for_each(|queue| self.waiting.append(queue));
        } else {
            (0..slices).for_each(|_| self.pass_slice());
        }
        self.changes = oracle.scan_changes();
        for page in std::mem::take(&mut self.waiting) {
            match oracle.next_access(Question::new(PageId::from_raw(page), self.now)) {
                Some(ticks) => {
                    let queue = self.queue_of(ticks);
                    self.queues[queue].push(page);
                }
                None => self.unwanted.push(page),
            }
        }
    }

    fn victim(&mut self) -> Option<u64> {
        let page = *self.unwanted.first().or_else(|| self.queues.iter().rev().find_map(|queue| queue.first()))?;
        remove(&mut self.resident, page);
        self.unlist(page);
        Some(page)
    }

    fn evict(&mut self, oracle: &dyn Oracle) -> u64 {
        if !self.given.is_multiple_of(self.bulk)
            && let Some(page) = self.victim()
        {
            self.given += 1;
            return page;
        }
        self.given = 1;
        self.catch_up(oracle);
        self.victim().unwrap()
    }

    /// Requests a page; the page that leaves for it, if any.
    pub(crate) fn request(&mut self, page: u64, oracle: &dyn Oracle) -> Option<u64> {
        let hit = self.resident.contains(&page);
        let victim = (!hit && self.resident.len() == self.frames).then(|| self.evict(oracle));
        if !hit {
            self.admissions.push(self.now);
            let admitted = self.admissions.len();
            if admitted.is_multiple_of(self.frames) && self.fixed_slice == 0 {
                let began = if admitted == self.frames { 0 } else { self.admissions[admitted - self.frames - 1] };
                self.slice = ((self.now - began) / 160).max(1);
            }
        }
        if !hit {
            self.resident.push(page);
        }
        self.unlist(page);
        self.waiting.push(page);
        self.now += 1;
        victim
    }
}
