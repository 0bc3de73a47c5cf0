//! Processors, and the line of those who wait for one.
//!
//! * O1. A processor is free only while nobody is in line: who gives one back hands it to the
//!   first. Nobody takes it on the way, so that whoever gives way has others before itself.
//! * O2. Who is not in line any more has a processor, even if it does not know yet; if it ends
//!   before, it hands it on.
//! * O3. Nobody stands behind those who come later by its level times [`HEAD_START`].
//!
//! One lock guards all of it, and wakers are called outside. `make explore` has many schedules of
//! O1 and O2.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So much later somebody may come than one of the next level, and stand before it.
pub(crate) const HEAD_START: Duration = Duration::from_millis(100);

/// The level where nobody waits.
const NOBODY: usize = usize::MAX;

/// The processors, and who waits for one.
pub(crate) struct Line {
    waiting: Mutex<Waiting>,
    /// The level of the first in line, to look at without the lock.
    first: AtomicUsize,
}

struct Waiting {
    /// Processors that nobody has, once somebody has asked.
    free: Option<usize>,
    line: BTreeMap<Place, (usize, Waker)>,
    came: u64,
}

/// A place in line: by when somebody came, by its level and by its number.
type Place = (Instant, u64);

/// Somebody who needs a processor now and then.
pub(crate) struct Comer {
    line: &'static Line,
    /// Its place in line. It may have been called.
    place: Option<Place>,
}

impl Line {
    /// With all processors of this machine.
    pub(crate) const fn new() -> Self {
        Self::with(None)
    }

    pub(crate) const fn with(processors: Option<usize>) -> Self {
        let waiting = Waiting { free: processors, line: BTreeMap::new(), came: 0 };
        Self { waiting: Mutex::new(waiting), first: AtomicUsize::new(NOBODY) }
    }

    /// Whether somebody waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted_below(NOBODY)
    }

    /// Whether somebody waits who has used so little that it is of a level below this one.
    pub(crate) fn is_wanted_below(&self, level: usize) -> bool {
        self.first.load(Relaxed) < level
    }

    /// Processors that are free, and how many wait.
    #[cfg(any(test, pagecast_shuttle))]
    pub(crate) fn state(&self) -> (Option<usize>, usize) {
        let waiting = self.waiting.lock();
        (waiting.free, waiting.line.len())
    }

    /// Hands a processor to the first in line (O1).
    pub(crate) fn give_back(&self) {
        let mut waiting = self.waiting.lock();
        let called = waiting.line.pop_first();
        if called.is_none() {
            waiting.free = waiting.free.map(|free| free + 1);
        }
        self.see(&waiting);
        drop(waiting);
        if let Some((_, (_, waker))) = called {
            waker.wake();
        }
    }

    /// Takes a processor, or a place in line (O1).
    fn take(&self, level: usize, came: Instant, waker: &Waker) -> Result<(), Place> {
        let mut waiting = self.waiting.lock();
        let free = waiting.free.unwrap_or_else(processors);
        if free > 0 {
            waiting.free = Some(free - 1);
            return Ok(());
        }
        let place = (came + HEAD_START * level as u32, waiting.came);
        waiting.came += 1;
        waiting.line.insert(place, (level, waker.clone()));
        self.see(&waiting);
        Err(place)
    }

    /// Whether who was in line has a processor now (O2). It stays in line else.
    fn is_called(&self, place: &Place, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        let Some((_, known)) = waiting.line.get_mut(place) else { return true };
        known.clone_from(waker);
        false
    }

    /// Leaves the line, or hands on what it was given (O2).
    fn leave(&self, place: &Place) {
        let mut waiting = self.waiting.lock();
        let waited = waiting.line.remove(place).is_some();
        self.see(&waiting);
        drop(waiting);
        if !waited {
            self.give_back();
        }
    }

    fn see(&self, waiting: &Waiting) {
        let first = waiting.line.first_key_value().map_or(NOBODY, |(_, (level, _))| *level);
        self.first.store(first, Relaxed);
    }
}

impl Comer {
    pub(crate) fn to(line: &'static Line) -> Self {
        Self { line, place: None }
    }

    pub(crate) fn line(&self) -> &'static Line {
        self.line
    }

    /// Whether it may go on: with a processor, which it gives back to the line, unless it is of the
    /// first level. It is in line else.
    pub(crate) fn may_go_on(&mut self, level: usize, now: Instant, waker: &Waker) -> bool {
        if let Some(place) = &self.place {
            let is_called = self.line.is_called(place, waker);
            if is_called {
                self.place = None;
            }
            return is_called;
        }
        self.place = if level == 0 { None } else { self.line.take(level, now, waker).err() };
        self.place.is_none()
    }
}

impl Drop for Comer {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.line.leave(&place);
        }
    }
}

/// Processors of this machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn small_ones_come_before_large_ones_that_came_a_little_earlier() {
        let (line, waker, now) = (Line::with(Some(0)), Waker::noop(), Instant::now());
        let place = |level, milliseconds| line.take(level, now + Duration::from_millis(milliseconds), waker);
        let (large, late, small) = (place(3, 0), place(1, 250), place(1, 150));
        let waiting = line.waiting.lock();
        assert!(small < large && large < late);
        assert_eq!(waiting.line.first_key_value().map(|(place, _)| *place), small.err());
    }
}
