//! Explores schedules of load, claim and pin: `RUSTFLAGS="--cfg pagecast_shuttle" cargo test -p
//! pagecast exploration`.
//!
//! A page's bytes are its block number, written in two halves with a chance for other threads in
//! between, and read the same way: a frame that is filled or changes hands under a pin shows. When
//! all threads are done the invariants of [`Cache`] are checked in full. The mistakes of
//! [`crate::sync::mistake`] are then made on purpose, and each must be found by the exploration
//! that finds nothing otherwise.
//!
//! | what meets what | test |
//! |---|---|
//! | concurrent misses on one page | `concurrent_misses_share_frames`, `a_failing_load_wakes_all_and_leaves_nothing` |
//! | eviction against pin | `concurrent_misses_share_frames` (`hit_while_the_frame_moves`) |
//! | write-back against a new write | `writes::write_back_and_new_changes_lose_nothing` |
//! | resize against pin | `the_pool_is_resized_while_it_is_read` |
//! | closing against everything | `writes::closing_is_after_all_changes_or_before` |
//! | caps and reserves against pins, loads and resizes | `shares::caps_hold_under_pins_loads_and_resizes`, `shares::kept_pages_stay_and_are_counted` |
//! | items without their pages against changes, evictions and resizes | `tuples::items_never_go_back` |
//! | checkpoints against writes, syncs, loads and changes of items | `crate::pool::exploration` |
//! | queued hits against evictions | `queued_hits_of_sessions_are_applied_or_dropped` |

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use pagecast_core::cooperation::CooperationConfig;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Access, Batching, PolicySpec};
use pagecast_core::{PageId, RelationId};
use shuttle::thread;

use super::{Ahead, Anyone, Cache, Client, Loading, Placement, Request, SessionState, Waiter};
use crate::PoolError;
use crate::blocking::block_on;
use crate::cooperation::Cooperation;
use crate::frame_memory::FrameMemory;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::mistake;
use crate::token::Held;

mod shares;
mod tuples;
mod writes;

pub(crate) const RELATION: RelationId = RelationId(0);
const PAGE_BYTES: usize = 8;
/// Short, so that a queue is tried at each hit and full at every second.
const QUEUE: Batching = Batching { queue: 2, prefetch: true };

fn cache(policy: &str, frames: u32) -> Arc<Cache> {
    resizable(policy, frames, frames)
}

/// With `frames` frames at first and at most `most`.
fn resizable(policy: &str, frames: u32, most: u32) -> Arc<Cache> {
    with(policy, frames, most, Cooperation::new(CooperationConfig::EMPTY).unwrap())
}

pub(crate) fn with(policy: &str, frames: u32, most: u32, cooperation: Cooperation) -> Arc<Cache> {
    let policy = PolicySpec::parse(policy).unwrap().build(most, 1).unwrap().into_concurrent(QUEUE);
    Cache::new(FrameMemory::new(most, 4096).unwrap(), (frames, most), policy, cooperation, None)
}

/// Blocks from 100 on are of another relation.
pub(crate) fn page(block: u32) -> PageId {
    PageId::new(RelationId(block / 100), block)
}

fn access(block: u32) -> Access {
    Access { page: page(block), scan: None, write: false, at: 0 }
}

/// A step at which the explorer may switch, as at any atomic. A `yield_now` would tell it to
/// switch, always here and to everyone, which hides the schedules in which one thread stands still
/// for long.
fn others_may_run() {
    AtomicU32::new(0).load(Ordering::SeqCst);
}

/// How a load goes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Io {
    Works,
    Fails,
    Panics,
}

/// What an I/O thread does.
pub(crate) fn perform(mut loading: Loading, io: Io) {
    let block = loading.access().page.block();
    match io {
        Io::Works => {
            loading.bytes()[..PAGE_BYTES / 2].fill(block as u8);
            others_may_run();
            loading.bytes()[PAGE_BYTES / 2..PAGE_BYTES].fill(block as u8);
            loading.publish(PAGE_BYTES as u32, 0);
        }
        Io::Fails => loading.fail(PoolError::NoFrame { frames: 0 }),
        Io::Panics => drop(loading),
    }
}

