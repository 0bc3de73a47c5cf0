//! Reading byte ranges through the pool.
//!
//! A read first copies out every page that is resident. From then on it needs none of them any
//! more, so that its scan may report them as done although the read has hardly begun, and no frame
//! is kept for a page that only waits to be copied. Then it asks for the missing pages in order and
//! copies each out as soon as it is there, so that it holds no pin while it waits: a bounded window
//! of them ahead, neighbours as one request to storage; half a window is refilled at a time, so
//! that requests stay long. Pages for which there was no frame are read past the pool, neighbours
//! together again, into a buffer of the read's own.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pagecast_core::ScanId;

use super::Engine;
use crate::cache::{Client, Request, Waiter};
use crate::io::{Answer, Awaited, Batch, Job, PastRead};
use crate::paged_file::PagedFile;
use crate::stats::Counter;
use crate::storage::MAX_REQUEST;
use crate::token::Held;
use crate::{Pin, PoolError};

/// What a read brought.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadResult {
    /// The bytes of each range, in the order in which the ranges were given.
    pub data: Vec<Vec<u8>>,
    /// What it took.
    pub stats: ReadStats,
}

/// What one read took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadStats {
    /// Pages that were asked for.
    pub pages: u64,
    /// Those that were resident.
    pub hits: u64,
    /// Bytes of the ranges.
    pub bytes_requested: u64,
    /// Bytes that this read had storage bring, into the pool or past it. What it waited for but
    /// others had asked for is theirs.
    pub bytes_read: u64,
    /// Those of them that went past the pool.
    pub bypassed_bytes: u64,
}

/// Part of a page that goes to one place in the output.
#[derive(Clone)]
struct Piece {
    within: Range<usize>,
    range: usize,
    at: usize,
}

/// A page of the read, with all neighbouring pieces of it: one request.
#[derive(Clone)]
struct Visit {
    block: u32,
    pieces: Range<usize>,
}

struct Reading<C> {
    engine: Arc<Engine>,
    client: C,
    relation: Arc<PagedFile>,
    scan: Option<ScanId>,
    pieces: Vec<Piece>,
    result: ReadResult,
    /// Pages on their way, in the order in which they were asked for; whether this is a use beyond
    /// the one that they are admitted for.
    pending: VecDeque<(Visit, Waiter, bool)>,
    /// Pages that found no frame.
    past: Vec<Visit>,
}

pub(crate) async fn read(
    engine: Arc<Engine>,
    mut client: impl Client,
    relation: Arc<PagedFile>,
    ranges: Vec<Range<u64>>,
    scan: Option<ScanId>,
) -> Result<ReadResult, PoolError> {
    if relation.is_sealed() {
        return Err(PoolError::Sealed { path: relation.path().to_owned() });
    }
    let mut result = ReadResult::default();
    for range in &ranges {
        relation.contains(range)?;
        let len = range.end - range.start;
        result.data.push(vec![0; len as usize]);
        result.stats.bytes_requested += len;
    }
    client.count(&engine.cache, Counter::BytesRequested, result.stats.bytes_requested);
    let (visits, pieces) = cut(&ranges, u64::from(relation.page_size()));
    let window = window(engine.cache.frames(), relation.page_size());
    let (pending, past) = (VecDeque::new(), Vec::new());
    let mut reading = Reading { engine, client, relation, scan, pieces, result, pending, past };
    let mut missing = reading.take_resident(visits)?.into_iter();
    reading.fill(&mut missing, window);
    // After the scan's own requests, which somebody waits for.
    if let Some(scan) = scan {
        reading.engine.read_ahead(scan);
    }
    loop {
        if reading.pending.len() <= window / 2 {
            reading.fill(&mut missing, window);
        }
        let Some((visit, waiter, joined)) = reading.pending.pop_front() else { break };
        match waiter.await? {
            Some(held) => reading.take(&visit, held, joined),
            None => reading.past.push(visit),
        }
        if reading.past.len() >= pages_of_a_request(reading.relation.page_size()) {
            reading.read_past().await?;
        }
    }
    reading.read_past().await?;
    Ok(reading.result)
}

/// How many pages a read may have on their way: two requests, but of a small pool only a share, so
/// that many reads at once leave frames to each other: frames on their way hold nothing that could
/// be hit.
fn window(frames: u32, page_size: u32) -> usize {
    let share = (frames as usize / 128).max(2);
    share.min(2 * pages_of_a_request(page_size))
}

pub(crate) fn pages_of_a_request(page_size: u32) -> usize {
    (MAX_REQUEST / page_size as usize).max(1)
}

