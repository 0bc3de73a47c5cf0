//! A C program, as far as the linker can tell: no std, no allocator, no unwinding, and yet
//! predictions and cooperation. Built and inspected by core-no-std.sh.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use core::sync::atomic::AtomicU64;
use pagecast_core::cooperation::{Cooperation, CooperationConfig, Loading, Chunk, Take, Unit};
use pagecast_core::forecast::{Clock, Forecast, Query, Template};
use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{Pages, Part, PredictorConfig, Registry, Run, ScanKind, ScanSpec, scatter};
use pagecast_core::steering::{Candidate, Switches, Uses, choose, pass};
use pagecast_core::{PageId, RelationId};

static MEMORY: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Whether the manager of cooperation loads for two scans what they share, and hands it to both.
fn cooperates(scans: u32) -> bool {
    let config = CooperationConfig { scans: 2 * scans, units: 2, words: 120 };
    let Ok(mut manager) = Cooperation::format(&MEMORY[..], config) else { return false };
    manager.set_loading(Loading::Manager { outstanding: scans });
    let unit = |first| Unit { relation: RelationId(1), first, blocks: 8 };
    let chunks = [
        Chunk { unit: unit(0), need: &[0b1111], joined: false },
        Chunk { unit: unit(7), need: &[0b1], joined: false },
    ];
    let Ok(long) = manager.register(&chunks, scans, 0, |_| false) else { return false };
    let [_, last] = chunks;
    let Ok(short) = manager.register(&[last], scans, 0, |_| false) else { return false };
    let full = manager.register(&chunks, scans, 0, |_| false).is_err();
    if manager.take(short, 0) != Take::Wait {
        return false;
    }
    let Some(load) = manager.next_load(1) else { return false };
    let mut pages = [None; 8];
    let mut count = 0;
    manager.pages(&load, |page| {
        if let Some(place) = pages.get_mut(count) {
            *place = Some(page);
        }
        count += 1;
    });
    pages.into_iter().flatten().for_each(|page| manager.arrived(page));
    manager.loaded(&load, 2);
    let mut woken = None;
    manager.wake(|member| woken = Some(member));
    let shared = Take::Chunk { chunk: 1, resident: true, shared: true };
    if !full || count != 1 || woken != Some(short) || manager.take(long, 3) != shared {
        return false;
    }
    manager.give_back(long, 1);
    manager.remove(long, 0);
    manager.left(PageId::new(RelationId(1), 7));
    if manager.take(long, 4) != Take::Wait || manager.take(short, 4) == Take::Wait {
        return false;
    }
    manager.consumed(short, 0);
    manager.finish(long);
    manager.finish(short);
    let mut members = 0;
    manager.members(|_| members += 1);
    members == 0 && manager.usage().words == 0 && Cooperation::attach(&MEMORY[..]).is_ok()
}

/// Whether a query that came twice is expected the third time, and given up when it does not come.
fn forecasts(scans: u32) -> bool {
    let config = PredictorConfig { scans: 2 * scans, parts: 2, runs: 4, ..PredictorConfig::EMPTY };
    let Ok(mut registry) = Registry::format(&MEMORY[..], config) else { return false };
    let mut templates = [Template::EMPTY; 12];
    let mut forecast = Forecast::new(&mut templates, Clock { start: 1_000_000, ticks_per_second: 1 });
    let run = [Run { first: 0, blocks: 8, position: 0, span: 8 }];
    let parts = [Part { relation: RelationId(1), pages: Pages::Runs(&run) }];
    let spec = ScanSpec { kind: ScanKind(0), length: 8, parts: &parts };
    for now in [0, 600] {
        forecast.review(&mut registry, now);
        forecast.begins(Query { fingerprint: 7, table: u64::from(scans), again_in: 0 }, &mut registry, now);
        let Ok(scan) = registry.register(&spec, now) else { return false };
        forecast.ends(7, scan, &mut registry, now + 10);
    }
    forecast.changed(1, &mut registry, 650);
    let wanted = |now| registry.predictor().next_access(Question::new(PageId::new(RelationId(1), 0), now));
    let expected = wanted(700) == Some(1000) && wanted(1300) == Some(200);
    (1..9).for_each(|n| forecast.review(&mut registry, n * 1000));
    let gone = registry.predictor().next_access(Question::new(PageId::new(RelationId(1), 0), 9000)).is_none();
    let kept = templates.iter().all(|known| Template::from_words(&known.to_words()).query() == known.query());
    expected && gone && kept
}

/// Returns 0 when predictor and manager say what they should.
#[unsafe(no_mangle)]
extern "C" fn main(arguments: i32, _: *const *const u8) -> i32 {
    // The number of arguments is 1, which the compiler does not know: nothing can be computed
    // before the program runs.
    let Ok(scans) = u32::try_from(arguments) else { return 1 };
    if !cooperates(scans) {
        return 20;
    }
    if !forecasts(scans) {
        return 21;
    }
    let config = PredictorConfig { scans, parts: 2, runs: 4, bitset_words: 8, cells: 4, scan_words: 12, marks: 8 };
    let Ok(mut registry) = Registry::format(&MEMORY[..], config) else { return 2 };
    let predictor = registry.predictor();
    let wanted_at =
        |relation, block, now| predictor.next_access(Question::new(PageId::new(RelationId(relation), block), now));
    let wanted = |relation, block| wanted_at(relation, block, 2000);
    let chunks =
        [Run { first: 0, blocks: 8, position: 0, span: 0 }, Run { first: 8, blocks: 8, position: 1, span: 0 }];
    let parts = [Part { relation: RelationId(1), pages: Pages::Runs(&chunks) }];
    let spec = ScanSpec { kind: ScanKind(1), length: 41, parts: &parts };
    let Ok(scan) = registry.register_unordered(&spec, 0) else { return 9 };
    predictor.complete(scan, 1, 100);
    if (wanted_at(1, 7, 100), wanted_at(1, 8, 100)) != (Some(40 * 100 / 2), None) || !registry.finish(scan, 100) {
        return 10;
    }
    let runs = [Run { first: 0, blocks: 100, position: 0, span: 5000 }];
    let parts = [
        Part { relation: RelationId(1), pages: Pages::Runs(&runs) },
        Part { relation: RelationId(2), pages: Pages::Bitset { first: 0, words: &[0b1010], position: 4000 } },
    ];
    let spec = ScanSpec { kind: ScanKind(0), length: 5000, parts: &parts };
    let Ok(scan) = registry.register(&spec, 0) else { return 3 };
    predictor.report(scan, 1000, 2000);
    if (wanted(1, 60), wanted(2, 3), wanted(1, 5)) != (Some(4000), Some(6002), None) {
        return 4;
    }
    if scatter(0.9, 1000) != Some(279) {
        return 6;
    }
    let page = PageId::new(RelationId(1), 60);
    let uses = Uses::default().read_by_scan(page, 1, true, 0).0;
    let mut buffers = [Candidate { page, uses, wanted_in: 0, frame: 0, usage: 1, predicted: false }; 20];
    let victims = buffers.len().saturating_sub(arguments as usize);
    if choose(&mut buffers, victims, Switches::default(), &predictor, 2000).given != 19 || buffers[19].usage != 1 {
        return 8;
    }
    pass(&mut buffers);
    let mut running = 0;
    predictor.scans(|_| running += 1);
    if registry.register(&spec, 0).is_ok() {
        return 7;
    }
    i32::from(running != 1 || !registry.finish(scan, 2000) || wanted(1, 60).is_some())
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