/// Asks for a page; its load, if it needs one, runs in a thread of its own. Without a pin and
/// without a waiter there are too many loads already.
fn ask(cache: &Arc<Cache>, client: &mut impl Client, block: u32, io: Io) -> Result<Held, Option<Waiter>> {
    if let Some(held) = cache.hit(client, page(block), |_| access(block)) {
        return Ok(held);
    }
    match cache.request(client, access(block)) {
        Request::Hit(held) => Ok(held),
        Request::Joined { waiter, .. } => Err(Some(waiter)),
        Request::Started(mut loading, waiter) => {
            if cache.place(&mut loading, &NoScans) == Placement::Placed {
                thread::spawn(move || perform(loading, io));
            } else {
                loading.give_up();
            }
            Err(Some(waiter))
        }
        Request::Full => Err(None),
    }
}

fn get(cache: &Arc<Cache>, client: &mut impl Client, block: u32, io: Io) -> Result<Option<Held>, PoolError> {
    match ask(cache, client, block, io) {
        Ok(held) => Ok(Some(held)),
        Err(Some(waiter)) => block_on(waiter),
        Err(None) => Ok(None),
    }
}

/// Reads the page twice under its pin, and gives the pin back.
fn look(cache: &Cache, held: Held, block: u32) {
    assert_eq!(cache.bytes(&held), [block as u8; PAGE_BYTES], "the pin is of another page");
    others_may_run();
    assert_eq!(cache.bytes(&held), [block as u8; PAGE_BYTES], "the frame changed under its pin");
    cache.unpin(held);
}

pub(crate) fn visit(cache: &Arc<Cache>, block: u32, io: Io) {
    visit_as(&mut Anyone, cache, block, io);
}

fn visit_as(client: &mut impl Client, cache: &Arc<Cache>, block: u32, io: Io) {
    if let Ok(Some(held)) = get(cache, client, block, io) {
        look(cache, held, block);
    }
}

