//! Pages that are brought before anybody asks for them: flagged until their first use, and careful
//! whom they displace.
//!
//! A page that is brought ahead carries a flag, on its load first and then on its frame, until one
//! of these comes:
//!
//! | what comes first | counts as |
//! |---|---|
//! | a request finds it resident | useful |
//! | a request finds it on its way, and waits | late |
//! | its frame is claimed, its scan gives it up, or its read fails | wasted |
//!
//! Whoever takes the flag off counts it, once, by an exchange (I7). The first use of a flagged page
//! is the use that the policy admitted it for, and is not told to the policy as a second one.
//!
//! Which pages may leave for a page ahead, and how long a flagged page stays, is in `evict.rs`.
//!
//! Cost: a request for a resident page reads one more word of the frame's line.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::Access;

use super::Cache;
use super::frame::Header;
use super::load::{Load, Loading, Waiter};
use super::table::InFlight;
use crate::stats::Counter;
use crate::token::Owned;

/// What became of the wish to bring a page ahead.
pub(crate) enum Ahead {
    /// Its load is under way; whether it has its frame, the caller knows.
    Started(Loading),
    /// It is resident or on its way already.
    There,
    /// No frame could be had that nobody wants, or too many loads are under way.
    NoRoom,
}

impl Cache {
    /// Begins to bring a page that nobody has asked for.
    ///
    /// The frame comes first: whoever joins the load finds one that will be filled, and is not sent
    /// past the pool because a page ahead may not displace what a page in need may.
    pub(crate) fn bring_ahead(self: &Arc<Self>, access: Access, oracle: &dyn Oracle) -> Ahead {
        let page = access.page;
        if self.is_there(page, &self.table.shard(page).lock()) {
            return Ahead::There;
        }
        let Some(owned) = self.frame_ahead(&access, oracle) else { return Ahead::NoRoom };
        self.enter_with(owned, Load::ahead(access), |_| self.put_on())
    }

    /// Begins to bring a page that nobody has asked for, but that somebody waits for: the load
    /// looks for its frame as any other ([`Cache::place`]).
    pub(crate) fn bring_at_once(self: &Arc<Self>, access: Access) -> Ahead {
        self.enter(Load::ahead(access), |_| self.put_on())
    }

    /// Begins to bring a page into a free frame, and displaces nobody for it. The waiter is the
    /// caller's, who learns from it when the page is there.
    pub(crate) fn bring_into_free(self: &Arc<Self>, access: Access) -> (Ahead, Option<Waiter>) {
        let free = if self.is_at_cap(&access) { None } else { self.free.take() };
        let Some(owned) = free else { return (Ahead::NoRoom, None) };
        let mut waiter = None;
        let ahead = self.enter_with(owned, Load::new(access), |load| waiter = Some(load.join(self)));
        (ahead, waiter)
    }

    /// Begins to bring a page into a free frame, because its bytes come along anyway: nobody has
    /// asked for it, and nobody waits.
    pub(super) fn bring_along(self: &Arc<Self>, access: Access) -> Option<Loading> {
        let owned = if self.is_at_cap(&access) { None } else { self.free.take() }?;
        match self.enter_with(owned, Load::new(access), |_| {}) {
            Ahead::Started(loading) => Some(loading),
            Ahead::There | Ahead::NoRoom => None,
        }
    }

    pub(super) fn is_there(&self, page: PageId, shard: &InFlight) -> bool {
        shard.contains_key(&page) || self.table.find_locked(&self.headers, page, shard).is_some()
    }

    /// Enters a load that has its frame, as [`enter`](Self::enter).
    fn enter_with(self: &Arc<Self>, owned: Owned, load: Arc<Load>, entering: impl FnOnce(&Arc<Load>)) -> Ahead {
        match self.enter(load, entering) {
            Ahead::Started(mut loading) => {
                loading.place(owned);
                Ahead::Started(loading)
            }
            not_entered => {
                self.free.give(owned, &self.memory);
                not_entered
            }
        }
    }

    /// Enters a load, unless its page is there or too many loads are under way. `entering` runs
    /// before anybody can find it.
    fn enter(self: &Arc<Self>, load: Arc<Load>, entering: impl FnOnce(&Arc<Load>)) -> Ahead {
        let page = load.access.page;
        let mut shard = self.table.shard(page).lock();
        if self.is_there(page, &shard) {
            return Ahead::There;
        }
        if self.loads.fetch_add(1, Relaxed) >= self.max_loads {
            self.ended_one();
            return Ahead::NoRoom;
        }
        entering(&load);
        shard.insert(page, load.clone());
        self.note_load(page);
        drop(shard);
        Ahead::Started(Loading::new(self.clone(), load))
    }

    /// A page ahead takes no frame from the pages of its own cap: they were brought for the same
    /// purpose.
    fn frame_ahead(&self, access: &Access, oracle: &dyn Oracle) -> Option<Owned> {
        if self.is_at_cap(access) {
            return None;
        }
        self.free.take().or_else(|| self.evict_unwanted(access, oracle))
    }

    /// Takes the flag off a page that nobody has used. The page stays, as any other; a load goes
    /// on.
    pub(crate) fn give_up_ahead(&self, page: PageId) {
        let shard = self.table.shard(page).lock();
        if let Some(frame) = self.table.find_locked(&self.headers, page, &shard) {
            self.unflag(&self.headers[frame as usize], Counter::PrefetchWasted);
        } else if let Some(load) = shard.get(&page)
            && load.unflag()
        {
            self.take_off(Counter::PrefetchWasted);
        }
    }

    /// Whether the page has been brought ahead, or is about to be, and nobody has used it.
    pub(crate) fn is_ahead(&self, page: PageId) -> bool {
        let shard = self.table.shard(page).lock();
        match self.table.find_locked(&self.headers, page, &shard) {
            Some(frame) => self.headers[frame as usize].is_flagged(),
            None => shard.get(&page).is_some_and(|load| load.is_flagged()),
        }
    }

    /// Pages that were brought ahead, or are about to be, and that nobody has used.
    pub(crate) fn ahead(&self) -> u32 {
        self.flagged.load(Relaxed)
    }

    /// Takes the flag off a frame, if it has one, and counts it. Whether it had one.
    pub(super) fn unflag(&self, header: &Header, as_what: Counter) -> bool {
        let flagged = header.is_flagged() && header.unflag();
        if flagged {
            self.take_off(as_what);
        }
        flagged
    }

    /// Counts one flag that is put on.
    fn put_on(&self) {
        self.flagged.fetch_add(1, Relaxed);
        self.statistics.add(Counter::Prefetched, 1);
    }

    /// Counts one flag that was taken off.
    pub(super) fn take_off(&self, as_what: Counter) {
        self.statistics.add(as_what, 1);
        self.flagged.fetch_sub(1, Relaxed);
    }
}
