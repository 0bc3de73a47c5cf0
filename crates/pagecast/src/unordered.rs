//! Scans that read in any order, and take what is in memory first.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use pagecast_core::cooperation::{Chunk, MemberId};
use pagecast_core::forecast::Query;
use pagecast_core::predictor::{Pages, Part, RegisterError, Run, ScanKind, ScanSpec};
use pagecast_core::{RelationId, ScanId};

use crate::UnorderedError;
use crate::blocking::block_on;
use crate::cooperation::{Account, End, Taken};
use crate::engine::Engine;

/// What an unordered scan says of itself when it begins.
#[derive(Clone, Copy, Debug)]
pub struct UnorderedSpec<'a> {
    /// Whose running estimate of pace it starts from; a position is a chunk.
    pub kind: ScanKind,
    /// How many take chunks at the same time; at least 1.
    pub workers: u32,
    /// What it reads, each of them at once, with those that are joined to it: chunks
    /// `0..chunks.len()`.
    pub chunks: &'a [Chunk<'a>],
}

/// A scan that reads its chunks in whatever order suits all scans. Its workers share it or its
/// clones. It is forgotten when the last of them and of its leases is dropped.
#[derive(Clone)]
pub struct UnorderedScan(Arc<Registration>);

/// In the predictor and with the manager: made and ended together.
struct Registration {
    engine: Arc<Engine>,
    account: Arc<Account>,
    member: MemberId,
    /// The position of each chunk, if some are joined.
    positions: Option<Box<[u32]>>,
    shared: AtomicU64,
    query: OnceLock<Query>,
}

/// A chunk to be read. It promises nothing: a page of it that has left is read again, as in any
/// read. Dropped without [`consumed`](Self::consumed), the chunk goes back and is handed out
/// again.
#[must_use = "a lease that is dropped gives its chunk back"]
pub struct Lease {
    scan: Arc<Registration>,
    taken: Taken,
    end: End,
}

impl UnorderedScan {
    /// Announces a scan whose loads count against this share, if it has one. The first of them may
    /// begin in here.
    pub(crate) fn register(
        engine: &Arc<Engine>,
        spec: &UnorderedSpec<'_>,
        share: Option<u64>,
    ) -> Result<Self, UnorderedError> {
        let positions = positions(spec.chunks);
        let account = Account::new(announce(engine, spec, positions.as_deref())?);
        engine.cache.count_against(account.scan, share);
        let (cache, cooperation) = (&engine.cache, &engine.cache.cooperation);
        let pages = spec.chunks.iter().flat_map(|chunk| chunk.need).map(|word| u64::from(word.count_ones())).sum();
        let residency = || cache.residency(pages);
        match cooperation.register(spec.chunks, spec.workers, account.clone(), residency, engine) {
            Ok(member) => {
                let engine = engine.clone();
                let registration = Registration {
                    engine,
                    account,
                    member,
                    positions,
                    shared: AtomicU64::new(0),
                    query: OnceLock::new(),
                };
                Ok(Self(Arc::new(registration)))
            }
            Err(refusal) => {
                engine.cache.count_against(account.scan, None);
                engine.registry.lock().finish(account.scan, engine.now());
                Err(refusal.into())
            }
        }
    }

    /// What reads of the scan are marked with.
    pub fn id(&self) -> ScanId {
        self.0.account.scan
    }

    /// As [`Scan::recurs`](crate::Scan::recurs).
    pub fn recurs(&self, query: Query) {
        if self.0.query.set(query).is_ok() {
            self.0.engine.begins(query);
        }
    }

    /// The next chunk, of those that are in memory first; waits for a load if there is none.
    /// `None` when all have been consumed. Dropping the future leaves nothing behind.
    pub async fn take(&self) -> Option<Lease> {
        let Registration { engine, member, .. } = &*self.0;
        engine.cache.cooperation.take(*member, engine).await.map(|taken| self.lease(taken))
    }

    /// From here on [`take`](Self::take) gives `None` when nothing is left to be handed out, and
    /// does not wait for what other workers may give back: for workers who may stop for as long as
    /// they like, and are not to hold up the others. What comes back goes to who still asks.
    pub fn end_early(&self) {
        self.0.engine.cache.cooperation.end_early(self.0.member);
    }

    /// As [`take`](Self::take), in this thread.
    pub fn take_blocking(&self) -> Option<Lease> {
        block_on(self.take())
    }

    /// As [`take`](Self::take), without waiting: pending while what the scan needs is on its way,
    /// or is held by other workers who may give it back.
    pub fn try_take(&self) -> Poll<Option<Lease>> {
        let taken = self.0.engine.cache.cooperation.try_take(self.0.member, &self.0.engine, |_| {});
        taken.map(|taken| taken.map(|taken| self.lease(taken)))
    }

    fn lease(&self, taken: Taken) -> Lease {
        self.0.shared.fetch_add(taken.is_shared.into(), Relaxed);
        Lease { scan: self.0.clone(), taken, end: End::Returned }
    }

    /// Says that a chunk is not needed any more: a filter that became known rules it out, say. One
    /// that is handed out stays so.
    pub fn remove(&self, chunk: u32) {
        self.0.done(chunk);
        self.0.engine.cache.cooperation.remove(self.0.member, chunk, &self.0.engine);
    }

    /// Chunks that are to be handed out still.
    pub fn left(&self) -> usize {
        self.0.engine.cache.cooperation.left_of(self.0.member) as usize
    }

    /// Chunks so far that a load or read for another unordered scan had brought.
    pub fn shared(&self) -> u64 {
        self.0.shared.load(Relaxed)
    }

