//! The manager of cooperation by example: each choice of the thesis in the smallest case that shows
//! it.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast_core::cooperation::{
    Chunk, Cooperation, CooperationConfig, Load, Loading, MemberId, MemberView, Take, Unit,
};
use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
use std::sync::Arc;

type Manager = Cooperation<Arc<[AtomicU64]>>;

const TABLE: RelationId = RelationId(1);
/// Two columns of eight blocks each.
const A: u64 = 0xff;
const B: u64 = 0xff00;

fn manager() -> Manager {
    let config = CooperationConfig::of(8, 16, 16, 8);
    let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    Cooperation::format(memory, config).unwrap()
}

fn unit(number: u32) -> Unit {
    Unit { relation: TABLE, first: 16 * number, blocks: 16 }
}

/// A scan of `need` of these units, while nothing is known to be in the pool.
fn register(manager: &mut Manager, units: impl IntoIterator<Item = u32>, need: u64, workers: u32) -> MemberId {
    let need = [need];
    let chunks: Vec<Chunk<'_>> =
        units.into_iter().map(|number| Chunk { unit: unit(number), need: &need, joined: false }).collect();
    manager.register(&chunks, workers, 0, |_| false).unwrap()
}

fn pages(manager: &Manager, load: &Load) -> Vec<u32> {
    let mut blocks = Vec::new();
    manager.pages(load, |page| blocks.push(page.block()));
    blocks
}

/// All pages of a load come, and it ends.
fn bring(manager: &mut Manager, load: &Load, now: u64) {
    pages(manager, load).iter().for_each(|&block| manager.arrived(PageId::new(TABLE, block)));
    manager.loaded(load, now);
}

/// `need` of a unit comes.
fn arrive(manager: &mut Manager, number: u32, need: u64) {
    let blocks = (0..16).filter(|block| need >> block & 1 == 1);
    blocks.for_each(|block| manager.arrived(PageId::new(TABLE, unit(number).first + block)));
}

fn view(manager: &Manager, id: MemberId) -> MemberView {
    let mut found = None;
    manager.members(|view| found = found.or((view.id == id).then_some(view)));
    found.unwrap()
}

fn chunk(take: Take) -> u32 {
    let Take::Chunk { chunk, .. } = take else { panic!("{take:?}") };
    chunk
}

#[test]
fn short_scans_come_first_and_waiting_counts() {
    let mut manager = manager();
    let long = register(&mut manager, 0..8, A, 1);
    let short = register(&mut manager, 8..11, B, 1);
    assert_eq!((manager.take(long, 0), manager.take(short, 0)), (Take::Wait, Take::Wait));
    let first = manager.next_load(0).unwrap();
    assert_eq!(first.member, short);
    // A load takes 10 ticks.
    bring(&mut manager, &first, 10);
    assert_eq!(chunk(manager.take(short, 10)), 0);
    manager.consumed(short, 0);
    assert_eq!(manager.take(short, 10), Take::Wait);
    // Two chunks left against eight, and it waits for long, too.
    let second = manager.next_load(130).unwrap();
    assert_eq!(second.member, short);
    bring(&mut manager, &second, 140);
    manager.wake(|id| assert_eq!(id, short));
    assert_eq!(chunk(manager.take(short, 140)), 1);
    manager.consumed(short, 1);
    assert_eq!(manager.take(short, 150), Take::Wait);
    // One left against eight. The other has waited for 15 loads more, 7.5 for each scan.
    assert_eq!(manager.next_load(150).unwrap().member, long);
}

#[test]
fn who_has_gone_without_a_chunk_has_not_waited() {
    let mut manager = manager();
    let (long, short) = (register(&mut manager, 0..4, A, 1), register(&mut manager, 8..11, B, 1));
    assert_eq!(manager.take(long, 0), Take::Wait);
    let first = manager.next_load(0).unwrap();
    assert_eq!(first.member, short);
    // A load takes 10 ticks, and the other scan would have waited for ten of them.
    bring(&mut manager, &first, 10);
    manager.stop_waiting(long);
    assert!(!view(&manager, long).waiting);
    assert_eq!(manager.next_load(100).unwrap().member, short);
}

