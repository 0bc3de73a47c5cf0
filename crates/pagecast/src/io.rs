//! The pool's own threads, which read so that a read outlives whoever asked for it.

mod batch;
mod line;
mod load;
mod past;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use pagecast_core::{PageId, Tick};

use crate::PoolError;
pub(crate) use crate::buffer::{ALIGNMENT, Buffer};
use crate::cache::Loading;
use crate::flash::FlashCopy;
use crate::paged_file::PagedFile;
use crate::storage::Buffers;
use crate::sync::{Condvar, Mutex, spawn};
pub(crate) use batch::Batch;
use line::Line;
use load::{LoadErrand, Read, end_all, end_alone};
use past::PastErrand;

/// A read to be done.
pub(crate) enum Job {
    /// Pages into their frames, in order: one request.
    Load(Arc<PagedFile>, Run),
    /// A page into its frame from its copy on flash, or from storage if the copy is broken.
    Copy(Arc<PagedFile>, FlashCopy, Loading),
    /// Neighbouring pages into a buffer of the reader's. Loads come along where the storage starts
    /// errands: of pages that get a frame when their bytes are here.
    Past(PastRead, Vec<Loading>, Arc<Answer>),
}

/// A read past the pool.
pub(crate) struct PastRead {
    pub(crate) relation: Arc<PagedFile>,
    /// A multiple of [`ALIGNMENT`].
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// Of its one page, on flash.
    pub(crate) copy: Option<FlashCopy>,
}

/// The threads. They end when this goes and the queue is empty; nobody waits for them, since what
/// they work on is held by the work itself.
pub(crate) struct IoThreads(Arc<Queue>);

/// Finds a frame for a load whose bytes are here; whether it has one then.
pub(crate) type FindFrame = Box<dyn Fn(&mut Loading) -> bool + Send + Sync>;

struct Queue {
    find_frame: FindFrame,
    jobs: Mutex<Jobs>,
    /// Bytes that requests read over.
    gap_bytes: AtomicU64,
    arrived: Condvar,
}

struct Jobs {
    /// Somebody waits for these.
    waiting: Line<Job>,
    /// Pages ahead: read when nothing waits, and by a part of the threads, so that whoever comes
    /// next finds a free one.
    ahead: VecDeque<Job>,
    /// How many threads read pages ahead, and how many may.
    reading_ahead: u32,
    max_ahead: u32,
    closed: bool,
}

impl IoThreads {
    /// Starts `threads` of them.
    pub(crate) fn start(threads: u32, find_frame: FindFrame) -> Result<Self, PoolError> {
        let (waiting, ahead, max_ahead) = (Line::new(), VecDeque::new(), (threads / 4).max(1));
        let jobs = Mutex::new(Jobs { waiting, ahead, reading_ahead: 0, max_ahead, closed: false });
        let (gap_bytes, arrived) = (AtomicU64::new(0), Condvar::new());
        let started = Self(Arc::new(Queue { find_frame, jobs, gap_bytes, arrived }));
        for number in 0..threads {
            let queue = started.0.clone();
            spawn(format!("pagecast-io-{number}"), move || queue.work())
                .map_err(|error| PoolError::setup("starting a thread for reads", error))?;
        }
        Ok(started)
    }

    /// Hands over a read that somebody waits for, to be done when those are done that are due
    /// before it.
    pub(crate) fn submit(&self, job: Job, due: Tick) {
        self.0.submit(job, due);
    }

    /// Bytes that requests have read over, because they lay between pages that were wanted.
    pub(crate) fn gap_bytes(&self) -> u64 {
        self.0.gap_bytes.load(Relaxed)
    }

    /// Counts bytes that lie between wanted ones.
    pub(crate) fn read_over(&self, bytes: u64) {
        self.0.gap_bytes.fetch_add(bytes, Relaxed);
    }

    fn submit_ahead(&self, job: Job) {
        self.0.jobs.lock().ahead.push_back(job);
        self.0.arrived.notify_one();
    }

    /// Somebody waits for a page that was to be brought ahead: its request goes to those that are
    /// waited for, unless it is under way.
    pub(crate) fn hasten(&self, page: PageId, due: Tick) {
        let mut jobs = self.0.jobs.lock();
        if let Some(index) = jobs.ahead.iter().position(|job| job.brings(page))
            && let Some(job) = jobs.ahead.remove(index)
        {
            jobs.waiting.push(job, due);
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
    fn submit(&self, job: Job, due: Tick) {
        self.jobs.lock().waiting.push(job, due);
        self.arrived.notify_one();
    }

    fn work(self: &Arc<Self>) {
        while let Some((job, is_ahead)) = self.next() {
            // A panic (of the storage, say) ends this work: its loads fail as they are dropped, the
            // thread goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| self.run(job, is_ahead)));
            if is_ahead {
                self.jobs.lock().reading_ahead -= 1;
            }
        }
    }

    /// What to do next, and whether it reads ahead.
    fn next(&self) -> Option<(Job, bool)> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.waiting.pop() {
                return Some((job, false));
            }
            if jobs.reading_ahead < jobs.max_ahead
                && let Some(job) = jobs.ahead.pop_front()
            {
                jobs.reading_ahead += 1;
                return Some((job, true));
            }
            // What is left in `ahead` goes to the threads that are reading ahead, as they come
            // back.
            if jobs.closed {
                return None;
            }
            self.arrived.wait(&mut jobs);
        }
    }

