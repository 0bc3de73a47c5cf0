//! The thread that writes dirty pages before evictions have to wait for them.
//!
//! It works in rounds. A round writes the pages that evictions have met dirty since the last one,
//! and as many of those that are dirty longest as bring their share of the pool down to what is
//! allowed; never more than the rate allows. A load that found nothing but dirty pages comes here
//! too, and does not wait for the next round.
//!
//! The idea of a writer with a rate and a round is PostgreSQL's background writer; that it goes by
//! the age of changes is for the checkpoint's sake: the oldest change is what a log cannot be cut
//! behind.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Writer, Written};
use crate::PoolError;
use crate::sync::{Condvar, Mutex, sleep, spawn};

/// How the background writer works.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct WriterOptions {
    /// From one round's begin to the next's, at most a day. Default: 200 ms.
    pub interval: Duration,
    /// Bytes per second that rounds may write, at most. Default: 64 MiB. 0 writes nothing ahead: a
    /// page is written when it has to leave, or by a checkpoint.
    pub rate: u64,
    /// The part of the frames that hold pages, 0 to 1, that may stay dirty. Default: 0.1.
    pub dirty_share: f64,
}

impl WriterOptions {
    crate::setters! {
        interval: Duration,
        rate: u64,
        dirty_share: f64,
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { interval: Duration::from_millis(200), rate: 64 << 20, dirty_share: 0.1 }
    }
}

/// How often a load looks for a frame again after dirty pages were written, before it does without:
/// others may change the pages again, or take the frames.
const TRIES: u32 = 64;

/// Between two tries of which the first had nothing to write or to wait for.
const PAUSE: Duration = Duration::from_micros(200);

/// How many of these tries may fail to write.
const FAILURES: u32 = 4;

/// A load that found only dirty pages. Dropped, it fails.
pub(crate) trait Room: Send {
    /// Looks for a frame again, and hands the load on if there is one. It comes back if there still
    /// is none.
    fn place(self: Box<Self>) -> Option<Box<dyn Room>>;

    /// Does without.
    fn give_up(self: Box<Self>);
}

/// The thread. It ends when this goes.
pub(crate) struct Background(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    rooms: VecDeque<Box<dyn Room>>,
    is_started: bool,
    is_stopped: bool,
}

impl Background {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Queue { state: Mutex::new(State::default()), arrived: Condvar::new() }))
    }

    /// Starts the thread if it does not run: a pool that only reads has none.
    pub(crate) fn start(&self, writer: &Arc<Writer>, options: WriterOptions) -> Result<(), PoolError> {
        let mut state = self.0.state.lock();
        if state.is_started {
            return Ok(());
        }
        let (queue, writer) = (self.0.clone(), writer.clone());
        spawn("pagecast-writer".to_owned(), move || queue.work(&writer, options))
            .map_err(|error| PoolError::setup("starting a thread that writes", error))?;
        state.is_started = true;
        Ok(())
    }

    /// Lets the thread write dirty pages until the load has a frame, and then hands it on.
    pub(crate) fn make_room(&self, room: Box<dyn Room>) {
        self.0.state.lock().rooms.push_back(room);
        self.0.arrived.notify_one();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.state.lock().is_stopped = true;
        self.0.arrived.notify_one();
    }
}

impl Queue {
    fn work(&self, writer: &Writer, options: WriterOptions) {
        // A day at most, so that the sum is a moment.
        let interval = options.interval.min(Duration::from_secs(86_400));
        let mut next_round = Instant::now() + interval;
        while let Some(rooms) = self.wait(next_round) {
            // A panic of the storage ends what it met: loads fail as they are dropped, pages are
            // dirty again.
            let _ = catch_unwind(AssertUnwindSafe(|| make_room(writer, rooms)));
            if Instant::now() >= next_round {
                let budget = (options.rate as f64 * interval.as_secs_f64()) as u64;
                let _ = catch_unwind(AssertUnwindSafe(|| writer.round(budget, options.dirty_share)));
                next_round = Instant::now() + interval;
            }
        }
    }

    /// The loads that came until the next round; `None` when the pool is gone.
    fn wait(&self, next_round: Instant) -> Option<VecDeque<Box<dyn Room>>> {
        let mut state = self.state.lock();
        while state.rooms.is_empty() && !state.is_stopped {
            let left = next_round.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.arrived.wait_for(&mut state, left);
        }
        let rooms = std::mem::take(&mut state.rooms);
        (!rooms.is_empty() || !state.is_stopped).then_some(rooms)
    }
}

/// Writes what evictions met dirty, all loads' at once, and lets the loads look again. What could
/// not be written stays dirty; the loads that find no frame for that reason do without.
fn make_room(writer: &Writer, mut rooms: VecDeque<Box<dyn Room>>) {
    let mut failures = 0;
    for _ in 0..TRIES {
        let written = writer.write_back(&writer.cache.take_wanted());
        // Not before: our own batch has ended, too.
        let ended = writer.batches_ended();
        rooms = rooms.into_iter().filter_map(|room| room.place()).collect();
        failures += u32::from(written.is_err());
        if rooms.is_empty() || failures == FAILURES {
            break;
        }
        // Where there was nothing for us to write, another thread writes what the loads wait for,
        // or has just done so and others have taken the frames.
        if written.is_ok_and(|written| written.pages > 0) {
            continue;
        } else if writer.cache.is_writing() {
            writer.wait_for_a_batch_after(ended);
        } else {
            sleep(PAUSE);
        }
    }
    rooms.into_iter().for_each(|room| room.give_up());
}

impl Writer {
    /// Writes what evictions met, and what is dirty longest beyond `dirty_share` of the frames: at
    /// most `bytes` bytes, neighbours that come along not counted.
    pub(crate) fn round(&self, bytes: u64, dirty_share: f64) -> Result<Written, PoolError> {
        let budget = (bytes / u64::from(self.page_size)) as usize;
        if budget == 0 {
            return Ok(Written::default());
        }
        let mut pages = self.cache.take_wanted();
        pages.truncate(budget);
        let mut dirty = self.cache.dirty();
        let allowed = (f64::from(self.cache.page_frames()) * dirty_share) as usize;
        let surplus = dirty.len().saturating_sub(allowed.max(pages.len())).min(budget - pages.len());
        dirty.sort_unstable();
        pages.extend(dirty.into_iter().take(surplus).map(|(_, page, index)| (page, index)));
        self.write_back(&pages)
    }
}
