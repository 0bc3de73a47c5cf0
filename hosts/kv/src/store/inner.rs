//! How many pages lead to others. Every operation needs some of them whole, and there are few: a
//! sample of the pages, from which the pool learns how many frames items serve better, may miss
//! them. So the store says how many they are.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::page::{Kind, Node};
use crate::pages::{LATER_THAN_LOG, ROOT};
use crate::{Result, Store};

/// The inner pages. Changed by who has the turn.
#[derive(Default)]
pub(crate) struct Inner {
    now: AtomicU32,
    /// As many as the pool was told.
    told: AtomicU32,
}

impl Inner {
    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.now.load(Relaxed)
    }

    /// A page of one kind becomes one of another.
    pub(crate) fn note(&self, before: Option<Kind>, after: Option<Kind>) {
        let one = |kind| u32::from(kind == Some(Kind::Inner));
        let now = self.now.load(Relaxed) + one(after);
        self.now.store(now.saturating_sub(one(before)), Relaxed);
    }
}

impl Store {
    /// Lets the pool know, if it is news.
    pub(crate) fn keep_inner(&self) {
        let now = self.inner.now.load(Relaxed);
        if self.inner.told.swap(now, Relaxed) != now {
            self.pool.reserve_pages(now);
        }
    }

    /// Counts them as a store is opened, by the pages above their lowest level; no more than the
    /// pool could keep.
    pub(crate) fn count_inner(&self) -> Result<()> {
        let (mut above, mut count) = (vec![ROOT], 0);
        while let Some(block) = above.pop().filter(|_| count < self.pool.frames()) {
            let page = self.pages.pin(block, None)?;
            if self.log.has_lost(page.lsn()) {
                return Err(self.pages.damaged(block, LATER_THAN_LOG));
            }
            let node = Node { bytes: &page };
            if block == ROOT {
                count += u32::from(node.level() > 0);
            }
            if node.level() > 1 {
                count += node.count() as u32;
                let children = (0..node.count()).filter_map(|at| node.child(at));
                above.extend(children.filter(|_| node.level() > 2));
            }
        }
        self.inner.now.store(count, Relaxed);
        self.keep_inner();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use pagecast::TupleOptions;
    use pagecast::storage::{Device, MemoryFiles};
    use pagecast_core::random::Random;

    use super::*;
    use crate::Options;

    #[test]
    fn the_pool_keeps_frames_for_the_inner_pages_there_are() {
        let files = MemoryFiles::new();
        let open = || {
            let options = Options::default().memory(3 << 20).log_size(256 << 10).sync_commits(false);
            let tuples = TupleOptions::default().learn(false);
            Store::open("s", options.tuples(tuples).device(Device::new(files.clone(), None))).unwrap()
        };
        let key = |number: u32| format!("{}{number:06}", "long ".repeat(95)).into_bytes();
        let store = open();
        (0..3_000).for_each(|number| store.put(&key(number * 1_009 % 3_000), &[7; 100]).unwrap());
        let found = store.check().unwrap();
        assert!(found.inner > 50 && store.inner.now.load(Relaxed) == found.inner, "{found}");

        let mut random = Random::new(1);
        (0..20_000).for_each(|_| assert!(store.contains_key(&key(random.below(3_000))).unwrap()));
        let (frames, slabs) = (store.pool().frames(), store.pool().tuple_stats().unwrap().slabs);
        assert!(slabs > frames / 2 && slabs + found.inner + 64 <= frames, "{slabs} slabs of {frames}, {found}");
        drop(store);

        let store = open();
        assert_eq!(store.inner.now.load(Relaxed), found.inner);
        (0..3_000).for_each(|number| assert!(store.delete(&key(number)).unwrap()));
        assert_eq!((store.inner.now.load(Relaxed), store.check().unwrap().inner), (0, 0));
    }
}
