//! Frames that hold no page: those to be filled next, and those that are out of use until the pool
//! grows.
//!
//! The frames in use are the first `count` of all that there is address space for. A frame above is
//! *retired* as soon as nobody has it: its memory goes back to the system, and it waits here. A
//! shrink therefore stops nobody: it lowers the count, retires what is free, takes what is resident
//! without pins, and what is pinned or being filled at that moment is retired when it is given back
//! or, being resident then, by the misses that follow ([`Cache::drain`]).

use pagecast_core::policy::Refusal;
use pagecast_core::{FrameId, PageId};

use super::Cache;
use crate::frame_memory::FrameMemory;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU32};
use crate::sync::{Mutex, unless_mistaken};
use crate::token::Owned;

/// How many frames a miss looks at for pages that a shrink left behind: few beside what a miss
/// costs.
pub(super) const DRAINED_PER_MISS: u32 = 32;

/// How many frames [`FreeFrames::give_back`] withholds at once from those who want one.
const BATCH: usize = 64;

/// Frames without a page.
///
/// Invariants, under the lock: (F1) a frame in `free` is below `count`, one in `retired` is not.
/// (F2) A frame's memory is given back before the frame is retired, by who owns it. (F3) `draining`
/// says whether a frame at or above `count` is not retired.
pub(super) struct FreeFrames {
    lists: Mutex<Lists>,
    /// Frames in use. Changed under the lock; read without it where an old value does no harm.
    count: AtomicU32,
    draining: AtomicBool,
    /// Where [`FreeFrames::above`] goes on.
    cursor: AtomicU32,
    /// All frames.
    most: u32,
}

struct Lists {
    free: Vec<Owned>,
    retired: Vec<Owned>,
}

impl FreeFrames {
    /// All frames of a new pool, of which the first `count` are in use.
    pub(super) fn new(count: u32, most: u32) -> Self {
        let (free, retired) = (0..most).rev().map(Owned::new).partition(|owned| owned.index() < count);
        Self {
            lists: Mutex::new(Lists { free, retired }),
            count: AtomicU32::new(count),
            draining: AtomicBool::new(false),
            cursor: AtomicU32::new(0),
            most,
        }
    }

    /// Frames in use. Relaxed: whoever acts on an old value meets the lock or a claim before it
    /// matters.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Frames in use that hold nothing and that nobody has; frames out of use.
    pub(super) fn idle(&self) -> [u32; 2] {
        let lists = self.lists.lock();
        [&lists.free, &lists.retired].map(|list| list.len() as u32)
    }

    /// A frame to fill.
    pub(super) fn take(&self) -> Option<Owned> {
        self.lists.lock().free.pop()
    }

    /// Takes a frame that holds no page any more.
    pub(super) fn give(&self, mut owned: Owned, memory: &FrameMemory) {
        let mut lists = self.lists.lock();
        if owned.index() < self.count() {
            lists.free.push(owned);
        } else {
            memory.give_back(&mut owned);
            lists.retired.push(owned);
            self.note_draining(&lists);
        }
    }

    /// Changes how many frames are in use, from 1 to all.
    pub(super) fn resize(&self, count: u32, memory: &FrameMemory) {
        let mut lists = self.lists.lock();
        unless_mistaken!(COUNT_LATE, self.count.store(count, Relaxed));
        let Lists { free, retired } = &mut *lists;
        let leaving: Vec<_> = free.extract_if(.., |owned| owned.index() >= count).collect();
        // The lowest on top, as in a new pool.
        free.splice(..0, retired.extract_if(.., |owned| owned.index() < count));
        for mut owned in leaving {
            memory.give_back(&mut owned);
            retired.push(owned);
        }
        self.note_draining(&lists);
        #[cfg(pagecast_shuttle)]
        if crate::sync::mistake::made(crate::sync::mistake::COUNT_LATE) {
            drop(lists);
            self.count.store(count, Relaxed);
        }
    }

    fn note_draining(&self, lists: &Lists) {
        self.draining.store((lists.retired.len() as u32) < self.most - self.count(), Relaxed);
    }

    /// Whether frames above the count are still in somebody's hands. Relaxed: a miss that does not
    /// see it yet leaves the work to the next.
    #[inline]
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Up to `limit` of the frames above the count, going on where the last caller stopped.
    pub(super) fn above(&self, limit: u32) -> impl Iterator<Item = u32> + use<> {
        let count = self.count();
        let above = self.most - count;
        let limit = limit.min(above);
        let start = self.cursor.fetch_add(limit, Relaxed);
        (0..limit).map(move |i| count + start.wrapping_add(i) % above)
    }

    /// Gives the memory of all free frames back to the system, a few at a time, and says how many
    /// there were. They stay free: the system gives zeroed memory when they are filled again.
    pub(super) fn give_back(&self, memory: &FrameMemory) -> u32 {
        let free = self.idle()[0];
        let mut given = 0;
        while given < free {
            let mut batch = {
                let mut lists = self.lists.lock();
                let rest = lists.free.len().saturating_sub(BATCH);
                lists.free.split_off(rest)
            };
            if batch.is_empty() {
                break;
            }
            given += batch.len() as u32;
            batch.iter_mut().for_each(|owned| memory.give_back(owned));
            let mut lists = self.lists.lock();
            let kept = batch.extract_if(.., |owned| owned.index() < self.count());
            // To the bottom, so that each frame has its turn once.
            lists.free.splice(..0, kept);
            lists.retired.append(&mut batch);
            self.note_draining(&lists);
        }
        given
    }
}

impl Cache {
    /// Changes how many frames are in use, from 1 to all that there are, without stopping anybody.
    /// What the pages of frames above were is forgotten; those that are held or dirty leave later.
    /// Says how many are left there.
    pub(crate) fn resize(&self, frames: u32) -> u32 {
        self.policy.resize(frames);
        self.clock.iter().for_each(|clock| clock.resize(frames));
        self.free.resize(frames, &self.memory);
        self.drain(u32::MAX);
        self.resize_slabs();
        (self.memory.frames() - frames).saturating_sub(self.free.idle()[1])
    }

    /// Tells the policy how many samples to draw; whether it draws any.
    pub(crate) fn set_samples(&self, samples: u32) -> bool {
        self.policy.set_samples(samples)
    }

    /// Empties up to `limit` of the frames that are out of use.
    pub(super) fn drain(&self, limit: u32) {
        self.drain_slabs();
        for index in self.free.above(limit) {
            if let Some(page) = self.headers[index as usize].evictable() {
                self.evacuate(index, page);
            }
        }
    }

    /// Takes the page from a frame without asking the policy, and frees the frame, if nobody holds
    /// it. A dirty page is remembered as one to be written.
    pub(super) fn evacuate(&self, index: u32, page: PageId) {
        match self.take_from(index, page) {
            Ok(owned) => {
                self.policy.forget(self, FrameId(index), page);
                self.free.give(owned, &self.memory);
            }
            Err(Refusal::Dirty) => self.want_clean(&[(page, index)]),
            Err(_) => {}
        }
    }

    /// Gives the memory of free frames back to the system; says how many frames it was.
    pub(crate) fn give_back(&self) -> u32 {
        self.free.give_back(&self.memory)
    }
}
