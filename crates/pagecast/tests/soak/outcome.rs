//! The end of a run: that it comes, and what is left then.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use pagecast::Pool;

use super::{COUNTING_ITEM, FILES, ITEM, MAX_MEMORY, MIN_MEMORY, PAGE, PAGES, Soak, verify};

/// How long after its end a run may take to come to rest; then it stands still.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a session does when it is over, and a number above all requests.
pub(super) const OVER: u32 = 99;

/// Ends the process and says what everybody does, if the answer does not go in time. A run that
/// stands still would otherwise say nothing but that it lasts.
pub(super) fn watch(pool: Pool, doing: Arc<Vec<AtomicU32>>, length: Duration) -> Sender<()> {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(length + PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let doing: Vec<_> = doing.iter().map(|number| number.load(Relaxed)).collect();
            eprintln!("the run stands still; what each session does, {OVER} if it is over: {doing:?}");
            eprintln!("{:#?}", pool.snapshot());
            std::process::abort();
        }
    });
    done
}

#[cfg(target_os = "linux")]
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn resident_bytes() -> Option<u64> {
    None
}

/// The number that a page counts, in both of its places.
pub(super) fn counter(page: &[u8]) -> u64 {
    assert_eq!(page[..8], page[2048..2056], "a page is half changed");
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

/// Waits for the loads of those who went away.
pub(super) fn settle(pool: &Pool) {
    let until = Instant::now() + Duration::from_secs(60);
    while pool.snapshot().frames.loading > 0 {
        assert!(Instant::now() < until, "loads are left that nobody ends: {:?}", pool.snapshot().frames);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The pool is as good as new: no pin, nothing lost, and every page of every file can be read.
pub(super) fn after(soak: &Soak) {
    let pool = &soak.pool;
    assert_eq!(pool.pinned(), 0, "a pin has leaked");
    for memory in [MAX_MEMORY, MIN_MEMORY, MAX_MEMORY] {
        assert_eq!(pool.resize(memory).unwrap().held, 0, "a frame out of use is held by nobody");
        pool.check();
        for file in 0..FILES {
            let relation = soak.open(file).relation().clone();
            for block in 0..PAGES {
                verify(&relation.pin(block, None).unwrap(), file, block);
            }
        }
        settle(pool);
        pool.check();
    }
    assert!(pool.scans().is_empty(), "a scan is left");
    pool.close().unwrap();
    assert_eq!(pool.dirty(), 0);
    let file = soak.files.read(Path::new("counters")).unwrap();
    for (page, count) in file.chunks(PAGE as usize).zip(&soak.counts) {
        assert_eq!(counter(page), count.load(Relaxed), "a change did not reach the file");
    }
    for (page, count) in file.chunks(PAGE as usize).zip(&soak.item_counts) {
        let item = &page[COUNTING_ITEM as usize * ITEM..][..ITEM];
        assert_eq!(*item, count.lock().unwrap().to_le_bytes().repeat(ITEM / 8), "a change did not reach the file");
    }
}
