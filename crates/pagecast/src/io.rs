//! The pool's own threads, which read so that a read outlives whoever asked for it.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pagecast_core::PageId;

use crate::PoolError;
use crate::cache::Loading;
use crate::relation::Relation;
use crate::stats::Counter;
use crate::storage::{MAX_REQUEST, Reading, read_all};
use crate::sync::{Condvar, Mutex};

/// Where frames and buffers begin, and what their sizes are multiples of: enough for direct reads.
pub(crate) const ALIGNMENT: usize = 4096;

/// A read to be done.
pub(crate) enum Job {
    /// Neighbouring pages into their frames: in order, at least one, at most [`MAX_REQUEST`] bytes.
    Load(Arc<Relation>, Loads),
    /// Neighbouring pages into a buffer of the reader's.
    Past(PastRead, Arc<Answer>),
}

/// A read past the pool.
pub(crate) struct PastRead {
    pub(crate) relation: Arc<Relation>,
    /// A multiple of [`ALIGNMENT`].
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// The threads. They end when this goes and the queue is empty; nobody waits for them, since what they work on is held
/// by the work itself.
pub(crate) struct IoThreads(Arc<Queue>);

struct Queue {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
}

struct Jobs {
    /// Somebody waits for these.
    waiting: VecDeque<Job>,
    /// Pages ahead: read when nothing waits, and by a part of the threads, so that whoever comes next finds a free one.
    ahead: VecDeque<Job>,
    /// How many threads read pages ahead, and how many may.
    reading_ahead: u32,
    max_ahead: u32,
    closed: bool,
}

impl IoThreads {
    /// Starts `threads` of them.
    pub(crate) fn start(threads: u32) -> Result<Self, PoolError> {
        let (waiting, ahead, max_ahead) = (VecDeque::new(), VecDeque::new(), (threads / 4).max(1));
        let jobs = Mutex::new(Jobs { waiting, ahead, reading_ahead: 0, max_ahead, closed: false });
        let started = Self(Arc::new(Queue { jobs, arrived: Condvar::new() }));
        for number in 0..threads {
            let queue = started.0.clone();
            std::thread::Builder::new()
                .name(format!("pagecast-io-{number}"))
                .spawn(move || queue.work())
                .map_err(|error| PoolError::setup("starting a thread for reads", error))?;
        }
        Ok(started)
    }

    pub(crate) fn submit(&self, job: Job) {
        self.0.jobs.lock().waiting.push_back(job);
        self.0.arrived.notify_one();
    }

    fn submit_ahead(&self, job: Job) {
        self.0.jobs.lock().ahead.push_back(job);
        self.0.arrived.notify_one();
    }

    /// Somebody waits for a page that was to be brought ahead: its request goes to those that are waited for, unless it
    /// is under way.
    pub(crate) fn hasten(&self, page: PageId) {
        let mut jobs = self.0.jobs.lock();
        if let Some(index) = jobs.ahead.iter().position(|job| job.brings(page))
            && let Some(job) = jobs.ahead.remove(index)
        {
            jobs.waiting.push_back(job);
            drop(jobs);
            self.0.arrived.notify_one();
        }
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        self.0.jobs.lock().closed = true;
        self.0.arrived.notify_all();
    }
}

impl Queue {
    fn work(&self) {
        while let Some((work, is_ahead)) = self.next() {
            // A panic (of a policy, say) ends this work: its loads fail as they are dropped, the thread goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| work.run()));
            if is_ahead {
                self.jobs.lock().reading_ahead -= 1;
            }
        }
    }

    /// What to do next, and whether it reads ahead.
    fn next(&self) -> Option<(Work, bool)> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(work) = Work::take(&mut jobs.waiting) {
                return Some((work, false));
            }
            if jobs.reading_ahead < jobs.max_ahead
                && let Some(work) = Work::take(&mut jobs.ahead)
            {
                jobs.reading_ahead += 1;
                return Some((work, true));
            }
            // What is left in `ahead` goes to the threads that are reading ahead, as they come back.
            if jobs.closed {
                return None;
            }
            self.arrived.wait(&mut jobs);
        }
    }
}

