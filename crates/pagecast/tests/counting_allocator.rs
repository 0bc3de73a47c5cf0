//! What a pool takes from the allocator, policy and ghosts included, is what it says it takes.
//!
//! Alone in its binary, because it counts every allocation of the process.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{FixedRows, PolicySpec, Pool, PoolOptions, TupleId, TupleOptions, policy};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the bytes that are out and of their peak.
struct Counting;

// SAFETY: every call goes to the system's allocator with its own arguments; counting touches no
// memory but the counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PAGE: u32 = 4096;

/// Bytes that are not the pool's: its threads' names and handles, and the one pin and waiter that
/// is under way.
const OTHERS: u64 = 32 << 10;

#[test]
fn a_pool_takes_no_more_than_it_says_under_any_policy() {
    for name in policy::names().filter(|&name| name != "opt") {
        take_no_more_than_said(name, None);
    }
    // What is known of items, and the models of the pool that learn.
    for name in ["pbm", "lru"] {
        take_no_more_than_said(name, Some(TupleOptions::default()));
        take_no_more_than_said(name, Some(TupleOptions::default().learn(false)));
    }
}

fn take_no_more_than_said(name: &str, tuples: Option<TupleOptions>) {
    let files = MemoryFiles::new();
    files.write("table", vec![1; 6000 * PAGE as usize]);
    let device = Device::new(files.clone(), None);
    let policy = PolicySpec::parse(name).unwrap();
    let options = PoolOptions::default().memory(4 << 20).page_size(PAGE).policy(policy).device(device).tuples(tuples);
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let pool = Pool::new(options).unwrap();
    let table = pool.open("table".as_ref()).unwrap();
    let rows = pool.tuples(&table, FixedRows { first: 0, row: 64 }).unwrap();
    // Some pages often, all of them a few times: resident lists and ghosts fill up.
    for round in 0..8_000u32 {
        let block = if round % 3 == 0 { round % 400 } else { round * 7919 % table.pages() };
        assert_eq!(table.pin(block, None).unwrap()[0], 1);
        rows.read(TupleId { block: round * 31 % 2000, item: 3 }, &mut [0; 64]).unwrap();
    }
    assert!(pool.stats().evictions > 0);
    let (taken, said) = ((PEAK.load(Relaxed) - before) as u64, pool.memory());
    // The frames are not from the allocator.
    let counted = said.total - said.frames;
    println!("{name:12} said {counted:7} took {taken:7}");
    assert!(taken <= counted + OTHERS, "{name} took {taken} bytes and said {counted}");
    drop((table, pool));
}