#[test]
fn workers_of_one_scan_starve_together_and_never_for_more_than_is_left() {
    let mut manager = manager();
    let group = register(&mut manager, 0..5, A, 2);
    for (resident, starved) in [(1, true), (2, true), (3, true), (4, false)] {
        arrive(&mut manager, resident - 1, A);
        let view = view(&manager, group);
        assert_eq!((view.available, view.starved), (resident, starved));
    }
    // With its last chunks in the pool it does not starve, however few they are (A3).
    for number in [4, 3, 2] {
        manager.remove(group, number);
    }
    assert_eq!((view(&manager, group).available, view(&manager, group).starved), (2, false));
    assert_eq!(manager.next_load(0), None);
}

#[test]
fn a_load_brings_what_all_starved_scans_need_that_share_a_block_with_its_scan() {
    let mut manager = manager();
    let trigger = register(&mut manager, [0, 1], A, 1);
    let both = register(&mut manager, [0, 2, 3], A | B, 1);
    register(&mut manager, 0..4, B, 1);
    // Unit 0 serves two starved scans with 16 pages, unit 1 one with 8: as many per page, and more
    // are interested in the first.
    let load = manager.next_load(0).unwrap();
    assert_eq!((load.member, load.chunk), (trigger, 0));
    assert_eq!(pages(&manager, &load), (0..16).collect::<Vec<_>>());
    bring(&mut manager, &load, 1);
    assert_eq!(manager.take(both, 1), Take::Chunk { chunk: 0, resident: true, shared: true });
    // Nobody but the trigger needs column A of unit 1.
    assert_eq!(manager.take(trigger, 1), Take::Chunk { chunk: 0, resident: true, shared: false });
    let load = manager.next_load(1).unwrap();
    assert_eq!((load.member, pages(&manager, &load)), (trigger, (16..24).collect::<Vec<_>>()));
}

#[test]
fn what_few_scans_need_is_handed_out_first() {
    let mut manager = manager();
    let scan = register(&mut manager, 0..3, A, 1);
    let other = register(&mut manager, 0..2, A, 1);
    (0..3).for_each(|number| arrive(&mut manager, number, A));
    assert_eq!(chunk(manager.take(scan, 0)), 2);
    assert_eq!(chunk(manager.take(other, 0)), 0);
    assert_eq!(chunk(manager.take(scan, 0)), 0, "nobody else needs it any more");
}

#[test]
fn a_border_block_counts_for_both_its_units() {
    let mut manager = manager();
    let units = [Unit { relation: TABLE, first: 0, blocks: 65 }, Unit { relation: TABLE, first: 64, blocks: 3 }];
    let chunks =
        [Chunk { unit: units[0], need: &[0, 1], joined: false }, Chunk { unit: units[1], need: &[1], joined: false }];
    let scan = manager.register(&chunks, 1, 0, |_| false).unwrap();
    manager.arrived(PageId::new(RelationId(2), 64));
    assert_eq!(view(&manager, scan).available, 0);
    manager.arrived(PageId::new(TABLE, 64));
    assert_eq!(view(&manager, scan).available, 2);
    manager.left(PageId::new(TABLE, 64));
    assert_eq!(view(&manager, scan).available, 0);
}

#[test]
fn two_loads_are_under_way_at_a_time_if_nothing_else_is_said() {
    let mut manager = manager();
    register(&mut manager, 0..4, A, 2);
    let loads = [(); 2].map(|()| manager.next_load(0).unwrap());
    assert_eq!(manager.next_load(0), None);
    manager.set_loading(Loading::Manager { outstanding: 1 });
    bring(&mut manager, &loads[0], 1);
    assert_eq!(manager.next_load(1), None, "one is under way");
    bring(&mut manager, &loads[1], 1);
    assert!(manager.next_load(1).is_some() && manager.next_load(1).is_none());
}

