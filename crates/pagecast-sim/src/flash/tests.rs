#![allow(clippy::unwrap_used)]
use super::*;
use crate::generate::generate;

fn run(workload: &str, memory: &str, (frames, slots): (f64, f64), flash: &str) -> FlashOutcome {
    let trace = Trace::load(workload, &mut generate(workload, 1).unwrap()).unwrap();
    let pages = |share: f64| (share * f64::from(trace.unique())) as u32;
    let flash = FlashSpec::parse(flash).unwrap();
    simulate_flash(&trace, &memory.parse().unwrap(), pages(frames), &flash, pages(slots), 1).unwrap()
}

const SCANS: &str = "sequential(streams=8,queries=8,pages=1000)";

/// Belady below Belady is Belady on both together.
#[test]
fn the_optimum_on_two_levels_is_that_of_their_sum() {
    let trace = Trace::load("scans", &mut generate(SCANS, 1).unwrap()).unwrap();
    let opt = "opt".parse().unwrap();
    let flash = FlashSpec::parse("opt").unwrap();
    for (frames, slots) in [(50, 100), (100, 300), (200, 700)] {
        let two = simulate_flash(&trace, &opt, frames, &flash, slots, 1).unwrap();
        let one = crate::simulation::simulate(&trace, &opt, frames + slots, 1, Interleaving::Fixed).unwrap();
        assert_eq!(two.store_reads(), one.counts.misses, "{frames} frames, {slots} slots");
        assert!(two.flash.written <= two.flash.hits);
    }
}

/// Under one pool nobody reads less from the store than the optimum, each tier is told of the same
/// misses, and a hit is of a page that was written.
#[test]
fn no_tier_is_better_than_the_optimum() {
    let of = |flash: &str| run(SCANS, "pbm", (0.1, 0.4), flash);
    let opt = of("opt");
    for flash in ["predicted", "predicted(budget=2%)", "second-touch", "tenth", "all", "all(evict=arc)", "blocks"] {
        let outcome = of(flash);
        assert_eq!(outcome.counts, opt.counts);
        assert!(outcome.store_reads() >= opt.store_reads(), "{flash}: {outcome:?}");
        assert!(outcome.flash.written > 0 && outcome.flash.hits > 0, "{flash}: {outcome:?}");
    }
}

/// A tier with room for all reads each page once from the store, under all who write what they see
/// first.
#[test]
fn with_room_for_all_each_page_is_read_once() {
    for flash in ["predicted", "all", "opt"] {
        let outcome = run("loop(pages=300,rounds=4)", "lru", (0.1, 1.0), flash);
        assert_eq!(outcome.store_reads(), 300, "{flash}");
    }
    let outcome = run("loop(pages=300,rounds=4)", "lru", (0.1, 1.0), "second-touch");
    assert_eq!(outcome.store_reads(), 600, "it waits for the second touch");
}

/// A page that was written in memory has an old copy, which is not read any more.
#[test]
fn a_changed_page_is_written_anew() {
    let workload = "ycsb(streams=2,operations=20000,pages=400,scans=0,writes=1)";
    for flash in ["all", "blocks", "predicted"] {
        let outcome = run(workload, "lru", (0.2, 1.0), flash);
        assert_eq!(outcome.flash.written, outcome.counts.write_backs, "{flash}: all is changed, and written each time");
    }
}

/// The budget bounds writes, whatever is asked, after the tier has been filled once.
#[test]
fn a_budget_is_kept() {
    let outcome = run(SCANS, "pbm", (0.1, 0.4), "predicted(budget=2%)");
    let burst = f64::from(outcome.slots);
    assert!(outcome.flash.written as f64 <= outcome.counts.requests as f64 * 0.02 + burst + 1.0, "{outcome:?}");
}

/// What this is for: scans that are longer than memory, in a tier that holds most of the table.
#[test]
fn scans_read_less_than_with_second_touch() {
    let workload = "sequential(streams=8,queries=16,pages=1500)";
    let of = |flash: &str| run(workload, "pbm", (0.1, 0.6), flash);
    let (ours, second) = (of("predicted"), of("second-touch"));
    println!("{ours:?} {second:?}");
    assert!(ours.store_reads() * 100 < second.store_reads() * 85, "{ours:?} {second:?}");
    assert!(ours.flash.written < second.flash.written * 11 / 10, "{ours:?} {second:?}");
}

/// A loop of pages that no scan registers, twice as long as the tier, which is full of others that
/// are read no more: in the end it has its part of the tier.
#[test]
fn what_is_read_no_more_makes_room_for_what_comes_often() {
    let rounds = |pages: std::ops::Range<u32>, rounds: u32| (0..rounds).flat_map(move |_| pages.clone());
    let text: String = rounds(0..1000, 5).chain(rounds(1000..2000, 60)).map(|page| format!("{page}\n")).collect();
    let mut source =
        crate::trace::read_from(std::io::Cursor::new(text.into_bytes()), "t".as_ref(), &crate::trace::Format::Text)
            .unwrap();
    let trace = Trace::load("two", source.as_mut()).unwrap();
    let flash = FlashSpec::parse("predicted").unwrap();
    let outcome = simulate_flash(&trace, &"lru".parse().unwrap(), 50, &flash, 500, 1).unwrap();
    // Half of the loop fits: 500 of each 1000 requests, but for the first rounds.
    println!("{outcome:?}");
    assert!(outcome.flash.hits > 40 * 450 && outcome.flash.written < 8 * 500, "{outcome:?}");
}

#[test]
fn what_is_no_tier_is_refused_in_one_line() {
    let error = |text: &str| FlashSpec::parse(text).unwrap_err();
    assert_eq!(error("none"), "no tier `none`; there are predicted, second-touch, tenth, all, blocks, opt");
    assert_eq!(error("all(evict=opt)"), "`evict=opt` needs the future; there is the tier `opt`");
    assert_eq!(error("blocks(pages=0)"), "`pages=0` must be a number from 1 to 4294967295");
    assert_eq!(error("blocks(evict=lru)"), "tier `blocks` has no parameter `evict`");
    assert_eq!(error("tenth(evict"), "`tenth(evict` does not end in `)`");
    assert_eq!(error("tenth(evict)"), "`tenth(evict)` is not name(parameter=value,...)");
    assert!(error("all(evict=lruu)").contains("unknown policy `lruu`"));
}
