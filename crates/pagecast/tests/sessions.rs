//! Sessions: the same hits as without, their own counts, fewer locks, and copies without a pin.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{Batching, PolicySpec, Pool, PoolOptions, Relation, Session};

const PAGE: u32 = 4096;

/// Every byte of a page says which page it is.
fn table(pages: u32, tail: usize) -> Device {
    let files = MemoryFiles::new();
    let mut bytes: Vec<u8> = (0..pages).flat_map(|block| vec![block as u8; PAGE as usize]).collect();
    bytes.truncate(bytes.len() - tail);
    files.write("table", bytes);
    Device::new(files, None)
}

fn pool(policy: &str, batching: Batching, memory: u64, device: Device) -> (Pool, Relation) {
    let policy = PolicySpec::parse(policy).unwrap();
    let pool = Pool::new(
        PoolOptions::default().memory(memory).page_size(PAGE).policy(policy).batching(batching).device(device),
    );
    let pool = pool.unwrap();
    let table = pool.open("table".as_ref()).unwrap();
    (pool, table)
}

fn may_change_threads<F: Future + Send>(future: F) -> F {
    future
}

/// Requests of which some come back often, some once, and some after others have pushed them out.
fn requests(pages: u32) -> impl Iterator<Item = u32> {
    (0..20_000u32).map(move |i| match i % 5 {
        0 | 1 => i * 7 % (pages / 10),
        2 => i / 5 % pages,
        _ => (i.wrapping_mul(2_654_435_761) >> 16) & 0xff,
    })
}

#[test]
fn one_session_hits_what_plain_requests_hit() {
    let device = table(3000, 0);
    for policy in ["2q", "lru", "lirs", "arc", "lru-k", "w-tinylfu", "clock", "sieve"] {
        let frames = pool(policy, Batching::OFF, 4 << 20, device.clone()).0.frames();
        let count = |batching, sessions: bool| {
            // Queues take some of the memory: a little more gives as many frames.
            let sizes = (0..20).map(|step| (4 << 20) + step * 2048);
            let mut pools = sizes.map(|memory| pool(policy, batching, memory, device.clone()));
            let (pool, table) = pools.find(|(pool, _)| pool.frames() == frames).unwrap();
            let mut session = pool.session();
            for block in requests(3000) {
                let pin = if sessions { session.pin(&table, block, None) } else { table.pin(block, None) };
                assert_eq!(pin.unwrap()[0], block as u8);
            }
            drop(session);
            let stats = pool.stats();
            assert_eq!(stats.requests, 20_000);
            (stats.hits, stats.loads, stats.evictions)
        };
        let plain = count(Batching::OFF, false);
        assert!(plain.2 > 1_000, "{policy} had to evict");
        assert_eq!(count(Batching::default(), true), plain, "{policy} in a session");
        assert_eq!(count(Batching { queue: 7, prefetch: false }, true), plain, "{policy} with another queue");
        assert_eq!(count(Batching::default(), false), plain, "{policy} without a session");
    }
}

#[test]
fn hits_only_take_the_lock_once_for_half_a_queue() {
    let (pool, table) = pool("2q", Batching::default(), 32 << 20, table(4000, 0));
    let mut session = pool.session();
    (0..4000).for_each(|block| drop(session.pin(&table, block, None).unwrap()));
    let before = pool.stats();
    for block in (0..4000).cycle().take(100_000) {
        drop(session.pin(&table, block, None).unwrap());
    }
    let after = pool.stats();
    assert_eq!(after.hits - before.hits, 100_000);
    assert_eq!(after.policy_lock.acquisitions - before.policy_lock.acquisitions, 100_000 / 32);
    assert_eq!(after.policy_lock.dropped, 0);
}

#[test]
fn counts_of_sessions_are_the_pools_during_and_after() {
    let (pool, table) = pool("lru", Batching::default(), 4 << 20, table(100, 0));
    let visit = |session: &mut Session<'_>| (0..50).for_each(|block| drop(session.pin(&table, block, None).unwrap()));
    let (mut first, mut second) = (pool.session(), pool.session());
    visit(&mut first);
    visit(&mut second);
    assert_eq!((first.stats().requests, first.stats().hits), (50, 0));
    assert_eq!((second.stats().requests, second.stats().hits), (50, 50));
    assert_eq!((pool.stats().requests, pool.stats().hits), (100, 50));
    drop((first, second));
    assert_eq!((pool.stats().requests, pool.stats().hits), (100, 50));
    let locks = pool.stats().policy_lock;
    assert_eq!(locks.applied, 50, "a session tells of its last hits when it ends");
}

