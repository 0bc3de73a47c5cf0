//! Reading byte ranges through the pool.
//!
//! A read first copies out every page that is resident. From then on it needs none of them any
//! more, so that its scan may report them as done although the read has hardly begun, and no frame
//! is kept for a page that only waits to be copied. Then it asks for the missing pages in order and
//! copies each out as soon as it is there, so that it holds no pin while it waits: a bounded window
//! of them ahead, neighbours as one request to storage; half a window is refilled at a time, so
//! that requests stay long. Pages for which there was no frame are read past the pool, neighbours
//! and those behind small gaps together again, into a buffer of the read's own.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use pagecast_core::ScanId;

use super::Engine;
use crate::cache::{Client, Request, Waiter};
use crate::io::{Answer, Awaited, Batch, Job, PastRead};
use crate::output::{Memory, Output, Visit, unwritten};
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

struct Reading<C, M> {
    engine: Arc<Engine>,
    client: C,
    relation: Arc<PagedFile>,
    scan: Option<ScanId>,
    output: Output<M>,
    stats: ReadStats,
    /// Pages on their way, in the order in which they were asked for; whether this is a use beyond
    /// the one that they are admitted for.
    pending: VecDeque<(Visit, Waiter, bool)>,
    /// Pages that found no frame.
    past: Vec<Visit>,
}

/// Reads ranges into memory of the read's own.
pub(crate) async fn read(
    engine: Arc<Engine>,
    client: impl Client,
    relation: Arc<PagedFile>,
    ranges: Vec<Range<u64>>,
    scan: Option<ScanId>,
) -> Result<ReadResult, PoolError> {
    // Before there is memory for them.
    check(&relation, &ranges)?;
    let ranges = ranges.into_iter().map(|range| (range.start, unwritten((range.end - range.start) as usize)));
    let (data, stats) = fill_each(engine, client, relation, ranges.collect(), scan).await?;
    Ok(ReadResult { data, stats })
}

/// Reads the bytes from `offset` into the caller's memory, as many as it has.
pub(crate) async fn read_into(
    engine: Arc<Engine>,
    client: impl Client,
    relation: Arc<PagedFile>,
    (offset, memory): (u64, &mut [MaybeUninit<u8>]),
    scan: Option<ScanId>,
) -> Result<(&mut [u8], ReadStats), PoolError> {
    check(&relation, std::slice::from_ref(&(offset..offset.saturating_add(memory.len() as u64))))?;
    let (mut data, stats) = fill_each(engine, client, relation, vec![(offset, memory)], scan).await?;
    Ok((data.pop().unwrap_or_default(), stats))
}

/// Fails unless these bytes can be read.
pub(crate) fn check(relation: &PagedFile, ranges: &[Range<u64>]) -> Result<(), PoolError> {
    if relation.is_sealed() {
        return Err(PoolError::Sealed { path: relation.path().to_owned() });
    }
    ranges.iter().try_for_each(|range| relation.contains(range))
}

/// Fills each memory with the file's bytes from its offset on.
async fn fill_each<M: Memory>(
    engine: Arc<Engine>,
    mut client: impl Client,
    relation: Arc<PagedFile>,
    ranges: Vec<(u64, M)>,
    scan: Option<ScanId>,
) -> Result<(Vec<M::Bytes>, ReadStats), PoolError> {
    let (output, visits) = Output::new(ranges, relation.page_size());
    let stats = ReadStats { bytes_requested: output.missing(), ..ReadStats::default() };
    client.count(&engine.cache, Counter::BytesRequested, stats.bytes_requested);
    let window = window(engine.cache.frames(), &relation);
    let (pending, past) = (VecDeque::new(), Vec::new());
    let mut reading = Reading { engine, client, relation, scan, output, stats, pending, past };
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
        if reading.past.len() >= reading.relation.pages_of_a_request() {
            reading.read_past().await?;
        }
    }
    reading.read_past().await?;
    reading.finish()
}

/// How many pages a read may have on their way: two requests, but of a small pool only a share, so
/// that many reads at once leave frames to each other: frames on their way hold nothing that could
/// be hit. What lies far away is asked for in more at once.
fn window(frames: u32, relation: &PagedFile) -> usize {
    let part = if relation.pages_of_a_gap() > 0 { 32 } else { 128 };
    let share = (frames as usize / part).max(2);
    share.min(2 * relation.pages_of_a_request())
}