    /// The next job in turn, if it is one more load of the same relation and of the same kind.
    fn more(&self, relation: &Arc<PagedFile>, is_ahead: bool) -> Option<Run> {
        let mut jobs = self.jobs.lock();
        if is_ahead && !jobs.waiting.is_empty() {
            return None;
        }
        let more = |job: &Job| job.is_load_of(relation);
        let job = if is_ahead { jobs.ahead.pop_front_if(|job| more(job)) } else { jobs.waiting.pop_if(more) };
        job.and_then(Job::run)
    }

    fn run(self: &Arc<Self>, job: Job, is_ahead: bool) {
        match job {
            Job::Past(read, loads, answer) if read.relation.starts_errands() => {
                PastErrand::start(Arc::clone(self), read, loads, answer);
            }
            Job::Past(read, _, answer) => answer.set(read.run().map(Brought::past)),
            Job::Copy(relation, copy, loading) => self.copy(relation, copy, loading),
            Job::Load(relation, run) if relation.starts_errands() && !is_ahead => self.start(relation, run),
            Job::Load(relation, run) => self.load(&relation, run, is_ahead),
        }
    }

    /// Brings a page from its copy. A copy that is none becomes an ordinary load.
    fn copy(&self, relation: Arc<PagedFile>, copy: FlashCopy, loading: Loading) {
        if let Some(loading) = load::end_copy(&relation, copy, loading) {
            self.submit(Job::Load(relation, vec![Part::Page(loading)]), 0);
        }
    }

    /// Begins to read pages of one relation, as one request that keeps no thread.
    fn start(self: &Arc<Self>, relation: Arc<PagedFile>, run: Run) {
        let (queue, file) = (Arc::clone(self), Arc::clone(&relation));
        let end = move |read| {
            for wanted in end_alone(&file, read) {
                queue.submit(Job::Load(Arc::clone(&file), vec![Part::Page(wanted)]), 0);
            }
        };
        let storage = Arc::clone(relation.storage());
        storage.start(Box::new(LoadErrand::new(relation, run, true, end)));
    }

    /// Reads pages of one relation, each of the lists in a request of its own, and those that come
    /// in meanwhile with them, as many at once as the storage takes.
    fn load(&self, relation: &Arc<PagedFile>, first: Run, is_ahead: bool) {
        let ended = RefCell::new(Vec::<Read>::new());
        let (mut first, read) = (Some(first), &ended);
        relation.storage().serve(&mut || {
            // Those that have ended since the storage asked last share one look at the file.
            end_all(relation, read.take());
            let run = first.take().or_else(|| self.more(relation, is_ahead))?;
            let end = move |ended| read.borrow_mut().push(ended);
            Some(Box::new(LoadErrand::new(Arc::clone(relation), run, false, end)))
        });
        end_all(relation, read.take());
    }
}

impl Job {
    /// Whether it brings `page` into its frame.
    fn brings(&self, page: PageId) -> bool {
        match self {
            Job::Load(_, run) => run.iter().filter_map(Part::page).any(|loading| loading.access().page == page),
            Job::Copy(_, _, loading) => loading.access().page == page,
            Job::Past(..) => false,
        }
    }

    fn is_load_of(&self, relation: &Arc<PagedFile>) -> bool {
        matches!(self, Job::Load(of, _) if Arc::ptr_eq(of, relation))
    }

    fn run(self) -> Option<Run> {
        match self {
            Job::Load(_, run) => Some(run),
            Job::Copy(..) | Job::Past(..) => None,
        }
    }
}

/// What one request reads, from a page to a page.
type Run = Vec<Part>;

/// A part of a request.
pub(crate) enum Part {
    /// A page into its frame.
    Page(Loading),
    /// Bytes between two of them, to be thrown away.
    Gap(Vec<u8>),
}

impl Part {
    fn page(&self) -> Option<&Loading> {
        match self {
            Self::Page(loading) => Some(loading),
            Self::Gap(_) => None,
        }
    }
}

impl Buffers for Run {
    fn pieces(&mut self) -> Vec<&mut [u8]> {
        let bytes = |part| match part {
            &mut Part::Page(ref mut loading) => loading.bytes(),
            Part::Gap(bytes) => bytes,
        };
        self.iter_mut().map(bytes).collect()
    }
}

/// The pages of a run.
fn pages(run: Run) -> impl DoubleEndedIterator<Item = Loading> {
    run.into_iter().filter_map(|part| match part {
        Part::Page(loading) => Some(loading),
        Part::Gap(_) => None,
    })
}

/// What a read past the pool brought.
pub(crate) struct Brought {
    /// Shared with those who have joined the loads.
    pub(crate) buffer: Arc<Buffer>,
    /// Bytes of loads that came along and found no frame.
    pub(crate) unplaced: u64,
}

impl Brought {
    /// Without loads.
    fn past(buffer: Buffer) -> Self {
        Self { buffer: Arc::new(buffer), unplaced: 0 }
    }
}

/// Where the answer to a read past the pool will be.
pub(crate) struct Answer(Mutex<Waiting>);

enum Waiting {
    Pending(Option<Waker>),
    Answered(Option<Result<Brought, PoolError>>),
}

impl Answer {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Waiting::Pending(None))))
    }

    fn set(&self, result: Result<Brought, PoolError>) {
        let before = std::mem::replace(&mut *self.0.lock(), Waiting::Answered(Some(result)));
        if let Waiting::Pending(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The wait for an [`Answer`].
pub(crate) struct Awaited(pub(crate) Arc<Answer>);

impl Future for Awaited {
    type Output = Result<Brought, PoolError>;

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
