//! Reading byte ranges through the pool.
//!
//! A read first copies out every page that is resident. From then on it needs none of them any
//! more, so that its scan may report them as done although the read has hardly begun, and no frame
//! is kept for a page that only waits to be copied. Then it asks for the missing pages in order and
//! copies each out as soon as it is there, so that it holds no pin while it waits: a bounded window
//! of them ahead, neighbours as one request to storage; half a window is refilled at a time, so
//! that requests stay long. Pages for which there was no frame are read past the pool, neighbours
//! and those behind small gaps together again, into a buffer of the read's own.
//!
//! What lies far away is asked for in requests that are worth their fixed cost, however few frames
//! there are: all of it is read into such buffers, and its pages get their frames from there.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use pagecast_core::ScanId;

use super::Engine;
use crate::cache::{Carried, Client, Loading, Request, Waiter};
use crate::flash::FlashCopy;
use crate::io::{Answer, Awaited, Batch, Job, PastRead};
use crate::output::{Memory, Output, Visit, unwritten};
use crate::paged_file::PagedFile;
use crate::stats::Counter;
use crate::storage::MAX_REQUEST;
use crate::token::Held;
use crate::{PageGuard, PoolError};

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
    /// Bytes that this read had storage bring, or flash in its place, into the pool or past it.
    /// What it waited for but others had asked for is theirs.
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
    /// Pages to be read past the pool: those that found no frame, and those that get theirs when
    /// their bytes are here.
    past: Vec<(Visit, Option<Loading>)>,
    /// Requests for such pages, in their order.
    asked: VecDeque<Asked>,
}

/// A request for pages past the pool.
struct Asked {
    visits: Vec<Visit>,
    /// Bytes of those that have no load.
    past: u64,
    awaited: Awaited,
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
    let (pending, past, asked) = Default::default();
    let mut reading = Reading { engine, client, relation, scan, output, stats, pending, past, asked };
    let mut missing = reading.take_resident(visits)?.into_iter();
    reading.fill(&mut missing, window);
    // After the scan's own requests, which somebody waits for.
    if let Some(scan) = scan {
        reading.engine.read_ahead(scan);
    }
    loop {
        if reading.under_way() <= window / 2 {
            reading.fill(&mut missing, window);
        }
        if let Some((visit, mut waiter, joined)) = reading.pending.pop_front() {
            match ((&mut waiter).await?, waiter.carried()) {
                (Some(held), _) => reading.take(&visit, held, joined),
                (None, Some(carried)) => reading.take_carried(&visit, &carried, joined),
                (None, None) => reading.past.push((visit, None)),
            }
            if reading.past.len() < reading.relation.pages_of_a_request() {
                continue;
            }
        }
        reading.ask_past();
        let Some(asked) = reading.asked.pop_front() else { break };
        reading.take_past(asked).await?;
    }
    reading.finish()
}

/// How many pages a read may have on their way: two requests. Where they wait in frames these are
/// only a share of a small pool, so that many reads at once leave frames to each other: frames on
/// their way hold nothing that could be hit.
fn window(frames: u32, relation: &PagedFile) -> usize {
    let requests = 2 * relation.pages_of_a_request();
    if relation.starts_errands() { requests } else { (frames as usize / 128).max(2).min(requests) }
}

/// Of storage that wants ordinary ones.
pub(crate) fn pages_of_a_request(page_size: u32) -> usize {
    (MAX_REQUEST / page_size as usize).max(1)
}