/// What a thread does at a time.
enum Work {
    Load(Arc<Relation>, Vec<Loads>),
    Past(PastRead, Arc<Answer>),
}

impl Work {
    /// The first job, and as many of those behind it as its storage takes together with it.
    fn take(jobs: &mut VecDeque<Job>) -> Option<Self> {
        match jobs.pop_front()? {
            Job::Past(read, answer) => Some(Self::Past(read, answer)),
            Job::Load(relation, loads) => {
                let mut requests = vec![loads];
                while requests.len() < relation.storage().batch()
                    && let Some(loads) = jobs.pop_front_if(|job| job.is_load_of(&relation)).and_then(Job::loads)
                {
                    requests.push(loads);
                }
                Some(Self::Load(relation, requests))
            }
        }
    }

    fn run(self) {
        match self {
            Self::Load(relation, requests) => load(&relation, requests),
            Self::Past(read, answer) => answer.set(read.run()),
        }
    }
}

impl Job {
    /// Whether it brings `page` into its frame.
    fn brings(&self, page: PageId) -> bool {
        match self {
            Job::Load(_, loads) => loads.iter().any(|loading| loading.access().page == page),
            Job::Past(..) => false,
        }
    }

    fn is_load_of(&self, relation: &Arc<Relation>) -> bool {
        matches!(self, Job::Load(of, _) if Arc::ptr_eq(of, relation))
    }

    fn loads(self) -> Option<Loads> {
        match self {
            Job::Load(_, loads) => Some(loads),
            Job::Past(..) => None,
        }
    }
}

/// Neighbouring pages to be read in one request.
type Loads = Vec<Loading>;

/// Reads pages of one relation, each of the lists in one request, all requests at once; ends each of the loads.
fn load(relation: &Relation, mut requests: Vec<Loads>) {
    let mut places: Vec<(u64, Vec<IoSliceMut<'_>>)> = Vec::with_capacity(requests.len());
    for loads in &mut requests {
        let first = loads.first().map_or(0, |loading| loading.access().page.block());
        let bufs = loads.iter_mut().map(|loading| IoSliceMut::new(loading.bytes())).collect();
        places.push((u64::from(first) * u64::from(relation.page_size()), bufs));
    }
    let outcomes = read(relation, &mut places);
    drop(places);
    for (loads, outcome) in requests.into_iter().zip(outcomes) {
        loads.into_iter().for_each(|loading| end(relation, loading, &outcome));
    }
}

fn end(relation: &Relation, mut loading: Loading, outcome: &Result<(), PoolError>) {
    let block = loading.access().page.block();
    match outcome.clone().and_then(|()| relation.verify_page(block, loading.bytes())) {
        Ok(page) => {
            loading.count(Counter::Loads, 1);
            loading.count(Counter::BytesRead, u64::from(relation.page_len(block)));
            loading.publish(page.len, page.lsn.0);
        }
        Err(error) => {
            loading.count(Counter::FailedLoads, 1);
            loading.fail(error);
        }
    }
}

/// Fills each of the buffers from its offset, as far as the file goes, with bytes of the relation's own generation.
fn read(relation: &Relation, places: &mut [(u64, Vec<IoSliceMut<'_>>)]) -> Vec<Result<(), PoolError>> {
    if let Err(changed) = relation.check_known() {
        return places.iter().map(|_| Err(changed.clone())).collect();
    }
    let storage = relation.storage().as_ref();
    let wanted = |offset: u64, bufs: &[IoSliceMut<'_>]| {
        let bytes = bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        (offset, bytes.min(relation.len().saturating_sub(offset)))
    };
    let wanted: Vec<_> = places.iter().map(|(offset, bufs)| wanted(*offset, bufs)).collect();
    let read = AssertUnwindSafe(|| {
        let mut readings: Vec<_> = places.iter_mut().map(|(offset, bufs)| Reading::new(*offset, bufs)).collect();
        read_all(storage, &mut readings);
        readings.into_iter().map(Reading::outcome).collect::<Vec<_>>()
    });
    let panicked = |_| wanted.iter().map(|_| Err(io::Error::other("the storage panicked"))).collect();
    let answers = catch_unwind(read).unwrap_or_else(panicked);
    // After the reads, so that a change before their last byte is seen; and first of all, since a change explains the rest.
    let unchanged = relation.verify();
    let outcome = |((offset, wanted), answer): ((u64, u64), io::Result<usize>)| {
        unchanged.clone()?;
        match answer {
            Ok(read) if read as u64 == wanted => Ok(()),
            Ok(read) => {
                let short = io::Error::new(io::ErrorKind::UnexpectedEof, format!("the file ended after {read}"));
                Err(PoolError::io(relation.path(), offset, wanted, short))
            }
            Err(error) => Err(PoolError::io(relation.path(), offset, wanted, error)),
        }
    };
    wanted.into_iter().zip(answers).map(outcome).collect()
}

impl PastRead {
    fn run(self) -> Result<Buffer, PoolError> {
        let mut buffer = Buffer::new(self.len.next_multiple_of(ALIGNMENT));
        // Not while a page of it is written: what is read past the pool has no frame that would keep it whole.
        let _whole = self.relation.shared_on_storage();
        let mut place = [(self.offset, vec![IoSliceMut::new(buffer.bytes_mut())])];
        read(&self.relation, &mut place).into_iter().collect::<Result<(), _>>()?;
        Ok(buffer)
    }
}

/// Bytes that begin at a multiple of [`ALIGNMENT`].
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT];
        // Within the surplus: `align_offset` counts bytes here, and a byte pointer can always be aligned.
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { memory, start }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.memory.len() - ALIGNMENT + self.start]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let end = self.memory.len() - ALIGNMENT + self.start;
        &mut self.memory[self.start..end]
    }
}