    /// Bytes that storage was asked for on the scan's behalf, beside its own reads
    /// ([`ReadStats::bytes_read`](crate::ReadStats::bytes_read)): the loads that were chosen for
    /// it, with what they bring for others.
    pub fn brought_bytes(&self) -> u64 {
        self.0.account.bytes.load(Relaxed)
    }
}

impl Registration {
    /// The predictor expects no page of the chunk any more.
    fn done(&self, chunk: u32) {
        let position = position(self.positions.as_deref(), chunk as usize);
        self.engine.predictor.complete(self.account.scan, position, self.engine.now());
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.engine.cache.cooperation.finish(self.member, &self.engine);
        // What was brought for it and not used stays as pages that nobody asked for.
        self.account.close().into_iter().for_each(|page| self.engine.cache.give_up_ahead(page));
        self.engine.cache.count_against(self.account.scan, None);
        self.engine.end_scan(self.account.scan, self.query.get().copied());
    }
}

impl Lease {
    /// Which chunk it is.
    pub fn chunk(&self) -> u32 {
        self.taken.chunk
    }

    /// Whether a load or read for another unordered scan had brought it.
    pub fn was_shared(&self) -> bool {
        self.taken.is_shared
    }

    /// Says that all bytes of the chunk have been asked for: the scan wants its pages no more.
    pub fn asked(&self) {
        self.scan.done(self.chunk());
    }

    /// Says that the chunk has been read: it is not handed out again.
    pub fn consumed(mut self) {
        self.asked();
        self.end = End::Consumed;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Registration { engine, member, .. } = &*self.scan;
        engine.cache.cooperation.end(*member, self.chunk(), self.end, engine);
    }
}

/// Positions that leave no gap where chunks are joined.
fn positions(chunks: &[Chunk<'_>]) -> Option<Box<[u32]>> {
    let mut position = 0;
    let of = |(number, chunk): (usize, &Chunk<'_>)| {
        position += u32::from(number > 0 && !chunk.joined);
        position
    };
    chunks.iter().any(|chunk| chunk.joined).then(|| chunks.iter().enumerate().map(of).collect())
}

fn position(positions: Option<&[u32]>, chunk: usize) -> u64 {
    positions.map_or(chunk as u64, |positions| positions.get(chunk).copied().map_or(u64::MAX, u64::from))
}

/// Registers a scan with the predictor: a position for each chunk, all of it read at once.
fn announce(engine: &Engine, spec: &UnorderedSpec<'_>, positions: Option<&[u32]>) -> Result<ScanId, RegisterError> {
    let mut parts: Vec<(RelationId, Vec<Run>)> = Vec::new();
    for (number, chunk) in spec.chunks.iter().enumerate() {
        let relation = chunk.unit.relation;
        let part = match parts.iter().position(|&(other, _)| other == relation) {
            Some(part) => part,
            None => {
                parts.push((relation, Vec::new()));
                parts.len() - 1
            }
        };
        runs(chunk, position(positions, number), &mut parts[part].1);
    }
    for (_, runs) in &mut parts {
        sort(runs);
        // Joined chunks may need a page in the middle of what another reads.
        if !runs.is_sorted_by_key(end) {
            *runs = divided(runs);
        }
    }
    let parts: Vec<_> =
        parts.iter().map(|(relation, runs)| Part { relation: *relation, pages: Pages::Runs(runs) }).collect();
    let length = spec.chunks.len().checked_sub(1).map_or(0, |last| position(positions, last) + 1);
    let spec = ScanSpec { kind: spec.kind, length, parts: &parts };
    engine.registry.lock().register_unordered(&spec, engine.now())
}

fn sort(runs: &mut [Run]) {
    runs.sort_unstable_by_key(|run| (run.first, run.blocks, run.position));
}

fn end(run: &Run) -> u64 {
    u64::from(run.first) + u64::from(run.blocks)
}

/// The same runs, divided where others begin or end: then none lies inside another.
fn divided(runs: &[Run]) -> Vec<Run> {
    let mut borders: Vec<u64> = runs.iter().flat_map(|run| [u64::from(run.first), end(run)]).collect();
    borders.sort_unstable();
    borders.dedup();
    let pieces = |run: &Run| {
        let inside = borders.partition_point(|&border| border <= u64::from(run.first))
            ..=borders.partition_point(|&border| border < end(run));
        let mut run = *run;
        borders[inside]
            .iter()
            .map(move |&border| {
                let piece = Run { blocks: (border - u64::from(run.first)) as u32, ..run };
                run.first = border as u32;
                piece
            })
            .collect::<Vec<_>>()
    };
    let mut divided: Vec<Run> = runs.iter().flat_map(pieces).collect();
    sort(&mut divided);
    divided
}

/// The neighbouring blocks that a chunk needs, as runs.
fn runs(chunk: &Chunk<'_>, position: u64, runs: &mut Vec<Run>) {
    let is_needed = |block: u32| {
        let word = chunk.need.get(block as usize / 64).copied().unwrap_or_default();
        word >> (block % 64) & 1 == 1
    };
    let mut block = 0;
    while block < chunk.unit.blocks {
        let start = block;
        while block < chunk.unit.blocks && is_needed(block) {
            block += 1;
        }
        if block > start {
            runs.push(Run { first: chunk.unit.first + start, blocks: block - start, position, span: 0 });
        }
        block += 1;
    }
}

impl fmt::Debug for UnorderedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnorderedScan").field("id", &self.id()).field("left", &self.left()).finish()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("scan", &self.scan.account.scan).field("chunk", &self.taken.chunk).finish()
    }
}