/// Runs one visitor for each list of blocks, all at once, and returns the cache when they are done.
fn visitors(cache: &Arc<Cache>, lists: &'static [&'static [u32]], io: fn(usize) -> Io) {
    let threads: Vec<_> = lists
        .iter()
        .enumerate()
        .map(|(visitor, blocks)| {
            let cache = cache.clone();
            thread::spawn(move || blocks.iter().for_each(|&block| visit(&cache, block, io(visitor))))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The invariants, when nobody is at work, and that pages without a frame are in no chain.
pub(crate) fn settled(cache: &Cache, blocks: u32) {
    cache.check();
    for block in 0..blocks {
        let shard = cache.table.shard(page(block)).lock();
        assert!(!shard.contains_key(&page(block)), "a load is left");
    }
}

/// Waits until the loads are done that nobody waits for any more.
pub(crate) fn drain(cache: &Cache) {
    while cache.loads.load(Ordering::Relaxed) > 0 {
        thread::yield_now();
    }
}

fn share_two_frames(policy: &str) {
    let cache = cache(policy, 2);
    visitors(&cache, &[&[0, 2, 0], &[1, 0, 2], &[2, 1]], |_| Io::Works);
    settled(&cache, 3);
}

/// Page 0 leaves the only frame to page 1 while somebody finds it there.
fn hit_while_the_frame_moves() {
    let cache = cache("clock(max=1,init=0)", 1);
    visit(&cache, 0, Io::Works);
    let other = cache.clone();
    let mover = thread::spawn(move || visit(&other, 1, Io::Works));
    if let Some(held) = cache.hit(&mut Anyone, page(0), |_| access(0)) {
        look(&cache, held, 0);
    }
    mover.join().unwrap();
    settled(&cache, 2);
}

/// Sessions whose queued hits meet evictions, a relation that is dropped, and frames that hold the
/// same page again.
fn sessions_note_hits(policy: &str) {
    let cache = cache(policy, 2);
    let threads: Vec<_> = [&[0u32, 0, 1, 0][..], &[1, 1, 2, 1], &[2, 0, 0]]
        .into_iter()
        .map(|blocks| {
            let cache = cache.clone();
            thread::spawn(move || {
                let mut session = SessionState::enter(&cache);
                blocks.iter().for_each(|&block| visit_as(&mut session, &cache, block, Io::Works));
                session.leave(&cache);
            })
        })
        .collect();
    cache.discard(RELATION);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drain(&cache);
    settled(&cache, 3);
    let locks = cache.stats().policy_lock;
    assert_eq!(cache.stats().requests, 11);
    assert_eq!(locks.applied + locks.dropped, cache.stats().hits, "a hit was lost in a queue");
}

/// Page 0 is copied without a pin while it leaves the only frame to page 1.
fn copy_while_the_frame_moves() {
    let cache = cache("clock(max=1,init=0)", 1);
    visit(&cache, 0, Io::Works);
    let other = cache.clone();
    let mover = thread::spawn(move || visit(&other, 1, Io::Works));
    for block in [0, 1] {
        let mut bytes = [u8::MAX; PAGE_BYTES];
        if cache.copy_unpinned(&mut Anyone, page(block), 0, &mut bytes, |_| access(block)).is_some() {
            assert_eq!(bytes, [block as u8; PAGE_BYTES], "the copy is of another page or of two");
        }
    }
    mover.join().unwrap();
    settled(&cache, 2);
}

fn fail_one_load() {
    let cache = cache("clock", 1);
    visitors(&cache, &[&[0], &[0, 1], &[0]], |visitor| if visitor == 1 { Io::Fails } else { Io::Works });
    visit(&cache, 0, Io::Works);
    assert!(
        cache.hit(&mut Anyone, page(0), |_| access(0)).map(|held| cache.unpin(held)).is_some(),
        "the page can be loaded again"
    );
    settled(&cache, 2);
}

fn abandon_a_load() {
    let cache = cache("clock", 1);
    visitors(&cache, &[&[0], &[0]], |visitor| if visitor == 0 { Io::Panics } else { Io::Works });
    settled(&cache, 1);
}

/// One visitor, and one who asks (first or second: loader or joiner), looks once, and goes.
fn cancel(io: Io) {
    let cache = cache("lru", 1);
    let other = cache.clone();
    let patient = thread::spawn(move || visit(&other, 0, io));
    match ask(&cache, &mut Anyone, 0, io) {
        Ok(held) => look(&cache, held, 0),
        Err(None) => {}
        Err(Some(waiter)) => {
            let mut waiter = pin!(waiter);
            if let Poll::Ready(Ok(Some(held))) = waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                look(&cache, held, 0);
            }
        }
    }
    patient.join().unwrap();
    drain(&cache);
    settled(&cache, 1);
    if io == Io::Works {
        assert!(cache.headers[0].evictable().is_some(), "the load outlived those who asked for it");
    }
}

fn discard_while_visited() {
    let cache = cache("lru", 2);
    let other = cache.clone();
    let discarder = thread::spawn(move || other.discard(RELATION));
    visitors(&cache, &[&[0, 1], &[1, 2]], |_| Io::Works);
    discarder.join().unwrap();
    settled(&cache, 3);
}

/// A page is brought ahead while one visitor asks for it, another for a page that may displace it,
/// and its scan ends.
fn bring_ahead(io: Io) {
    let cache = cache("lru", 1);
    let bringer = cache.clone();
    let bringer = thread::spawn(move || {
        if let Ahead::Started(loading) = bringer.bring_ahead(access(0), &NoScans) {
            thread::spawn(move || perform(loading, io));
        }
        others_may_run();
        bringer.give_up_ahead(page(0));
    });
    visitors(&cache, &[&[0], &[1]], |_| Io::Works);
    bringer.join().unwrap();
    drain(&cache);
    settled(&cache, 2);
}

/// A flagged page is used by two at once, and its scan ends.
fn use_a_page_ahead() {
    let cache = cache("lru", 2);
    let Ahead::Started(loading) = cache.bring_ahead(access(0), &NoScans) else { panic!("a frame is free") };
    perform(loading, Io::Works);
    let other = cache.clone();
    let scan = thread::spawn(move || other.give_up_ahead(page(0)));
    visitors(&cache, &[&[0], &[0]], |_| Io::Works);
    scan.join().unwrap();
    settled(&cache, 1);
}

fn resize(cache: &Cache, frames: u32) -> u32 {
    cache.resize(frames, 0, &NoScans)
}

/// Fewer frames, more, and fewer again, under visitors who pin and load.
fn resize_while_visited(policy: &str) {
    let cache = resizable(policy, 2, 3);
    let other = cache.clone();
    let resizer = thread::spawn(move || [1, 3, 1].map(|frames| resize(&other, frames)));
    visitors(&cache, &[&[1, 2], &[2, 3]], |_| Io::Works);
    resizer.join().unwrap();
    // What was held beyond the one frame while it shrank leaves with the next misses.
    while cache.free.is_draining() {
        visit(&cache, 4, Io::Works);
        visit(&cache, 5, Io::Works);
    }
    settled(&cache, 6);
}

/// Explorations share the switch of the mistakes: one at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

pub(crate) fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    try_schedules(schedules, scenario);
}

/// Half of them choose the next thread at random at every step. The other half let the thread with
/// the highest priority run and change priorities at three random steps, which leaves a thread
/// behind for as long as another needs for a whole claim, load and publication (Burckhardt et al.,
/// ASPLOS 2010).
fn try_schedules(schedules: usize, scenario: impl Fn() + Send + Sync + Copy + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    // A policy that learns is made on the stack, which is 32 KiB unless more is asked for.
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    shuttle::Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(scenario);
    shuttle::Runner::new(PctScheduler::new(3, schedules / 2), config).run(scenario);
}

/// The scenario, which finds nothing otherwise, fails with one of these words once the mistake is
/// made.
pub(crate) fn must_be_caught(
    mistake: u8,
    words: &[&str],
    schedules: usize,
    scenario: impl Fn() + Send + Sync + Copy + 'static,
) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    mistake::activate(mistake);
    let found = catch_unwind(AssertUnwindSafe(|| try_schedules(schedules, scenario)));
    mistake::activate(mistake::NONE);
    let Err(panic) = found else { panic!("{schedules} schedules did not find the mistake") };
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default();
    assert!(words.iter().any(|word| said.contains(word)), "something else was found: {said}");
}