/// Where the answer to a read past the pool will be.
pub(crate) struct Answer(Mutex<Waiting>);

enum Waiting {
    Pending(Option<Waker>),
    Answered(Option<Result<Buffer, PoolError>>),
}

impl Answer {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Waiting::Pending(None))))
    }

    fn set(&self, result: Result<Buffer, PoolError>) {
        let before = std::mem::replace(&mut *self.0.lock(), Waiting::Answered(Some(result)));
        if let Waiting::Pending(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The wait for an [`Answer`].
pub(crate) struct Awaited(pub(crate) Arc<Answer>);

impl Future for Awaited {
    type Output = Result<Buffer, PoolError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self.0.0.lock() {
            Waiting::Pending(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            Waiting::Answered(answer) => match answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            },
        }
    }
}

/// Collects loads and hands them over, neighbouring pages as one request. Whatever is collected is handed over when
/// this goes, so that no load stays behind with its caller.
pub(crate) struct Batch<'a> {
    threads: &'a IoThreads,
    relation: &'a Arc<Relation>,
    loads: Vec<Loading>,
    is_ahead: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(threads: &'a IoThreads, relation: &'a Arc<Relation>) -> Self {
        Self { threads, relation, loads: Vec::new(), is_ahead: false }
    }

    /// Of pages that nobody waits for.
    pub(crate) fn ahead(threads: &'a IoThreads, relation: &'a Arc<Relation>) -> Self {
        Self { threads, relation, loads: Vec::new(), is_ahead: true }
    }

    /// Whose pages it loads.
    pub(crate) fn relation(&self) -> &Arc<Relation> {
        self.relation
    }

    /// Adds a load that has its frame.
    pub(crate) fn add(&mut self, loading: Loading) {
        let block = loading.access().page.block();
        let next = self.loads.last().map(|last| last.access().page.block().checked_add(1));
        let pages = (MAX_REQUEST / self.relation.page_size() as usize).max(1);
        if next.is_some_and(|next| next != Some(block)) || self.loads.len() >= pages {
            self.flush();
        }
        self.loads.push(loading);
    }

    fn flush(&mut self) {
        if self.loads.is_empty() {
            return;
        }
        let job = Job::Load(self.relation.clone(), std::mem::take(&mut self.loads));
        match self.is_ahead {
            true => self.threads.submit_ahead(job),
            false => self.threads.submit(job),
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}