#[test]
fn loads_wait_while_enough_workers_are_at_work() {
    let mut manager = manager();
    manager.set_enough_at_work(1);
    let busy = register(&mut manager, 0..4, A, 1);
    // Before the first load has ended nothing is known of their duration.
    let load = manager.next_load(0).unwrap();
    bring(&mut manager, &load, 10);
    let waits = register(&mut manager, 4..8, A, 1);
    let taken = chunk(manager.take(busy, 10));
    assert_eq!(manager.take(waits, 10), Take::Wait);
    assert_eq!(manager.next_load(10), None);
    let again = manager.look_again(10).unwrap();
    assert_eq!(again, 80, "eight loads of ten ticks");
    // What is read makes room for the next one, and the scan that waits is not passed over.
    manager.consumed(busy, taken);
    assert_eq!(manager.look_again(20), None);
    let load = manager.next_load(20).unwrap();
    bring(&mut manager, &load, 30);
    let taken = chunk(manager.take(busy, 30));
    // One who rests in the middle of a chunk holds nobody up for long.
    assert_eq!(manager.next_load(30 + 640), None);
    let load = manager.next_load(30 + 641).unwrap();
    assert_eq!((load.member, manager.look_again(30 + 641)), (waits, None));
    bring(&mut manager, &load, 700);
    manager.give_back(busy, taken);
    manager.set_enough_at_work(0);
    assert!(manager.next_load(701).is_some());
}

#[test]
fn scans_that_load_for_themselves_read_different_units_while_they_can() {
    let mut manager = manager();
    manager.set_loading(Loading::Opportunistic);
    let scans = [(); 3].map(|()| register(&mut manager, 0..2, A, 1));
    assert_eq!(scans.map(|scan| chunk(manager.take(scan, 0))), [0, 1, 0]);
    assert_eq!(manager.next_load(0), None);
    // What one reads the others find.
    arrive(&mut manager, 0, A);
    assert_eq!(manager.take(scans[1], 1), Take::Chunk { chunk: 0, resident: true, shared: true });
    // Of two that nobody reads, the one of which more is there.
    let late = register(&mut manager, [3, 4], A, 1);
    arrive(&mut manager, 4, 0xf);
    assert_eq!(manager.take(late, 2), Take::Chunk { chunk: 1, resident: false, shared: false });
}

#[test]
fn the_end_waits_for_what_may_be_given_back() {
    let mut manager = manager();
    let scan = register(&mut manager, 0..2, A, 2);
    (0..2).for_each(|number| arrive(&mut manager, number, A));
    assert_eq!((chunk(manager.take(scan, 0)), chunk(manager.take(scan, 0))), (0, 1));
    assert_eq!(manager.take(scan, 0), Take::Wait);
    manager.consumed(scan, 0);
    manager.wake(|_| panic!("one is still out"));
    manager.give_back(scan, 1);
    let mut woken = 0;
    manager.wake(|_| woken += 1);
    assert_eq!((woken, chunk(manager.take(scan, 0))), (1, 1));
    assert_eq!(manager.take(scan, 0), Take::Wait);
    manager.remove(scan, 1);
    manager.give_back(scan, 1);
    manager.wake(|_| woken += 1);
    assert_eq!((woken, manager.take(scan, 0)), (2, Take::End), "it was superfluous");
}

#[test]
fn a_scan_that_ends_early_waits_for_nobody_s_chunk() {
    let mut manager = manager();
    let scan = register(&mut manager, 0..2, A, 3);
    (0..2).for_each(|number| arrive(&mut manager, number, A));
    manager.take(scan, 0);
    manager.end_early(scan);
    assert_eq!((chunk(manager.take(scan, 0)), manager.take(scan, 0)), (1, Take::End));
    manager.give_back(scan, 0);
    assert_eq!((chunk(manager.take(scan, 0)), manager.take(scan, 0)), (0, Take::End), "of those who still ask");
}

