//! Entries in the order of their keys.
//!
//! A range reads a leaf at a time and copies it, so that it holds no pin while its user works. The
//! next leaf is found from the root again, by the separator between the two: nothing that happens
//! to the tree meanwhile leads it astray. What it has not read yet lies between two bounds, which
//! come closer from both ends.

use std::ops::Bound;

use pagecast::predictor::{Pages as PagesOf, Part, Run, ScanKind, ScanSpec};
use pagecast::{Scan, ScanId};

use crate::page::Node;
use crate::route::{Route, Target};
use crate::{Result, Store};

/// From its fifth leaf on, a range says what it will read: short ones are not worth it. It says as
/// many leaves as it has read, so that who stops early has not had more than that read in vain.
const LEAVES_BEFORE_A_SCAN: u32 = 4;

/// Entries of a store, from both ends; see [`Store::range`]. After an error it goes on behind or
/// before what it could not read, or ends.
pub struct Range<'s> {
    store: &'s Store,
    /// What is not read yet is between these.
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    front: End,
    back: End,
}

/// One end of a range: the entries that were read there and not handed out yet.
#[derive(Default)]
struct End {
    leaf: Vec<u8>,
    entries: std::ops::Range<usize>,
    /// How many were read.
    leaves: u32,
    scan: Option<Ahead>,
}

/// A scan of some leaves of one parent, in the order in which they will be read.
struct Ahead {
    scan: Scan,
    leaves: Vec<u32>,
    read: usize,
}

impl End {
    fn entry(&self, at: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let (key, value) = Node { bytes: &self.leaf }.entry(at)?;
        Some((key.to_vec(), value.to_vec()))
    }

    fn pop_first(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.entries.next().and_then(|at| self.entry(at))
    }

    fn pop_last(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.entries.next_back().and_then(|at| self.entry(at))
    }
}

impl<'s> Range<'s> {
    pub(crate) fn new(store: &'s Store, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self { store, low, high, front: End::default(), back: End::default() }
    }

    /// Whether all is read.
    fn is_done(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        }
    }

    /// Reads the next leaf at one end. False: there is none.
    fn read(&mut self, backward: bool) -> Result<bool> {
        if self.is_done() {
            return Ok(false);
        }
        let target = match (backward, &self.low, &self.high) {
            (false, Bound::Included(key) | Bound::Excluded(key), _) => Target::Key(key),
            (false, Bound::Unbounded, _) => Target::First,
            (true, _, Bound::Included(key)) => Target::Key(key),
            (true, _, Bound::Excluded(key)) => Target::Below(key),
            (true, _, Bound::Unbounded) => Target::Last,
        };
        let end = if backward { &mut self.back } else { &mut self.front };
        let mut route = Route::default();
        let leaf = self.store.pages.leaf(&self.store.moves, target, Some(&mut route), end.scan_id())?;
        end.leaf.clear();
        end.leaf.extend_from_slice(leaf.node().bytes);
        let block = leaf.block;
        drop(leaf);
        let node = Node { bytes: &end.leaf };
        let place = |bound: &Bound<Vec<u8>>, otherwise: usize, included: usize| match bound {
            Bound::Unbounded => Some(otherwise),
            Bound::Included(key) => node.search(key).map(|found| found.map_or_else(|at| at, |at| at + included)),
            Bound::Excluded(key) => node.search(key).map(|found| found.map_or_else(|at| at, |at| at + 1 - included)),
        };
        let entries = place(&self.low, 0, 0).zip(place(&self.high, node.count(), 1));
        let (first, last) = entries.ok_or_else(|| self.store.pages.damaged(block, "an entry is cut off"))?;
        end.entries = first..last;
        end.go_on(self.store, &route, block, backward);
        // An end that is reached leaves nothing between the bounds.
        let nothing = || Bound::Excluded(Vec::new());
        match (backward, route.low, route.high) {
            (false, _, Some(high)) => self.low = Bound::Included(high),
            (true, Some(low), _) => self.high = Bound::Excluded(low),
            _ => (self.low, self.high) = (nothing(), nothing()),
        }
        Ok(true)
    }
}

impl End {
    fn scan_id(&self) -> Option<ScanId> {
        self.scan.as_ref().map(|ahead| ahead.scan.id())
    }

    /// Tells the pool how far the scan is, or of a new one.
    fn go_on(&mut self, store: &Store, route: &Route, block: u32, backward: bool) {
        self.leaves += 1;
        if let Some(ahead) = &mut self.scan
            && let Some(at) = ahead.leaves[ahead.read..].iter().position(|&leaf| leaf == block)
        {
            ahead.read += at + 1;
            ahead.scan.report(ahead.read as u64);
            if ahead.read < ahead.leaves.len() {
                return;
            }
        }
        self.scan = None;
        if self.leaves > LEAVES_BEFORE_A_SCAN {
            let mut leaves = match backward {
                false => route.siblings.get(route.at + 1..).unwrap_or_default().to_vec(),
                true => route.siblings.get(..route.at).unwrap_or_default().iter().rev().copied().collect(),
            };
            leaves.truncate(self.leaves as usize);
            self.scan = register(store, &leaves).map(|scan| Ahead { scan, leaves, read: 0 });
        }
    }
}

/// Registers the leaves as a scan, one position each. None: there is no room for it, or nothing to
/// read.
fn register(store: &Store, leaves: &[u32]) -> Option<Scan> {
    let mut runs: Vec<Run> = Vec::new();
    for (position, &block) in (0..).zip(leaves) {
        match runs.last_mut().filter(|run| run.first + run.blocks == block) {
            Some(run) => (run.blocks, run.span) = (run.blocks + 1, run.span + 1),
            None => runs.push(Run { first: block, blocks: 1, position, span: 1 }),
        }
    }
    runs.sort_unstable_by_key(|run| run.first);
    let parts = [Part { relation: store.pages.relation.id(), pages: PagesOf::Runs(&runs) }];
    let spec = ScanSpec { kind: ScanKind(0), length: leaves.len() as u64, parts: &parts };
    let scan = (!leaves.is_empty()).then(|| store.pool.register(&spec).ok())??;
    scan.report(0);
    Some(scan)
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.front.entries.is_empty() {
            match self.read(false) {
                Ok(true) => {}
                Ok(false) => return self.back.pop_first().map(Ok),
                Err(error) => return Some(Err(error)),
            }
        }
        self.front.pop_first().map(Ok)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        while self.back.entries.is_empty() {
            match self.read(true) {
                Ok(true) => {}
                Ok(false) => return self.front.pop_last().map(Ok),
                Err(error) => return Some(Err(error)),
            }
        }
        self.back.pop_last().map(Ok)
    }
}