/// Cuts ranges at page borders. Pieces of one page that follow each other are one visit.
fn cut(ranges: &[Range<u64>], page_size: u64) -> (Vec<Visit>, Vec<Piece>) {
    let (mut visits, mut pieces): (Vec<Visit>, Vec<Piece>) = (Vec::new(), Vec::new());
    for (range, bytes) in ranges.iter().enumerate() {
        let mut start = bytes.start;
        while start < bytes.end {
            let block = (start / page_size) as u32;
            let page_start = start - start % page_size;
            let end = bytes.end.min(page_start + page_size);
            let within = (start - page_start) as usize..(end - page_start) as usize;
            pieces.push(Piece { within, range, at: (start - bytes.start) as usize });
            match visits.last_mut() {
                Some(visit) if visit.block == block => visit.pieces.end = pieces.len(),
                _ => visits.push(Visit { block, pieces: pieces.len() - 1..pieces.len() }),
            }
            start = end;
        }
    }
    (visits, pieces)
}

impl<C: Client> Reading<C> {
    /// Copies out the pages that are resident, and returns the others.
    fn take_resident(&mut self, visits: Vec<Visit>) -> Result<Vec<Visit>, PoolError> {
        let mut missing = Vec::new();
        self.result.stats.pages += visits.len() as u64;
        for visit in visits {
            match self.engine.find(&mut self.client, &self.relation, visit.block, self.scan, false)? {
                Some(held) => self.hit(&visit, held),
                None => missing.push(visit),
            }
        }
        Ok(missing)
    }

    /// Asks for missing pages until a window of them is on its way; takes those that have come
    /// meanwhile.
    fn fill(&mut self, missing: &mut impl Iterator<Item = Visit>, window: usize) {
        let (engine, relation) = (self.engine.clone(), self.relation.clone());
        let mut batch = Batch::new(&engine.threads, &relation);
        while self.pending.len() < window {
            let Some(visit) = missing.next() else { break };
            match engine.load(&mut self.client, &relation, visit.block, self.scan, false) {
                Request::Hit(held) => self.hit(&visit, held),
                Request::Joined { waiter, first } => {
                    if first {
                        engine.threads.hasten(relation.page(visit.block));
                    }
                    self.pending.push_back((visit, waiter, !first));
                }
                Request::Started(loading, waiter) => {
                    if engine.start(loading, &mut batch) {
                        self.result.stats.bytes_read += u64::from(relation.page_len(visit.block));
                    }
                    self.pending.push_back((visit, waiter, false));
                }
                Request::Full => self.past.push(visit),
            }
        }
        batch.submit();
    }

    fn hit(&mut self, visit: &Visit, held: Held) {
        self.result.stats.hits += 1;
        self.take(visit, held, false);
    }

    /// Copies the page out and unpins it.
    fn take(&mut self, visit: &Visit, held: Held, joined: bool) {
        let engine = self.engine.clone();
        if joined {
            let page = self.relation.page(visit.block);
            engine.cache.touch(&mut self.client, held.index(), |at| engine.access(page, self.scan, false, at));
        }
        let page = Pin::new(&engine.cache, held);
        self.copy(visit, &page);
    }

    /// Answers a request for a page whose bytes are here.
    fn copy(&mut self, visit: &Visit, page: &[u8]) {
        self.engine.record(&self.relation, visit.block);
        for piece in &self.pieces[visit.pieces.clone()] {
            let part = &page[piece.within.clone()];
            self.result.data[piece.range][piece.at..piece.at + part.len()].copy_from_slice(part);
        }
    }

    /// Reads the pages that found no frame: all requests first, then their answers.
    async fn read_past(&mut self) -> Result<(), PoolError> {
        let visits = std::mem::take(&mut self.past);
        let page_size = self.relation.page_size();
        let mut answers = Vec::new();
        let follows = |a: &Visit, b: &Visit| a.block.checked_add(1) == Some(b.block);
        for run in visits.chunk_by(follows).flat_map(|run| run.chunks(pages_of_a_request(page_size))) {
            let len: u64 = run.iter().map(|visit| u64::from(self.relation.page_len(visit.block))).sum();
            let offset = u64::from(run[0].block) * u64::from(page_size);
            let read = PastRead { relation: self.relation.clone(), offset, len: len as usize };
            let answer = Answer::new();
            self.engine.threads.submit(Job::Past(read, answer.clone()));
            answers.push((run, len, Awaited(answer)));
        }
        for (run, len, answer) in answers {
            let buffer = answer.await?;
            for (visit, page) in run.iter().zip(buffer.bytes().chunks(page_size as usize)) {
                self.copy(visit, page);
            }
            self.result.stats.bytes_read += len;
            self.result.stats.bypassed_bytes += len;
            self.client.count(&self.engine.cache, Counter::BytesRead, len);
            self.client.count(&self.engine.cache, Counter::BypassedBytes, len);
        }
        Ok(())
    }
}