#[test]
fn a_session_goes_from_thread_to_thread_and_its_pins_outlive_it() {
    let (pool, table) = pool("2q", Batching::default(), 4 << 20, table(100, 0));
    let mut session = pool.session();
    drop(session.pin(&table, 3, None).unwrap());
    let work = || {
        let first = session.pin(&table, 3, None).unwrap();
        (session, first)
    };
    let (mut session, first) = std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    let second = session.read_blocking(&table, &[0..10, 8192..8200], None).unwrap();
    drop(session);
    assert_eq!((first[0], second.data[1][0]), (3, 2));
}

#[test]
fn relations_of_another_pool_are_read_as_without_the_session() {
    let device = table(1000, 0);
    let (pool, table) = pool("2q", Batching::default(), 1 << 20, device.clone());
    let (other, elsewhere) = self::pool("2q", Batching::default(), 1 << 20, device);
    let mut session = pool.session();
    // Often enough that a queue would be applied, and beyond the frames that would be evicted.
    for block in (0..1000).chain((0..50).cycle().take(1000)) {
        assert_eq!(session.pin(&elsewhere, block, None).unwrap()[0], block as u8);
    }
    let read = session.read_blocking(&elsewhere, &[5000..5010, 0..4], None).unwrap();
    assert_eq!((&read.data[0][..], &read.data[1][..]), (&[1; 10][..], &[0; 4][..]));
    let polled = {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(may_change_threads(session.pin_async(&elsewhere, 49, None))).poll(&mut context).is_ready()
    };
    assert!(polled, "it was just pinned");
    assert_eq!(session.try_copy(&elsewhere, 49, 0, &mut [0; 8], None), None);

    assert_eq!((session.stats().requests, pool.stats().requests), (0, 0));
    assert_eq!(other.stats().requests, 2003);
    // Its own pool hears of its own hits only.
    for block in (0..1000).chain((0..50).cycle().take(1000)) {
        assert_eq!(session.pin(&table, block, None).unwrap()[0], block as u8);
    }
    drop(session);
    let stats = pool.stats();
    assert_eq!((stats.requests, stats.policy_lock.applied), (2000, stats.hits));
    assert_eq!((pool.pinned(), other.pinned()), (0, 0));
}

#[test]
fn a_copy_without_a_pin_has_the_pages_bytes_up_to_its_end() {
    let (pool, table) = pool("clock", Batching::default(), 4 << 20, table(3, 96));
    let mut session = pool.session();
    let mut bytes = [9; 200];
    assert_eq!(session.try_copy(&table, 2, 0, &mut bytes, None), None, "the page is not resident");
    drop(session.pin(&table, 2, None).unwrap());
    for (offset, expected) in [(0, 200), (3, 200), (3801, 199), (4000, 0), (4096, 0), (u32::MAX, 0)] {
        bytes.fill(9);
        assert_eq!(session.try_copy(&table, 2, offset, &mut bytes, None), Some(expected), "offset {offset}");
        assert!(bytes[..expected].iter().all(|&byte| byte == 2) && bytes[expected..].iter().all(|&byte| byte == 9));
    }
    assert_eq!(session.try_copy(&table, 3, 0, &mut bytes, None), None, "there is no such page");
    assert_eq!(session.stats().hits, 6, "a copy is a hit");
}

#[test]
fn copies_beside_evictions_are_of_one_page() {
    let (pool, table) = pool("clock(max=1,init=0)", Batching::default(), 1 << 18, table(200, 0));
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (pool, table) = (&pool, &table);
            scope.spawn(move || {
                let mut session = pool.session();
                let (mut bytes, mut copies) = ([0; 4096], 0);
                for i in 0..20_000u32 {
                    let block = (i * (thread + 1)) % 60;
                    if session.try_copy(table, block, 0, &mut bytes, None) == Some(4096) {
                        assert!(bytes.iter().all(|&byte| byte == block as u8), "a copy of more than page {block}");
                        copies += 1;
                    } else if let Ok(pin) = session.pin(table, block, None) {
                        assert_eq!(pin[4095], block as u8);
                    }
                }
                assert!(copies > 0);
            });
        }
    });
}
