//! `mg` and `amg`: MG-Buffer and AMG-Buffer as published.
//!
//! Source: Wang and Jin, "Adaptive Multi-Grained Buffer Management for Database Systems" (Future
//! Internet 13(12), 2021), section 3; `mg` is without its P-Buffer. Reconstructed, since the text
//! at hand has no listings: the clustering rate is visited tuples by tuples; every list moves a
//! page that is hit; a load from S keeps the visit bits; Algorithm 3 with steps of a share of P and
//! S together, and a plain step between its two bounds. Left open there: the sizes (`f=20%`), the
//! rate (`rate=50%`), the window (of pages that leave F) and its bounds. What P gives up is
//! dropped, as the text has it; with `spill=on` it goes to S, which mends that P may starve.
//! Charged as ours: headers, a bit a tuple twice, heads and names of tuples, and a sixteenth for
//! rounding. Cost and concurrency: a simulation, with maps in the order of use.

use super::recency::Recency;
use super::{Buffer, Request};
use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::tuples::{Counts, HEAD_BYTES, INDEX_BYTES, ITEM_BYTES, Tuple};

/// What the paper leaves open.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublishedOptions {
    /// F's share of the memory.
    pub f: f64,
    /// The rate from which on a page goes to P. None for `mg`.
    pub rate: Option<f64>,
    /// Whether P's victims go to S.
    pub spill: bool,
}

/// The controller's bounds: of the window in pages, of the step in parts of P and S, and of the
/// difference that moves them.
const WINDOW: (u32, u32) = (128, 8192);
const STEP: (f64, f64) = (0.01, 0.16);
const DIFFERENCE: (f64, f64) = (0.02, 0.1);

#[derive(Clone, Copy, Debug)]
struct Visited {
    tuple: Tuple,
    dirty: bool,
}

/// A page in F or P, or what S has of one.
#[derive(Debug, Default)]
struct Held {
    visited: Vec<Visited>,
    /// Changed by a request for the whole page.
    dirty: bool,
}

impl Held {
    fn is_dirty(&self) -> bool {
        self.dirty || self.visited.iter().any(|visited| visited.dirty)
    }

    fn clean(&mut self) -> bool {
        let was = self.is_dirty();
        self.dirty = false;
        self.visited.iter_mut().for_each(|visited| visited.dirty = false);
        was
    }

    fn visit(&mut self, request: &Request) {
        let Some(tuple) = request.tuple else {
            self.dirty |= request.access.write;
            return;
        };
        match self.visited.iter_mut().find(|visited| visited.tuple.name == tuple.name) {
            Some(visited) => visited.dirty |= request.access.write,
            None => self.visited.push(Visited { tuple, dirty: request.access.write }),
        }
    }

    /// What S takes for it.
    fn bytes(&self) -> u64 {
        let tuples: u64 = self.visited.iter().map(|visited| u64::from(ITEM_BYTES + visited.tuple.length)).sum();
        (u64::from(HEAD_BYTES + INDEX_BYTES) + tuples) * 17 / 16
    }
}

/// F, P and S.
pub(super) struct Published {
    options: PublishedOptions,
    /// Bytes of a whole page with its share of everything, and of P and S together.
    page: u64,
    shared: u64,
    f_pages: usize,
    rows: u32,
    f: Recency<PageId, Held>,
    p: Recency<PageId, Held>,
    s: Recency<PageId, Held>,
    s_bytes: u64,
    /// Algorithm 3: P's part, the window, the step, and who left F for where.
    p_part: f64,
    window: u32,
    step: f64,
    to_p: u32,
    to_s: u32,
    counts: Counts,
}

impl Published {
    /// In `memory` bytes, where a page of `rows` tuples takes `page` with all overhead.
    pub(super) fn new(options: PublishedOptions, memory: u64, page: u64, rows: u32) -> Self {
        let f_pages = ((memory as f64 * options.f / page as f64) as usize).max(1);
        Self {
            options,
            page,
            shared: memory.saturating_sub(f_pages as u64 * page),
            f_pages,
            rows,
            f: Recency::default(),
            p: Recency::default(),
            s: Recency::default(),
            s_bytes: 0,
            p_part: if options.rate.is_some() { 0.5 } else { 0.0 },
            window: WINDOW.0,
            step: STEP.0,
            to_p: 0,
            to_s: 0,
            counts: Counts::default(),
        }
    }

