//! Memory that somebody else has written over, and hosts that want too much: decisions may get
//! worse, nothing else may.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast_core::cooperation::{
    Chunk, ChunkFault, Cooperation, CooperationConfig, Load, Loading, MemberId, Refusal, Take, Unit,
};
use pagecast_core::predictor::FormatError;
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn memory(config: CooperationConfig) -> Arc<[AtomicU64]> {
    (0..config.words()).map(|_| AtomicU64::new(0)).collect()
}

fn unit(number: u32) -> Unit {
    Unit { relation: RelationId(1), first: 90 * number, blocks: 100 }
}

/// A call with arguments drawn at random; whether it handed a chunk out.
fn call(
    manager: &mut Cooperation<Arc<[AtomicU64]>>,
    random: &mut Random,
    members: &mut Vec<MemberId>,
    loads: &mut Vec<Load>,
) -> bool {
    let now = random.next() >> random.below(64);
    let member = match random.below(4) {
        0 => MemberId::from_raw(random.next() >> random.below(64)),
        _ if members.is_empty() => MemberId::NOBODY,
        _ => members[random.below(members.len() as u32) as usize],
    };
    let page = PageId::new(RelationId(random.below(3)), random.below(1000));
    match random.below(14) {
        0 => {
            let need = [random.next(), random.next() >> 28];
            let chunks: Vec<Chunk<'_>> = (0..random.below(9))
                .map(|_| Chunk { unit: unit(random.below(8)), need: &need, joined: false })
                .collect();
            members.extend(manager.register(&chunks, random.below(4), now, |page| page.block() % 3 == 0));
        }
        1 | 2 => {
            if let Take::Chunk { chunk, .. } = manager.take(member, now) {
                match random.below(3) {
                    0 => manager.give_back(member, chunk),
                    1 => manager.consumed(member, chunk),
                    _ => {}
                }
                return true;
            }
        }
        3 => manager.remove(member, random.below(20)),
        4 => manager.finish(member),
        5 => loads.extend(manager.next_load(now)),
        6 => loads.iter().for_each(|load| manager.pages(load, |_| {})),
        7 => {
            if let Some(load) = loads.pop() {
                manager.loaded(&load, now);
            }
        }
        8 => manager.arrived(page),
        9 => manager.left(page),
        10 => manager.wake(|_| {}),
        11 => manager.members(|_| {}),
        12 => manager.stop_waiting(member),
        _ => {
            let loading = match random.below(3) {
                0 => Loading::Opportunistic,
                outstanding => Loading::Manager { outstanding },
            };
            manager.set_loading(loading);
        }
    }
    false
}

#[test]
fn any_memory_is_survived() {
    let config = CooperationConfig { scans: 4, units: 6, words: 300 };
    let mut taken = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let memory = memory(config);
        let mut manager = Cooperation::format(memory.clone(), config).unwrap();
        let (mut members, mut loads) = (Vec::new(), Vec::new());
        for step in 0..400 {
            let handed_out = call(&mut manager, &mut random, &mut members, &mut loads);
            taken += u32::from(handed_out && step > 100);
            // Not the layout's words: who attaches reads them once, and never again. Heads of free
            // lists stop everything soon, so that every second time the header stays whole.
            if step > 40 && random.below(1 + seed as u32 % 20) == 0 {
                let from = if seed % 2 == 0 { 3 } else { 24 };
                let at = from + random.below((memory.len() - from) as u32) as usize;
                // Numbers of all sizes: many are places that exist.
                let (high, low) = (random.next() >> random.below(64), random.next() >> random.below(64));
                memory[at].store(high << 32 | low & 0xffff_ffff, Relaxed);
            }
        }
        // Formatted anew it works as ever.
        let mut manager = Cooperation::format(memory, config).unwrap();
        let member = manager.register(&[Chunk { unit: unit(0), need: &[1], joined: false }], 1, 0, |_| true).unwrap();
        assert_eq!(manager.take(member, 0), Take::Chunk { chunk: 0, resident: true, shared: false });
    }
    assert!(taken > 500, "{taken}: nothing goes on any more in memory that was written over");
}

