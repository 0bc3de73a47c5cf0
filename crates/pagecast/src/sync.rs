//! The atomics, locks and threads of the pool, exchanged for a schedule explorer's under test.
//!
//! Build with `--cfg pagecast_shuttle` to explore the protocol of frames, page table and loads; see
//! [`crate::cache`]. Statistics and the storage use std's in both builds: nothing in the protocol
//! hangs on them.

use std::io;
use std::time::Duration;

#[cfg(not(pagecast_shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
#[cfg(pagecast_shuttle)]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(pagecast_shuttle))]
pub(crate) use std::sync::atomic;

#[cfg(pagecast_shuttle)]
pub(crate) use explored::{Condvar, Mutex, RwLock, RwLockReadGuard};

/// Starts a thread that nobody waits for.
pub(crate) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(not(pagecast_shuttle))]
    return std::thread::Builder::new().name(name).spawn(work).map(drop);
    #[cfg(pagecast_shuttle)]
    return shuttle::thread::Builder::new().name(name).spawn(work).map(drop);
}

/// Lets others go on for a while. An exploration has no time.
pub(crate) fn sleep(time: Duration) {
    #[cfg(not(pagecast_shuttle))]
    std::thread::sleep(time);
    #[cfg(pagecast_shuttle)]
    {
        let _ = time;
        shuttle::thread::yield_now();
    }
}

/// The explorer's locks in the form of `parking_lot`: a thread that panics fails the whole
/// exploration, so that no lock is ever found poisoned.
#[cfg(pagecast_shuttle)]
mod explored {
    use shuttle::sync;

    pub(crate) struct Mutex<T>(sync::Mutex<T>);
    pub(crate) struct Condvar(sync::Condvar);
    pub(crate) struct RwLock<T>(sync::RwLock<T>);
    pub(crate) use sync::{RwLockReadGuard, RwLockWriteGuard};

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("no thread panicked")
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("no thread panicked")
        }
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().expect("no thread panicked")))
        }

        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            self.0.try_lock().ok().map(|guard| Guard(Some(guard)))
        }
    }

    /// Empty only inside [`Condvar::wait`].
    pub(crate) struct Guard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    impl<T> std::ops::Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("the lock is held")
        }
    }

    impl<T> std::ops::DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("the lock is held")
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            let held = guard.0.take().expect("the lock is held");
            guard.0 = Some(self.0.wait(held).expect("no thread panicked"));
        }

        /// Without a time: what happens when it is over, a test does itself.
        pub(crate) fn wait_for<T>(&self, guard: &mut Guard<'_, T>, _time: std::time::Duration) {
            self.wait(guard);
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// Mistakes that the exploration must catch, switched on one at a time by its tests. In any other
/// build there are none.
#[cfg(pagecast_shuttle)]
pub(crate) mod mistake {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// None of them.
    pub(crate) const NONE: u8 = 0;
    /// A claimed frame stays in its chain under its old page.
    pub(crate) const TAG_KEPT: u8 = 1;
    /// A pin does not look again at whose frame it pinned.
    pub(crate) const NO_RECHECK: u8 = 2;
    /// A failed load leaves its entry, and those who wait sleep on.
    pub(crate) const FAILURE_KEPT: u8 = 3;
    /// Two who take the flag off a page that was brought ahead both believe that it was they.
    pub(crate) const FLAG_TAKEN_TWICE: u8 = 4;
    /// A read without a pin does not look again whether the frame changed hands.
    pub(crate) const NO_VALIDATION: u8 = 5;
    /// Who looks for a frame that is to be retired keeps it to itself.
    pub(crate) const SHED_UNSAID: u8 = 6;
    /// A page that is pinned when its cap wants its frame leaves the cap's ring for good.
    pub(crate) const CAP_FORGOTTEN: u8 = 8;

    /// Who finds no chunk leaves its waker only after others had their chance.
    pub(crate) const WAKER_LATE: u8 = 10;
    /// The turn of beginning loads ends a while after it was seen that there are none.
    pub(crate) const TURN_KEPT: u8 = 11;
    /// A scan that is ready wakes one of those who wait for it.
    pub(crate) const ONE_WOKEN: u8 = 12;
    /// Who waits hears nothing of a chunk that comes back.
    pub(crate) const RETURN_UNTOLD: u8 = 13;
    /// That a page has come is believed without a look whether it is still there.
    pub(crate) const EVENT_BELIEVED: u8 = 14;
    /// Nobody looks again for loads that are held back.
    pub(crate) const NO_CLOCK: u8 = 15;

    /// A frame changes hands while its page is on its way to storage.
    pub(crate) const CLAIM_WHILE_WRITING: u8 = 20;
    /// A page is clean when its write ends, also if it was changed while it was written.
    pub(crate) const CLEARED_LATE: u8 = 21;
    /// A page is had alone although others still read it.
    pub(crate) const NOT_DRAINED: u8 = 22;
    /// Closing first looks which pages are dirty, and then keeps more from becoming so.
    pub(crate) const CLOSED_LATE: u8 = 23;
    /// A file is marked as one that needs a sync before it is written, and not after.
    pub(crate) const MARKED_EARLY: u8 = 24;
    /// A sync that finds nothing to do says so although another one has failed.
    pub(crate) const FAILURE_FORGOTTEN: u8 = 25;

    /// Items are published although their page was loaded since.
    pub(crate) const STALE_PUBLICATION: u8 = 30;
    /// A read of an item does not look again whether its slab changed.
    pub(crate) const NO_ITEM_VALIDATION: u8 = 31;
    /// A page comes, and its items stay in the tuple buffer.
    pub(crate) const ITEMS_KEPT: u8 = 32;
    /// A checkpoint does not look for changes of items without their pages.
    pub(crate) const CHANGES_FORGOTTEN: u8 = 33;
    /// Only one of a page's changed items goes into it.
    pub(crate) const PART_MERGED: u8 = 34;
    /// A checkpoint looks for dirty pages while changed items are on their way into them.
    pub(crate) const LOOKED_AT_ONCE: u8 = 36;

    static ACTIVE: AtomicU8 = AtomicU8::new(NONE);

    #[cfg(test)]
    pub(crate) fn activate(mistake: u8) {
        ACTIVE.store(mistake, Relaxed);
    }

    pub(crate) fn made(mistake: u8) -> bool {
        ACTIVE.load(Relaxed) == mistake
    }
}

/// A step at which the explorer may let another thread run; nothing in any other build.
#[inline]
pub(crate) fn step() {
    #[cfg(pagecast_shuttle)]
    atomic::AtomicU32::new(0).load(atomic::Ordering::SeqCst);
}

/// Runs a statement unless the exploration has made this mistake.
macro_rules! unless_mistaken {
    ($mistake:ident, $right:expr) => {{
        #[cfg(pagecast_shuttle)]
        if !crate::sync::mistake::made(crate::sync::mistake::$mistake) {
            $right
        }
        #[cfg(not(pagecast_shuttle))]
        $right
    }};
}
pub(crate) use unless_mistaken;