#[test]
fn concurrent_misses_share_frames() {
    for policy in ["clock", "lru", "pbm"] {
        explore(3_000, move || share_two_frames(policy));
    }
    explore(10_000, hit_while_the_frame_moves);
}

#[test]
fn queued_hits_of_sessions_are_applied_or_dropped() {
    for policy in ["lru", "2q"] {
        explore(2_000, move || sessions_note_hits(policy));
    }
}

#[test]
fn a_copy_without_a_pin_is_whole_or_refused() {
    explore(5_000, copy_while_the_frame_moves);
}

#[test]
fn a_failing_load_wakes_all_and_leaves_nothing() {
    explore(5_000, fail_one_load);
}

#[test]
fn an_abandoned_load_wakes_all() {
    explore(5_000, abandon_a_load);
}

#[test]
fn waiter_or_loader_is_cancelled() {
    explore(5_000, || cancel(Io::Works));
    explore(5_000, || cancel(Io::Fails));
}

#[test]
fn a_relation_is_discarded_while_it_is_read() {
    explore(5_000, discard_while_visited);
}

#[test]
fn a_page_is_brought_ahead_while_it_is_asked_for_and_given_up() {
    for (io, schedules) in [(Io::Works, 3_000), (Io::Fails, 1_000), (Io::Panics, 1_000)] {
        explore(schedules, move || bring_ahead(io));
    }
    explore(2_000, use_a_page_ahead);
}

#[test]
fn mistake_of_a_mark_that_is_taken_twice_is_caught() {
    must_be_caught(mistake::FLAG_TAKEN_TWICE, &["a flag was counted"], 5_000, use_a_page_ahead);
}

#[test]
fn the_pool_is_resized_while_it_is_read() {
    for policy in ["clock", "lru", "pbm"] {
        explore(2_000, move || resize_while_visited(policy));
    }
}

#[test]
fn mistake_of_a_claim_that_keeps_the_tag_is_caught() {
    must_be_caught(mistake::TAG_KEPT, &["in two frames", "lost", "without its page"], 5_000, || {
        share_two_frames("clock")
    });
}

#[test]
fn mistake_of_a_pin_without_a_second_look_is_caught() {
    must_be_caught(mistake::NO_RECHECK, &["the pin is of another page"], 10_000, hit_while_the_frame_moves);
}

#[test]
fn mistake_of_a_failure_that_wakes_nobody_is_caught() {
    must_be_caught(mistake::FAILURE_KEPT, &["deadlock"], 5_000, fail_one_load);
}

#[test]
fn mistake_of_a_copy_without_a_second_look_is_caught() {
    must_be_caught(mistake::NO_VALIDATION, &["another page or of two"], 10_000, copy_while_the_frame_moves);
}
