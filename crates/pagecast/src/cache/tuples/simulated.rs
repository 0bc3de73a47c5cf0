//! The pool decides about items as the simulator's pool does: on one trace both read about as many
//! pages.
//!
//! They cannot agree page by page. The pool's victims are of one slab, which some have more pages
//! to compete for than others; the simulator's are a sample of all mini-pages.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pagecast_core::cooperation::CooperationConfig;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Access, Batching, PolicySpec};
use pagecast_core::random::Random;
use pagecast_core::tuples::{Bounds, Model, ModelOptions, Room, Tuple};
use pagecast_core::{PageId, RelationId};

use super::TupleConfig;
use crate::blocking::block_on;
use crate::cache::{Anyone, Cache, Placement, Request};
use crate::cooperation::Cooperation;
use crate::frame_memory::FrameMemory;
use crate::layout::{FixedRows, TupleLayout};
use crate::token::Held;

const PAGE: u32 = 4096;
const PAGES: u32 = 8000;
const ROW: u32 = 128;
const ROWS: u32 = PAGE / ROW;
const SHARE: f64 = 0.9;
const WARM: u32 = 100_000;
const COUNTED: u32 = 100_000;
const RELATION: RelationId = RelationId(1);

/// Requests for rows, few of which are hot; those lie in pages of their own each.
fn requests() -> impl Iterator<Item = (Access, Tuple)> {
    let (mut random, rows) = (Random::new(7), PAGES * ROWS);
    (0..WARM + COUNTED).map(move |at| {
        let part = f64::from(random.below(1 << 30)) / f64::from(1 << 30);
        let rank = (part.powi(6) * f64::from(rows)) as u32;
        let row = rank.wrapping_mul(0x9e37_79b1) % rows;
        let page = PageId::new(RELATION, row / ROWS);
        (Access { page, scan: None, write: false, at: at.into() }, Tuple { name: row % ROWS, length: ROW })
    })
}

fn policy() -> PolicySpec {
    PolicySpec::parse("clock").unwrap()
}

/// Loads of the pool after it was warm.
fn loads(frames: u32) -> u32 {
    let batching = Batching::default();
    let policy = policy().build(frames, 1).unwrap().into_concurrent(batching);
    let cooperation = Cooperation::new(CooperationConfig::EMPTY).unwrap();
    let config = TupleConfig { max_share: SHARE, shares: None, seed: 1 };
    let memory = FrameMemory::new(frames, PAGE).unwrap();
    let cache = Cache::new(memory, (frames, frames), policy, cooperation, Some(config));
    let layout: Arc<dyn TupleLayout> = Arc::new(FixedRows { first: 0, row: ROW });
    assert!(cache.set_layout(RELATION, &layout));
    let mut loads = 0;
    for (at, (access, tuple)) in (0..).zip(requests()) {
        if cache.copy_item(&mut Anyone, access.page, tuple.name, &mut [0; ROW as usize][..]).is_none() {
            let (held, is_loaded) = page(&cache, access);
            cache.visit(held.index(), tuple.name);
            cache.unpin(held);
            loads += u32::from(is_loaded && at >= WARM);
        }
    }
    cache.check();
    loads
}

fn page(cache: &Arc<Cache>, access: Access) -> (Held, bool) {
    match cache.request(&mut Anyone, access) {
        Request::Hit(held) => (held, false),
        Request::Started(mut loading, waiter) => {
            assert_eq!(cache.place(&mut loading, &NoScans), Placement::Placed);
            loading.publish(PAGE, 0);
            (block_on(waiter).unwrap().unwrap(), true)
        }
        _ => unreachable!("nobody else is at work"),
    }
}

/// Misses of the simulator's pool after it was warm.
fn misses(frames: u32) -> u32 {
    let room = Room::new(PAGE);
    let bounds = Bounds::none(frames, room);
    let options = ModelOptions { policy: policy(), frames, room, share: SHARE, bounds, seed: 1 };
    let mut model = Model::new(&options).unwrap();
    let mut before = 0;
    for (at, (access, tuple)) in (0..).zip(requests()) {
        if at == WARM {
            before = model.counts().misses;
        }
        model.request(&access, Some(tuple), &NoScans);
    }
    (model.counts().misses - before) as u32
}

#[test]
fn the_pool_reads_about_as_many_pages_as_the_simulator_says() {
    for frames in [600, 1000] {
        let (loads, misses) = (loads(frames), misses(frames));
        let ratio = f64::from(loads) / f64::from(misses);
        println!("{frames} frames: {loads} loads, {misses} simulated: {ratio:.4}");
        // A mini-page that forgets the hits of the one before reads 11 % more.
        assert!((0.95..1.06).contains(&ratio), "{frames} frames: {loads} loads, {misses} simulated");
    }
}
