//! The forecast: rhythms by themselves, and templates with the predictor.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast_core::forecast::{Clock, Forecast, Query, Rhythm, Template};
use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{Pages, Part, Predictor, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
use pagecast_core::{PageId, RelationId, ScanId, sync::atomic::AtomicU64};
use std::sync::Arc;

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
/// A Monday's midnight.
const MONDAY: f64 = 1_767_571_200.0;

fn rhythm(starts: impl IntoIterator<Item = f64>) -> Rhythm {
    let mut rhythm = Rhythm::NEW;
    starts.into_iter().for_each(|at| rhythm.starts(MONDAY + at));
    rhythm
}

/// When it comes after `at`, from Monday's midnight on.
fn next(rhythm: &Rhythm, at: f64) -> f64 {
    rhythm.next(MONDAY + at).unwrap().at - MONDAY
}

#[test]
fn the_second_start_tells_the_third() {
    assert_eq!(rhythm([]).next(MONDAY), None);
    assert_eq!(rhythm([5.0]).next(MONDAY + 5.0), None);
    assert_eq!(next(&rhythm([5.0, 65.0]), 65.0), 125.0);
    assert_eq!(next(&rhythm([5.0, 65.0]), 130.0), 185.0, "one run was left out");
}

#[test]
fn noise_widens_the_spread_and_not_the_gap() {
    let calm = rhythm((0..40).map(|n| f64::from(n) * 60.0)).next(MONDAY).unwrap();
    let noisy = rhythm((0..40).map(|n| f64::from(n) * 60.0 + f64::from(n % 3) * 6.0)).next(MONDAY).unwrap();
    assert_eq!(calm.spread, 0.0);
    assert!((3.0..12.0).contains(&noisy.spread) && noisy.window > calm.window, "{noisy:?}");
    assert!((noisy.at - calm.at).abs() < 18.0, "{noisy:?} {calm:?}");
}

#[test]
fn office_hours_end_with_a_night() {
    let office = |day: i32| (0..40).map(move |n| f64::from(day) * DAY + 8.0 * HOUR + f64::from(n) * 900.0);
    let known = rhythm((0..3).flat_map(office));
    let evening = 2.0 * DAY + 17.75 * HOUR;
    assert_eq!(next(&known, evening), evening + 900.0, "it may go on");
    assert_eq!(next(&known, evening + 1000.0), 3.0 * DAY + 8.0 * HOUR);
}

/// Starts at eight on these days, the first of which is a Monday.
fn mornings(days: impl IntoIterator<Item = u32>) -> Vec<f64> {
    days.into_iter().map(|day| f64::from(day) * DAY + 8.0 * HOUR).collect()
}

fn workdays(weeks: u32) -> impl Iterator<Item = u32> {
    (0..7 * weeks).filter(|day| day % 7 < 5)
}

#[test]
fn a_weekend_is_known_when_it_is_over() {
    let nine = |day: u32| f64::from(day) * DAY + 9.0 * HOUR;
    let eight = |day: u32| f64::from(day) * DAY + 8.0 * HOUR;
    let monday = rhythm(mornings(workdays(1).chain([7])));
    assert_eq!(next(&monday, nine(7)), eight(8), "a weekend is no gap");
    assert_eq!(monday.next(MONDAY + nine(7)).unwrap().spread, 0.0);
    let friday = rhythm(mornings(workdays(2)));
    assert_eq!(next(&friday, nine(11)), eight(14), "over the weekend");
    let saturday = rhythm(mornings(workdays(2).chain([12])));
    assert_eq!(next(&saturday, nine(12)), eight(14), "Sunday is still off");
    let after = rhythm(mornings(workdays(2).chain([12]).chain(14..19)));
    assert_eq!(next(&after, nine(18)), eight(19), "it came last Saturday");
    // One that begins on a Friday takes the first weekend for its gap, until Tuesday.
    let begun = rhythm(mornings([4, 7, 8, 9]));
    assert_eq!(next(&begun, nine(9)), eight(10));
    let begun = rhythm(mornings([4, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18]));
    assert_eq!(next(&begun, nine(18)), eight(21));
}

#[test]
fn office_hours_end_with_a_weekend() {
    let office = |day: u32| (0..40).map(move |n| f64::from(day) * DAY + 8.0 * HOUR + f64::from(n) * 900.0);
    let known = rhythm(workdays(2).flat_map(office));
    assert_eq!(next(&known, 11.0 * DAY + 20.0 * HOUR), 14.0 * DAY + 8.0 * HOUR);
    let monday = rhythm(workdays(3).filter(|day| *day < 15).flat_map(office));
    assert_eq!(next(&monday, 14.0 * DAY + 20.0 * HOUR), 15.0 * DAY + 8.0 * HOUR);
}

#[test]
fn who_does_not_come_each_day_has_no_days_off() {
    let every = |days: usize, count: u32| (0..count).step_by(days);
    for (days, count) in [(2, 41), (3, 43), (7, 71)] {
        let known = rhythm(mornings(every(days, count)));
        let last = f64::from(count - 1) * DAY + 8.0 * HOUR;
        assert_eq!(next(&known, last), last + days as f64 * DAY);
    }
    // Nor after a run too many.
    let known = rhythm(mornings(every(2, 21).chain([21]).chain((22..60).step_by(2))));
    let last = 58.0 * DAY + 8.0 * HOUR;
    let missed = next(&known, last) - last - 2.0 * DAY;
    assert!(missed.abs() < HOUR, "{missed}");
    // A holiday of two weeks is not what Mondays are like.
    let known = rhythm(mornings(workdays(2).chain(28..33)));
    let last = 32.0 * DAY + 8.0 * HOUR;
    assert_eq!(next(&known, last), 35.0 * DAY + 8.0 * HOUR);
}

#[test]
fn bursts_come_again_as_a_whole() {
    let known = rhythm((0..5).flat_map(|n| (0..6).map(move |k| f64::from(n) * 4.0 * HOUR + f64::from(k) * 30.0)));
    let last = 16.0 * HOUR + 150.0;
    assert_eq!(next(&known, last + 40.0), 20.0 * HOUR);
    assert_eq!(next(&known, 20.0 * HOUR + 40.0), 24.0 * HOUR, "one burst was left out");
}

#[test]
fn a_new_gap_is_learned_soon() {
    let slower = rhythm([0.0, 60.0, 120.0, 180.0, 780.0, 1380.0]);
    assert_eq!(next(&slower, 1380.0), 1980.0, "two absences in a row are the gap");
    let faster = rhythm([0.0, 600.0, 1200.0, 1260.0, 1320.0]);
    assert_eq!(next(&faster, 1320.0), 1380.0);
}

#[test]
fn what_follows_loads_is_expected_after_the_next() {
    let mut known = Rhythm::NEW;
    // Loads come when they will; the report follows after 100 seconds.
    let loads = [0.0, 3000.0, 5000.0, 12_000.0, 14_000.0, 20_000.0, 28_000.0];
    for load in loads {
        known.changes(MONDAY + load);
        known.starts(MONDAY + load + 100.0);
    }
    known.changes(MONDAY + 29_000.0);
    assert_eq!(next(&known, 29_000.0), 29_100.0);
    // Of one that keeps to the clock loads say nothing.
    let mut clock = rhythm((0..20).map(|n| f64::from(n) * 600.0));
    clock.changes(MONDAY + 11_500.0);
    assert_eq!(next(&clock, 11_500.0), 12_000.0);
}

/// A forecast with a predictor, at a clock of seconds.
struct Known {
    registry: Registry<Arc<[AtomicU64]>>,
    predictor: Predictor<Arc<[AtomicU64]>>,
    templates: Vec<Template>,
    /// What who runs a query says of its next run.
    again_in: u32,
}

impl Known {
    const CLOCK: Clock = Clock { start: MONDAY as u64, ticks_per_second: 1 };

    fn new(templates: usize) -> Self {
        let config = PredictorConfig { scans: 64, parts: 64, runs: 64, ..PredictorConfig::EMPTY };
        let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let registry = Registry::format(memory, config).unwrap();
        let predictor = registry.predictor();
        Self { registry, predictor, templates: vec![Template::EMPTY; templates], again_in: 0 }
    }

    fn forecast(&mut self) -> (Forecast<'_>, &mut Registry<Arc<[AtomicU64]>>) {
        (Forecast::new(&mut self.templates, Self::CLOCK), &mut self.registry)
    }

    fn begin(&mut self, fingerprint: u64, at: u64) -> ScanId {
        let again_in = self.again_in;
        let (mut forecast, registry) = self.forecast();
        forecast.review(registry, at);
        forecast.begins(Query { fingerprint, table: 1, again_in }, registry, at);
        let run = [Run { first: 0, blocks: 10, position: 0, span: 10 }];
        let parts = [Part { relation: RelationId(fingerprint as u32), pages: Pages::Runs(&run) }];
        self.registry.register(&ScanSpec { kind: ScanKind(0), length: 10, parts: &parts }, at).unwrap()
    }

    fn run(&mut self, fingerprint: u64, at: u64) {
        let scan = self.begin(fingerprint, at);
        self.predictor.report(scan, 10, at + 10);
        let (mut forecast, registry) = self.forecast();
        forecast.ends(fingerprint, scan, registry, at + 10);
    }

    fn review(&mut self, at: u64) {
        let (mut forecast, registry) = self.forecast();
        forecast.review(registry, at);
    }

    /// When the first page of the template's scan is wanted.
    fn wanted(&self, fingerprint: u64, at: u64) -> Option<u64> {
        self.predictor.next_access(Question::new(PageId::new(RelationId(fingerprint as u32), 0), at))
    }

    fn template(&self, fingerprint: u64) -> Option<&Template> {
        self.templates.iter().find(|template| template.is_taken() && template.query().fingerprint == fingerprint)
    }

    fn expected(&self) -> usize {
        let mut count = 0;
        self.predictor.expected(|_| count += 1);
        count
    }
}

#[test]
fn a_report_that_came_twice_is_expected() {
    let mut known = Known::new(64);
    known.run(7, 0);
    assert_eq!((known.wanted(7, 20), known.expected()), (None, 0));
    known.run(7, 3600);
    let half = known.wanted(7, 3700).unwrap();
    assert_eq!(half, 2 * 3500, "half as sure, twice as late");
    known.run(7, 7200);
    let surer = known.wanted(7, 7300).unwrap();
    assert!((3500..half).contains(&surer), "{surer}");
    // While it runs the next one is expected, with the pages of the last.
    let scan = known.begin(7, 10_800);
    assert_eq!(known.wanted(7, 10_800), Some(0));
    known.predictor.report(scan, 10, 10_810);
    assert!(known.wanted(7, 10_810).is_some_and(|ticks| ticks >= 3500));
    assert_eq!(known.template(7).unwrap().outcomes(), (2, 0));
}

#[test]
fn a_report_that_stops_is_given_up_and_welcome_when_it_returns() {
    let mut known = Known::new(64);
    (0..10).for_each(|n| known.run(7, n * 600));
    let before = known.template(7).unwrap().trust();
    for at in (5400..20_000).step_by(100) {
        known.review(at);
    }
    assert_eq!((known.wanted(7, 20_000), known.expected()), (None, 0));
    let template = known.template(7).unwrap();
    assert!(template.trust() < before && template.due().is_none() && template.outcomes().1 == 1);
    known.run(7, 50_000);
    known.run(7, 50_600);
    assert!(known.wanted(7, 50_700).is_some());
}

#[test]
fn a_report_that_lies_is_never_expected_soon() {
    let mut known = Known::new(64);
    let mut at = 0;
    // Gaps that never are what those before let expect.
    for n in 0..30 {
        known.run(9, at);
        at += if n % 2 == 0 { 1000 } else { 2900 };
    }
    let due = known.template(9).unwrap().due().unwrap() - MONDAY;
    assert!(known.wanted(9, due as u64).is_some_and(|ticks| ticks > 700));
}

#[test]
fn one_off_queries_do_not_drive_out_what_comes_back() {
    let mut known = Known::new(64);
    let mut once = 1000;
    for n in 0..20 {
        for report in 1..=8 {
            known.run(report, n * 3600 + report * 60);
        }
        for _ in 0..40 {
            once += 1;
            known.run(once, n * 3600 + 1800);
        }
    }
    assert!((1..=8).all(|report| known.template(report).is_some_and(|template| template.starts_seen() == 20)));
    assert_eq!(known.expected(), 8);
    let (mut forecast, registry) = known.forecast();
    assert!(forecast.forget(3, registry, 80_000) && !forecast.forget(3, registry, 80_000));
    assert_eq!((known.expected(), known.template(3)), (7, None));
}

#[test]
fn what_was_learned_outlives_the_process() {
    let mut known = Known::new(64);
    (0..10).for_each(|n| known.run(7, n * 600));
    let words: Vec<_> = known.templates.iter().map(Template::to_words).collect();
    let mut again = Known::new(0);
    again.templates = words.iter().map(Template::from_words).collect();
    let (before, after) = (known.template(7).unwrap(), again.template(7).unwrap());
    assert_eq!((after.rhythm(), after.due(), after.trust()), (before.rhythm(), before.due(), before.trust()));
    assert_eq!((after.outcomes(), after.scan()), (before.outcomes(), None));
    // The first run says what it reads; when it comes is known.
    again.run(7, 6000);
    assert!(again.wanted(7, 6100).is_some_and(|ticks| (500..700).contains(&ticks)));
    // Words that make no sense are no template, and do no harm.
    for (at, bad) in (4..Template::WORDS).flat_map(|at| [f64::NAN, f64::INFINITY, -1.0].map(|bad| (at, bad.to_bits())))
    {
        let mut words = before.to_words();
        words[at] = bad;
        let template = Template::from_words(&words);
        assert!(template == Template::EMPTY, "word {at}: {template:?}");
    }
}

#[test]
fn who_knows_when_it_comes_again_may_say_so() {
    let mut known = Known::new(64);
    known.again_in = 86_400;
    known.run(7, 1000);
    assert_eq!(known.wanted(7, 1100).map(|ticks| ticks / 1000), Some(2 * 86_300 / 1000), "trusted by half at first");
    known.run(7, 87_400);
    assert_eq!(known.template(7).unwrap().outcomes(), (1, 0));
    // What is said is judged as what is learned.
    known.review(87_400 + 2 * 86_400);
    assert_eq!(known.template(7).unwrap().outcomes(), (1, 1));
    // No more is said, and the rhythm goes on from there.
    known.again_in = 0;
    known.run(8, 300_000);
    known.run(7, 300_100);
    assert!(known.wanted(7, 300_200).is_some() && known.wanted(8, 300_200).is_none());
}

#[test]
fn a_template_takes_what_is_said() {
    assert_eq!(1024 * Template::BYTES, 128 << 10);
    let mut none = Known::new(0);
    none.run(1, 5);
    assert_eq!(none.expected(), 0);
}