/// The visits of each request: pages that lie one behind the other, with at most `gap` pages that
/// nobody wants between two, and no more than `most` in all.
fn past_requests<L>(visits: Vec<(Visit, L)>, most: usize, gap: usize) -> Vec<Vec<(Visit, L)>> {
    let mut requests: Vec<Vec<(Visit, L)>> = Vec::new();
    for (visit, load) in visits {
        let joined = requests.last_mut().filter(|request| {
            let (first, last) = (request[0].0.block, request[request.len() - 1].0.block);
            let behind = visit.block.checked_sub(last + 1);
            behind.is_some_and(|behind| behind as usize <= gap) && ((visit.block - first) as usize) < most
        });
        match joined {
            Some(request) => request.push((visit, load)),
            None => requests.push(vec![(visit, load)]),
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
            self.engine.learn(self.relation.page(visit.block), None, self.scan, false);
            match self.engine.find(&mut self.client, &self.relation, visit.block, self.scan, false)? {
                Some(held) => self.hit(&visit, held),
                None => missing.push(visit),
            }
        }
        Ok(missing)
    }

    /// Pages that have been asked for and have not come.
    fn under_way(&self) -> usize {
        self.pending.len() + self.asked.iter().map(|asked| asked.visits.len()).sum::<usize>()
    }

    /// Asks for missing pages until a window of them is on its way; takes those that have come
    /// meanwhile.
    fn fill(&mut self, missing: &mut impl Iterator<Item = Visit>, window: usize) {
        if self.relation.starts_errands() {
            return self.fill_past(missing, window);
        }
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
                Request::Full => self.past.push((visit, None)),
            }
        }
        batch.submit();
    }

    /// The same of what lies far away.
    fn fill_past(&mut self, missing: &mut impl Iterator<Item = Visit>, window: usize) {
        let (engine, relation) = (self.engine.clone(), self.relation.clone());
        let due = engine.due(self.scan);
        while self.under_way() + self.past.len() < window {
            let Some(visit) = missing.next() else { break };
            match engine.load_for_reader(&mut self.client, &relation, visit.block, self.scan) {
                Request::Hit(held) => self.hit(&visit, held),
                Request::Joined { waiter, first } => {
                    if first {
                        engine.threads.hasten(relation.page(visit.block), due);
                    }
                    self.pending.push_back((visit, waiter, !first));
                }
                // The bytes come to this read by themselves.
                Request::Started(loading, _) => {
                    self.stats.bytes_read += u64::from(relation.page_len(visit.block));
                    self.past.push((visit, Some(loading)));
                }
                Request::Full => self.past.push((visit, None)),
            }
        }
        self.ask_past();
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
        let page = PageGuard::new(&engine.cache, held);
        self.copy(visit, &page);
    }

    /// Copies a page out of what another read has brought.
    fn take_carried(&mut self, visit: &Visit, carried: &Carried, joined: bool) {
        if joined {
            let access = self.engine.access(self.relation.page(visit.block), self.scan, false, None);
            self.engine.cache.touch_page(&mut self.client, access);
        }
        self.copy(visit, carried.bytes());
    }

    /// Answers a request for a page whose bytes are here.
    fn copy(&mut self, visit: &Visit, page: &[u8]) {
        self.engine.record(&self.relation, visit.block);
        self.output.fill(visit, page);
    }

    /// Asks for the pages that are to be read past the pool, with as few requests as if there were
    /// no flash.
    fn ask_past(&mut self) {
        let (most, gap) = (self.relation.pages_of_a_request(), self.relation.pages_of_a_gap());
        for request in past_requests(std::mem::take(&mut self.past), most, gap) {
            self.ask_around_copies(request.into());
        }
    }

    /// Makes one request, without the pages at its ends that have copies on flash: these come from
    /// there. A copy between others is read over, since two requests cost more than its bytes.
    fn ask_around_copies(&mut self, mut request: VecDeque<(Visit, Option<Loading>)>) {
        while let Some(copy) = request.front().and_then(|(visit, _)| self.copy_on_flash(visit)) {
            self.ask(request.pop_front().into_iter().collect(), Some(copy));
        }
        let mut behind = Vec::new();
        while let Some(copy) = request.back().and_then(|(visit, _)| self.copy_on_flash(visit)) {
            behind.push((request.pop_back(), copy));
        }
        if !request.is_empty() {
            self.ask(request.into(), None);
        }
        for (page, copy) in behind.into_iter().rev() {
            self.ask(page.into_iter().collect(), Some(copy));
        }
    }

    fn copy_on_flash(&self, visit: &Visit) -> Option<FlashCopy> {
        let access = self.engine.access(self.relation.page(visit.block), self.scan, false, None);
        self.engine.cache.copy_on_flash(&access)
    }

    /// Makes one request for `visits` and what lies between them.
    fn ask(&mut self, visits: Vec<(Visit, Option<Loading>)>, copy: Option<FlashCopy>) {
        let (engine, relation) = (&self.engine, &self.relation);
        let offset = u64::from(visits[0].0.block) * u64::from(relation.page_size());
        let (mut asked, mut loads, mut next) = (Vec::new(), Vec::<Loading>::new(), visits[0].0.block);
        let (mut len, mut past) = (0, 0);
        for (visit, loading) in visits {
            // Pages in between are kept if there are frames for nothing.
            for block in next..visit.block {
                len += relation.page_size() as usize;
                match loads.last().and_then(|load| load.along(relation.page(block))) {
                    Some(along) => loads.push(along),
                    None => engine.threads.read_over(relation.page_size().into()),
                }
            }
            let bytes = relation.page_len(visit.block);
            past += if loading.is_none() { u64::from(bytes) } else { 0 };
            len += bytes as usize;
            next = visit.block + 1;
            loads.extend(loading);
            asked.push(visit);
        }
        let (read, answer) = (PastRead { relation: relation.clone(), offset, len, copy }, Answer::new());
        engine.threads.submit(Job::Past(read, loads, answer.clone()), engine.due(self.scan));
        self.asked.push_back(Asked { visits: asked, past, awaited: Awaited(answer) });
    }

    /// Copies out what a request past the pool has brought.
    async fn take_past(&mut self, asked: Asked) -> Result<(), PoolError> {
        let Asked { visits, past, awaited } = asked;
        let brought = awaited.await?;
        let page_size = self.relation.page_size() as usize;
        for visit in &visits {
            let page = &brought.buffer.bytes()[(visit.block - visits[0].block) as usize * page_size..];
            self.copy(visit, &page[..page.len().min(page_size)]);
        }
        self.stats.bytes_read += past;
        self.stats.bypassed_bytes += past + brought.unplaced;
        self.client.count(&self.engine.cache, Counter::BytesRead, past);
        self.client.count(&self.engine.cache, Counter::BypassedBytes, past);
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
