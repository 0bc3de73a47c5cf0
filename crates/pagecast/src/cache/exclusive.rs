//! Having a page alone, to change it.
//!
//! Whoever has a pin may ask for more. From then on the page counts as being loaded, by that
//! caller: others who ask for it join that load, and get their pins when the page is given back, as
//! those who wait for a page from storage do. The caller waits until the pins of others are gone;
//! nobody adds one meanwhile, so that readers cannot starve the caller. Two who hold a pin and both
//! want the page alone would wait for each other: the second one gives up its pin and joins the
//! first one's load.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use pagecast_core::PageId;
use pagecast_core::policy::Access;

use super::load::{Load, Outcome, wake};
use super::{Cache, Held, Owned, Waiter};

/// What became of the wish to have a page alone.
pub(crate) enum Upgrade {
    Done(Exclusive),
    /// Others still read the page.
    Draining(Draining),
    /// Somebody else wants it or has it alone; our pin is gone, to be had again from this.
    Busy(Waiter),
    /// As many loads are in flight as there may be; our pin is gone.
    Full,
}

/// A page that is ours alone, until this goes.
pub(crate) struct Exclusive {
    owned: Owned,
    wish: Wish,
}

/// The load as which an exclusive page appears to others. Ends when this goes.
struct Wish {
    cache: Arc<Cache>,
    load: Arc<Load>,
    index: u32,
    /// The first and the last log record of what was changed.
    changed: Option<(u64, u64)>,
    /// Whether the page is ours, and not only wished for.
    is_owned: bool,
    ended: bool,
}

impl Cache {
    /// Asks for the page of a pin alone.
    pub(crate) fn upgrade(self: &Arc<Self>, held: Held, access: Access) -> Upgrade {
        let index = held.index();
        let header = &self.headers[index as usize];
        let page = header.page();
        let mut shard = self.table.shard(page).lock();
        if let Some(load) = shard.get(&page) {
            let waiter = load.join(self);
            drop(shard);
            self.unpin(held);
            return Upgrade::Busy(waiter);
        }
        if self.loads.fetch_add(1, Relaxed) >= self.max_loads {
            self.ended_one();
            drop(shard);
            self.unpin(held);
            return Upgrade::Full;
        }
        let load = Load::new(access);
        shard.insert(page, load.clone());
        let mut wish = Wish { cache: self.clone(), load, index, changed: None, is_owned: false, ended: false };
        let owned = header.exclude(held);
        drop(shard);
        wish.is_owned = owned.is_some();
        match owned {
            Some(owned) => Upgrade::Done(Exclusive { wish, owned }),
            None => Upgrade::Draining(Draining(Some(wish))),
        }
    }

    /// The last pin beside that of somebody who wants the page alone is gone.
    #[cold]
    pub(super) fn wake_drained(&self, index: u32) {
        let waker = {
            let mut draining = self.draining.lock();
            let place = draining.iter().position(|&(frame, _)| frame == index);
            place.map(|place| draining.swap_remove(place).1)
        };
        // None if the caller has not gone to sleep yet: it looks at the pins after it has left its
        // waker.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Exclusive {
    pub(crate) fn page(&self) -> PageId {
        self.wish.load.access.page
    }

    /// The frame that the page is in.
    pub(crate) fn frame(&self) -> u32 {
        self.owned.index()
    }

    /// The page's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.wish.cache.headers[self.owned.index() as usize].len() as usize;
        &self.wish.cache.memory.read_owned(&self.owned)[..len]
    }

    /// The page's bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.wish.cache.headers[self.owned.index() as usize].len() as usize;
        &mut self.wish.cache.memory.write(&mut self.owned)[..len]
    }

    /// The log record of the page's last change.
    pub(crate) fn lsn(&self) -> u64 {
        let before = self.wish.cache.headers[self.owned.index() as usize].lsn();
        self.wish.changed.map_or(before, |(_, last)| last.max(before))
    }

    /// The page was changed, as log record `lsn` says.
    pub(crate) fn changed(&mut self, lsn: u64) {
        let (first, last) = self.wish.changed.unwrap_or((lsn, lsn));
        self.wish.changed = Some((first.min(lsn), last.max(lsn)));
    }

    /// Gives the page back and keeps a pin.
    pub(crate) fn downgrade(mut self) -> Option<Held> {
        self.wish.end(1)
    }
}

impl Wish {
    /// Lets others have the page, those who wait first, and the caller if it wants a pin.
    fn end(&mut self, own: u32) -> Option<Held> {
        self.ended = true;
        let page = self.load.access.page;
        let cache = self.cache.clone();
        let header = &cache.headers[self.index as usize];
        let mut mine = None;
        let mut shard = cache.table.shard(page).lock();
        let wakers = self.load.end(|waiters, _| {
            let mut pins = header.readmit(self.index, waiters + own, self.is_owned, self.changed);
            if own > 0 {
                mine = pins.next();
            }
            let pins = pins.collect();
            cache.ended(&self.load);
            Outcome::Loaded(pins)
        });
        shard.remove(&page);
        drop(shard);
        wake(wakers);
        mine
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        if !self.ended {
            // Whoever has the page waits for nobody.
            if !self.is_owned {
                self.cache.draining.lock().retain(|&(frame, _)| frame != self.index);
            }
            self.end(0);
        }
    }
}

/// The wait for the pins of others to go. A future; dropped early, it lets others have the page
/// again.
pub(crate) struct Draining(Option<Wish>);

impl Future for Draining {
    type Output = Exclusive;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Exclusive> {
        let Some(wish) = &self.0 else { return Poll::Pending };
        let index = wish.index;
        {
            let mut draining = wish.cache.draining.lock();
            draining.retain(|&(frame, _)| frame != index);
            draining.push((index, context.waker().clone()));
        }
        // After the waker is there: a pin that goes before is seen here, one that goes later finds
        // the waker.
        let owned = wish.cache.headers[index as usize].drained(index);
        match owned.and_then(|owned| Some((owned, self.0.take()?))) {
            Some((owned, mut wish)) => {
                // Nobody is to wake whoever has it.
                wish.cache.draining.lock().retain(|&(frame, _)| frame != index);
                wish.is_owned = true;
                Poll::Ready(Exclusive { wish, owned })
            }
            None => Poll::Pending,
        }
    }
}
