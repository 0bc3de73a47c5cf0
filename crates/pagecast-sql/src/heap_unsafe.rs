//! How much of the heap is in use.
//!
//! DataFusion counts what its operators say they keep, and some say too little: an `array_agg` of
//! texts says 16 bytes a text. So a program may have its heap counted where it is given out.
//!
//! Threads count in shards, each in a cache line of its own: two that meet in one count rightly,
//! and slower. A sum over all shards may miss what happens meanwhile, which is as if it had been
//! taken a moment earlier. Cost: an addition for each call of the allocator.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

const SHARDS: usize = 64;

/// Larger blocks are the system's at once when they are freed: at most what glibc takes, and at
/// least what a page of a file or a batch becomes, also in a small budget.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LEAST_KEPT: i32 = 1 << 20;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MOST_KEPT: i32 = 32 << 20;

#[repr(align(64))]
struct Shard(AtomicIsize);

static HEAP: [Shard; SHARDS] = [const { Shard(AtomicIsize::new(0)) }; SHARDS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Which shard is the thread's. It needs no destructor, so that it can be asked for to the
    /// thread's last breath.
    static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
    /// What the thread has taken, less what it has given back.
    static NET: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted: a program makes it the `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct CountedHeap;

fn count(bytes: isize) {
    NET.with(|net| net.set(net.get().wrapping_add(bytes)));
    let shard = SHARD.with(|shard| {
        shard.get().unwrap_or_else(|| {
            let new = THREADS.fetch_add(1, Relaxed) % SHARDS;
            shard.set(Some(new));
            new
        })
    });
    // Nobody concludes from the count what another thread wrote, so that no order is needed.
    HEAP[shard].0.fetch_add(bytes, Relaxed);
}

/// Bytes in use; 0 in a program whose heap is not counted.
pub(crate) fn in_use() -> u64 {
    let sum = HEAP.iter().map(|shard| shard.0.load(Relaxed)).sum::<isize>();
    u64::try_from(sum).unwrap_or(0)
}

// SAFETY: each call goes on to the system's allocator as it came, and its answer goes back as it
// is. What is counted beside allocates nothing and does not unwind.
unsafe impl GlobalAlloc for CountedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            count(layout.size() as isize);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            count(layout.size() as isize);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator with this layout, for it came from us.
        unsafe { System.dealloc(block, layout) };
        count(-(layout.size() as isize));
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; the caller vouches for the new size.
        let moved = unsafe { System.realloc(block, layout, size) };
        if !moved.is_null() {
            count(size as isize - layout.size() as isize);
        }
        moved
    }
}

/// From now on the allocator keeps about so many bytes of what is freed, where it can be told so.
/// Of itself glibc maps each block of a page's size anew when it is filled, which took a tenth of
/// the processor's time of scans.
pub(crate) fn keep_freed(bytes: u64) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: it takes numbers, and any thread may call it.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes.clamp(LEAST_KEPT, MOST_KEPT)) };
        // SAFETY: as above.
        let _ = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, bytes) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = bytes;
}

/// Bytes in memory that are no file's, where the system says so. Pages are taken to have 4 KiB:
/// where they have more, less is known.
pub(crate) fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = pages.split(' ').skip(1).map_while(|pages| pages.parse::<u64>().ok());
    let (all, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    all.saturating_sub(shared) << 12
}

/// Gives free pages of the heap back to the system, where the allocator keeps them until asked.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number, and any thread may call it.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Bytes of the heap that somebody else has for as long as this lives: they are no session's.
#[derive(Debug)]
pub struct HandedOver(usize);

impl HandedOver {
    /// Of a program whose heap is not counted, nothing.
    pub fn new(bytes: usize) -> Self {
        count(-(bytes as isize));
        Self(bytes)
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        count(self.0 as isize);
    }
}

/// What this thread has taken, less what it has given back. Only differences mean something.
pub(crate) fn net_of_thread() -> isize {
    NET.with(Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static COUNTED: CountedHeap = CountedHeap;

    #[test]
    fn what_other_threads_give_back_is_counted() {
        const LARGE: u64 = 64 << 20;
        let before = in_use();
        let mut block = vec![1_u8; LARGE as usize];
        assert!(in_use() >= before + LARGE / 2);
        block.resize(2 * LARGE as usize, 2);
        assert!(in_use() >= before + LARGE + LARGE / 2);
        let freed = std::thread::spawn(move || drop(block)).join();
        // Other tests use some meanwhile.
        assert!(freed.is_ok() && in_use() < before + LARGE);
    }
}
