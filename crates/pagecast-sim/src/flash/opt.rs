//! Belady's MIN on flash: the fewest reads from the store under a given pool, in as few writes.
//!
//! What memory misses and gives up is noted first, and judged at the end, when the next miss of
//! each page is known. A copy whose page memory has, too, makes room first, since it can be had
//! again for a write. Else the page goes that is missed last, which may be the one that comes. A
//! write counts when its copy is first read: one that leaves unread was never worth making.

use super::{FlashCounts, Level};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::Access;
use std::collections::BTreeSet;

enum Event {
    Missed(PageId),
    GaveUp(PageId, bool),
}

pub(super) struct Opt {
    slots: usize,
    events: Vec<Event>,
}

impl Opt {
    pub(super) fn new(slots: u32) -> Self {
        Self { slots: slots as usize, events: Vec::new() }
    }
}

impl Level for Opt {
    fn missed(&mut self, access: &Access) -> bool {
        self.events.push(Event::Missed(access.page));
        false
    }

    fn gave_up(&mut self, page: PageId, is_dirty: bool, _incoming: &Access, _oracle: &dyn Oracle) -> bool {
        self.events.push(Event::GaveUp(page, is_dirty));
        false
    }

    fn finish(&mut self, _counts: FlashCounts) -> FlashCounts {
        let next = next_misses(&self.events);
        let mut content = Content::default();
        let mut counts = FlashCounts::default();
        for (event, next) in self.events.iter().zip(next) {
            match *event {
                Event::Missed(page) => {
                    if let Some(copy) = content.take(page) {
                        counts.hits += 1;
                        counts.written += u64::from(!copy.is_paid);
                        content.put(page, Copy { next, is_in_memory: true, is_paid: true });
                    }
                }
                Event::GaveUp(page, is_dirty) => {
                    let kept = content.take(page).is_some_and(|copy| copy.is_paid && !is_dirty);
                    content.put(page, Copy { next, is_in_memory: false, is_paid: kept });
                }
            }
            content.bound(self.slots);
        }
        counts
    }
}

/// For each event, the number of the miss of its page that follows; [`NEVER`] if none does.
fn next_misses(events: &[Event]) -> Vec<u32> {
    let mut ahead: HashMap<PageId, u32, FixedState> = HashMap::default();
    let mut next = vec![NEVER; events.len()];
    for (at, event) in events.iter().enumerate().rev() {
        let page = match event {
            Event::Missed(page) | Event::GaveUp(page, _) => *page,
        };
        next[at] = ahead.get(&page).copied().unwrap_or(NEVER);
        if matches!(event, Event::Missed(_)) {
            ahead.insert(page, at as u32);
        }
    }
    next
}

const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Copy {
    /// When memory misses the page next.
    next: u32,
    is_in_memory: bool,
    /// Whether its write was counted.
    is_paid: bool,
}

#[derive(Default)]
struct Content {
    copies: HashMap<PageId, Copy, FixedState>,
    /// The next to leave last.
    order: BTreeSet<(bool, u32, PageId)>,
}

impl Content {
    fn take(&mut self, page: PageId) -> Option<Copy> {
        let copy = self.copies.remove(&page)?;
        self.order.remove(&(copy.is_in_memory, copy.next, page));
        Some(copy)
    }

    fn put(&mut self, page: PageId, copy: Copy) {
        if copy.next != NEVER {
            self.copies.insert(page, copy);
            self.order.insert((copy.is_in_memory, copy.next, page));
        }
    }

    fn bound(&mut self, slots: usize) {
        while self.copies.len() > slots
            && let Some((_, _, page)) = self.order.pop_last()
        {
            self.copies.remove(&page);
        }
    }
}