/// Of storage that wants ordinary ones.
pub(crate) fn pages_of_a_request(page_size: u32) -> usize {
    (MAX_REQUEST / page_size as usize).max(1)
}

/// The visits of each request: pages that lie one behind the other, with at most `gap` pages that
/// nobody wants between two, and no more than `most` in all.
fn past_requests(visits: &[Visit], most: usize, gap: usize) -> Vec<&[Visit]> {
    let mut requests = Vec::new();
    let mut begin = 0;
    for next in 1..=visits.len() {
        let joins = visits.get(next).is_some_and(|visit| {
            let behind = visit.block.checked_sub(visits[next - 1].block + 1);
            let span = visit.block.saturating_sub(visits[begin].block) as usize;
            behind.is_some_and(|behind| behind as usize <= gap) && span < most
        });
        if !joins {
            requests.push(&visits[begin..next]);
            begin = next;
        }
    }
    requests
}

impl<C: Client, M: Memory> Reading<C, M> {
    /// Copies out the pages that are resident, and returns the others.
    fn take_resident(&mut self, visits: Vec<Visit>) -> Result<Vec<Visit>, PoolError> {
        let mut missing = Vec::new();
        self.stats.pages += visits.len() as u64;
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
        let due = engine.due(self.scan);
        let mut batch = Batch::new(&engine.threads, &relation, due);
        while self.pending.len() < window {
            let Some(visit) = missing.next() else { break };
            match engine.load(&mut self.client, &relation, visit.block, self.scan, false) {
                Request::Hit(held) => self.hit(&visit, held),
                Request::Joined { waiter, first } => {
                    if first {
                        engine.threads.hasten(relation.page(visit.block), due);
                    }
                    self.pending.push_back((visit, waiter, !first));
                }
                Request::Started(loading, waiter) => {
                    if engine.start(loading, &mut batch) {
                        self.stats.bytes_read += u64::from(relation.page_len(visit.block));
                    }
                    self.pending.push_back((visit, waiter, false));
                }
                Request::Full => self.past.push(visit),
            }
        }
        batch.submit();
    }

    fn hit(&mut self, visit: &Visit, held: Held) {
        self.stats.hits += 1;
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
        self.output.fill(visit, page);
    }

    /// Reads the pages that found no frame: all requests first, then their answers.
    async fn read_past(&mut self) -> Result<(), PoolError> {
        let visits = std::mem::take(&mut self.past);
        let mut answers = Vec::new();
        for run in past_requests(&visits, self.relation.pages_of_a_request(), self.relation.pages_of_a_gap()) {
            let (first, last) = (run[0].block, run[run.len() - 1].block);
            let bytes = |block| u64::from(self.relation.page_len(block));
            let wanted: u64 = run.iter().map(|visit| bytes(visit.block)).sum();
            let len: u64 = (first..=last).map(bytes).sum();
            let offset = u64::from(first) * u64::from(self.relation.page_size());
            let read = PastRead { relation: self.relation.clone(), offset, len: len as usize };
            let answer = Answer::new();
            self.engine.threads.submit(Job::Past(read, answer.clone()), self.engine.due(self.scan));
            self.engine.threads.read_over(len - wanted);
            answers.push((run, wanted, Awaited(answer)));
        }
        let page_size = self.relation.page_size() as usize;
        for (run, wanted, answer) in answers {
            let buffer = answer.await?;
            for visit in run {
                let at = (visit.block - run[0].block) as usize * page_size;
                let page = &buffer.bytes()[at..];
                self.copy(visit, &page[..page.len().min(page_size)]);
            }
            self.stats.bytes_read += wanted;
            self.stats.bypassed_bytes += wanted;
            self.client.count(&self.engine.cache, Counter::BytesRead, wanted);
            self.client.count(&self.engine.cache, Counter::BypassedBytes, wanted);
        }
        Ok(())
    }

    /// The bytes, once every page has been copied.
    fn finish(self) -> Result<(Vec<M::Bytes>, ReadStats), PoolError> {
        let (missing, asked) = (self.output.missing(), self.stats.bytes_requested);
        let data = self.output.finish().ok_or_else(|| {
            let mistake = format!("{missing} of them were not filled, by a mistake in pagecast; report it");
            PoolError::io(self.relation.path(), 0, asked, io::Error::other(mistake))
        })?;
        Ok((data, self.stats))
    }
}