    fn p_pages(&self) -> usize {
        (self.shared as f64 * self.p_part / self.page as f64) as usize
    }

    fn s_memory(&self) -> u64 {
        self.shared - (self.p_pages() as u64 * self.page).min(self.shared)
    }

    /// Makes room for a page in F.
    fn migrate(&mut self) {
        while self.f.len() >= self.f_pages {
            let Some((page, held)) = self.f.pop_oldest() else { return };
            let clustered = held.visited.len() as f64 / f64::from(self.rows);
            if self.options.rate.is_some_and(|rate| clustered >= rate) {
                self.to_p += 1;
                self.p.insert(page, held);
            } else {
                self.to_s += 1;
                self.dissolve(page, held);
            }
            self.resize();
            self.fit();
        }
    }

    fn dissolve(&mut self, page: PageId, held: Held) {
        if held.dirty {
            // A change of the whole page cannot move with its tuples.
            self.counts.write_backs += 1;
        }
        if !held.visited.is_empty() {
            self.s_bytes += held.bytes();
            self.s.insert(page, Held { dirty: false, ..held });
        }
    }

    /// Lets P and S give up what is more than their parts.
    fn fit(&mut self) {
        while self.p.len() > self.p_pages() {
            let Some((page, held)) = self.p.pop_oldest() else { break };
            if self.options.spill {
                self.dissolve(page, held);
            } else {
                self.counts.write_backs += u64::from(held.is_dirty());
            }
        }
        while self.s_bytes > self.s_memory() {
            let Some((_, held)) = self.s.pop_oldest() else { break };
            self.s_bytes -= held.bytes();
            let dirty = u64::from(held.is_dirty());
            self.counts.cleaning_reads += dirty;
            self.counts.write_backs += dirty;
        }
    }

    /// Algorithm 3, at the end of a window.
    fn resize(&mut self) {
        let left = self.to_p + self.to_s;
        if self.options.rate.is_none() || left < self.window {
            return;
        }
        let difference = f64::from(self.to_p) / f64::from(left) - self.p_part;
        if difference.abs() < DIFFERENCE.0 {
            self.window = (self.window * 2).min(WINDOW.1);
            self.step = (self.step / 2.0).max(STEP.0);
        } else {
            if difference.abs() > DIFFERENCE.1 {
                self.window = (self.window / 2).max(WINDOW.0);
                self.step = (self.step * 2.0).min(STEP.1);
            }
            self.p_part = (self.p_part + self.step.copysign(difference)).clamp(0.0, 1.0);
        }
        (self.to_p, self.to_s) = (0, 0);
    }
}

impl Buffer for Published {
    fn request(&mut self, request: &Request, _oracle: &dyn Oracle) {
        let page = request.access.page;
        self.counts.requests += 1;
        self.counts.writes += u64::from(request.access.write);
        if let Some(held) = self.f.touch(page) {
            return held.visit(request);
        }
        if let Some(held) = self.p.touch(page) {
            return held.visit(request);
        }
        if let Some(held) = self.s.touch(page) {
            let there = |tuple: Tuple| held.visited.iter().any(|visited| visited.tuple.name == tuple.name);
            if let Some(tuple) = request.tuple
                && (request.access.write || there(tuple))
            {
                let before = held.bytes();
                held.visit(request);
                self.s_bytes += held.bytes() - before;
                self.counts.tuple_hits += 1;
                return self.fit();
            }
        }
        self.counts.misses += 1;
        let mut held = self.s.remove(page).unwrap_or_default();
        if !held.visited.is_empty() {
            self.s_bytes -= held.bytes();
        }
        self.migrate();
        held.visit(request);
        self.f.insert(page, held);
    }

    fn checkpoint(&mut self) {
        let pages = self.f.values_mut().chain(self.p.values_mut());
        self.counts.write_backs += pages.map(|held| u64::from(held.clean())).sum::<u64>();
        let cleaned = self.s.values_mut().map(|held| u64::from(held.clean())).sum::<u64>();
        self.counts.cleaning_reads += cleaned;
        self.counts.write_backs += cleaned;
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn share(&self) -> f64 {
        self.s_memory() as f64 / (self.shared as f64 + self.f_pages as f64 * self.page as f64)
    }
}