#[test]
fn processes_share_the_memory_under_one_lock() {
    let mut one = manager();
    let memory = {
        let config = one.config();
        let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        one = Cooperation::format(memory.clone(), config).unwrap();
        memory
    };
    let mut other = Cooperation::attach(memory).unwrap();
    one.set_loading(Loading::Manager { outstanding: 3 });
    assert_eq!(other.loading(), Loading::Manager { outstanding: 3 });
    let (here, there) = (register(&mut one, 0..4, A, 1), register(&mut other, 0..4, A, 1));
    let load = one.next_load(0).unwrap();
    bring(&mut other, &load, 1);
    assert_eq!(chunk(one.take(here, 1)), chunk(other.take(there, 1)));
    one.finish(there);
    assert_eq!(other.take(there, 1), Take::End);
}

/// Chunks of unit `n` of the table together with unit `n + 8`, which stands for another table.
fn register_pairs(manager: &mut Manager, units: u32) -> MemberId {
    let part = |number, joined| Chunk { unit: unit(number), need: &[A], joined };
    let chunks: Vec<_> = (0..units).flat_map(|number| [part(number, false), part(number + 8, true)]).collect();
    manager.register(&chunks, 1, 0, |_| false).unwrap()
}

#[test]
fn a_chunk_of_two_tables_goes_out_when_both_parts_are_there() {
    let mut manager = manager();
    let pairs = register_pairs(&mut manager, 3);
    assert_eq!((view(&manager, pairs).left, view(&manager, pairs).chunks), (3, 6));
    assert_eq!(manager.take(pairs, 0), Take::Wait);
    // What is begun comes before what is not.
    let loads = [manager.next_load(1).unwrap(), manager.next_load(1).unwrap()];
    assert_eq!(loads.map(|load| load.chunk), [0, 0]);
    assert_eq!(loads.map(|load| pages(&manager, &load)[0] / 16), [0, 8]);
    bring(&mut manager, &loads[0], 2);
    assert_eq!((view(&manager, pairs).available, manager.take(pairs, 2)), (0, Take::Wait), "one part is missing");
    bring(&mut manager, &loads[1], 3);
    assert_eq!(manager.take(pairs, 3), Take::Chunk { chunk: 0, resident: true, shared: false });
    // Another has both parts of the last chunk, and a page of the second one's leaves before that
    // is whole.
    arrive(&mut manager, 2, A);
    arrive(&mut manager, 10, A);
    assert_eq!(manager.take(pairs, 4), Take::Chunk { chunk: 4, resident: true, shared: false });
    arrive(&mut manager, 1, A);
    manager.left(PageId::new(TABLE, unit(1).first));
    arrive(&mut manager, 9, A);
    assert_eq!(manager.take(pairs, 5), Take::Wait);
    manager.give_back(pairs, 0);
    // A part has no name of its own.
    manager.consumed(pairs, 1);
    manager.remove(pairs, 3);
    assert_eq!(view(&manager, pairs).left, 2);
    manager.finish(pairs);
    assert_eq!((manager.usage().units, manager.usage().words), (0, 0));
}

#[test]
fn a_scan_of_one_table_shares_what_is_loaded_for_a_chunk_of_two() {
    let mut manager = manager();
    let (pairs, single) = (register_pairs(&mut manager, 4), register(&mut manager, 8..12, A | B, 1));
    assert_eq!((manager.take(pairs, 0), manager.take(single, 0)), (Take::Wait, Take::Wait));
    let mut taken = Vec::new();
    for now in 1..20 {
        while let Some(load) = manager.next_load(now) {
            bring(&mut manager, &load, now);
        }
        for scan in [pairs, single] {
            if let Take::Chunk { chunk, shared, .. } = manager.take(scan, now) {
                manager.consumed(scan, chunk);
                taken.push((scan == pairs, chunk, shared));
            }
        }
    }
    let of = |of_pairs| taken.iter().filter(move |taken| taken.0 == of_pairs);
    assert_eq!((of(true).count(), of(false).count()), (4, 4));
    assert!(taken.iter().any(|taken| taken.2), "{taken:?}");
}