#[test]
fn memory_that_is_too_small_or_another_is_refused() {
    let config = CooperationConfig { scans: 2, units: 2, words: 50 };
    let needed = config.words();
    let short: Vec<AtomicU64> = (1..needed).map(|_| AtomicU64::new(0)).collect();
    let given = short.len();
    assert_eq!(Cooperation::attach(&short[..]).unwrap_err(), FormatError::NotFormatted { found: 0 });
    assert_eq!(Cooperation::format(&short[..], config).unwrap_err(), FormatError::TooSmall { given, needed });
    let empty = CooperationConfig { scans: 0, ..config };
    assert_eq!(Cooperation::format(&short[..], empty).unwrap_err(), FormatError::BadConfig);
    let huge = CooperationConfig { words: u32::MAX, ..config };
    assert_eq!((huge.words(), huge.bytes()), (usize::MAX, u64::MAX));
    let memory = memory(config);
    Cooperation::format(&memory[..], config).unwrap();
    assert_eq!(Cooperation::attach(&memory[..]).unwrap().config(), config);
    let error = Cooperation::attach(&memory[..needed - 1]).unwrap_err();
    assert_eq!(error.to_string(), format!("{needed} words of memory are needed and {} were given", needed - 1));
}

#[test]
fn a_refusal_says_what_was_wanted_and_what_there_is() {
    let config = CooperationConfig { scans: 2, units: 3, words: 80 };
    let mut manager = Cooperation::format(memory(config), config).unwrap();
    let chunks = |count: u32| -> Vec<Chunk<'_>> {
        (0..count).map(|number| Chunk { unit: unit(number), need: &[1], joined: false }).collect()
    };
    let mut refuse = |chunks: &[Chunk<'_>]| {
        let before = manager.usage();
        let refusal = manager.register(chunks, 1, 0, |_| false).unwrap_err();
        assert_eq!((manager.usage().words, manager.usage().units), (before.words, before.units));
        refusal
    };
    let no_space = refuse(&chunks(30));
    assert_eq!(no_space, Refusal::NoSpace { wanted: 92, free: 80, limit: 80 });
    assert_eq!(no_space.to_string(), "cooperation needs 92 words in one stretch, and 80 of 80 are free");
    // Four chunks take 14 words, each unit 17.
    assert_eq!(refuse(&chunks(4)), Refusal::TooManyUnits { wanted: 4, free: 0, limit: 3 });
    let past = [Chunk { unit: Unit { first: u32::MAX, ..unit(0) }, need: &[], joined: false }];
    assert_eq!(refuse(&past), Refusal::BadChunk { chunk: 0, fault: ChunkFault::PastLastBlock });
    let past = [chunks(1)[0], Chunk { unit: unit(1), need: &[0, 1 << 36], joined: false }];
    assert_eq!(refuse(&past), Refusal::BadChunk { chunk: 1, fault: ChunkFault::PastUnit });
    let last = Chunk { unit: unit(1), need: &[0, 1 << 35, 0], joined: false };
    manager.register(&[last], 1, 0, |_| false).unwrap();
    manager.register(&[], 1, 0, |_| false).unwrap();
    assert_eq!(manager.register(&[], 1, 0, |_| false).unwrap_err(), Refusal::TooManyScans { limit: 2 });
    assert_eq!(manager.usage().refused, 3);
}

/// The budget of the issue: 200 bytes a unit and scan, whatever the need-masks.
#[test]
fn a_hundred_scans_of_a_thousand_units_fit_into_what_the_configuration_says() {
    const SCANS: u32 = 100;
    const UNITS: u32 = 1000;
    for needs in [1, 8, SCANS] {
        let config = CooperationConfig::of(SCANS, UNITS, 100, needs);
        assert!(config.bytes() <= u64::from(200 * SCANS * UNITS), "{needs}: {}", config.bytes());
        let mut manager = Cooperation::format(memory(config), config).unwrap();
        let mut members = Vec::new();
        for scan in 0..SCANS {
            let need = [1 << (scan % needs % 64), 1 << (scan % needs / 4)];
            let chunks: Vec<Chunk<'_>> =
                (0..UNITS).map(|number| Chunk { unit: unit(number), need: &need, joined: false }).collect();
            members.push(manager.register(&chunks, 1, 0, |_| false).unwrap());
        }
        let used = manager.usage().words * 8;
        println!("{needs} needs: {} bytes a unit and scan, of {}", used / 100_000, config.bytes() / 100_000);
        for (scan, member) in members.iter().enumerate() {
            manager.finish(*member);
            assert_eq!(manager.usage().scans as usize, members.len() - 1 - scan);
        }
        assert_eq!(manager.usage().words, 0);
    }
}
