//! The forecast for C: statements that come back, in memory that the processes share.

use pagecast_core::ScanId;
use pagecast_core::forecast::{Clock, Forecast, Query, TEMPLATES, Template};
use pagecast_core::predictor::{Predictor, Registry};

use crate::pointers::{Memory, Templates, put};

/// The predictor's tick.
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// A statement that may come back, as a view shows it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct View {
    fingerprint: u64,
    scan: u64,
    length: u64,
    due: f64,
    last: f64,
    trust: f64,
    runs: u32,
    came: u32,
    failed: u32,
}

fn forecast(templates: Templates) -> Forecast<'static> {
    let clock = Clock { start: templates.start(), ticks_per_second: TICKS_PER_SECOND };
    Forecast::new(templates.places(), clock)
}

#[unsafe(no_mangle)]
/// Bytes of the places for statements.
pub extern "C" fn predictor_templates_bytes() -> usize {
    TEMPLATES * Template::BYTES
}

#[unsafe(no_mangle)]
/// Makes all places free.
pub extern "C" fn predictor_templates_format(templates: Templates) {
    templates.places().fill(Template::EMPTY);
}

#[unsafe(no_mangle)]
/// A statement begins to read a table.
pub extern "C" fn predictor_begins(
    memory: Memory,
    templates: Templates,
    fingerprint: u64,
    table: u32,
    again_in: u32,
    now: u64,
) {
    if let Ok(mut registry) = Registry::attach(memory.words()) {
        forecast(templates).begins(Query { fingerprint, table: table.into(), again_in }, &mut registry, now);
    }
}

#[unsafe(no_mangle)]
/// Its scan has read all: it is expected again, or finished. Whether it was running.
pub extern "C" fn predictor_ends(memory: Memory, templates: Templates, fingerprint: u64, scan: u64, now: u64) -> bool {
    let Ok(mut registry) = Registry::attach(memory.words()) else { return false };
    let scan = ScanId::from_raw(scan);
    let runs = registry.predictor().scan(scan).is_some_and(|scan| scan.expected.is_none());
    if runs {
        forecast(templates).ends(fingerprint, scan, &mut registry, now);
    }
    runs
}

#[unsafe(no_mangle)]
/// Looks for statements that are overdue; whether any is expected.
pub extern "C" fn predictor_review(memory: Memory, templates: Templates, now: u64) -> bool {
    let Ok(mut registry) = Registry::attach(memory.words()) else { return false };
    forecast(templates).review(&mut registry, now);
    let mut expects = false;
    registry.predictor().expected(|_| expects = true);
    expects
}

#[unsafe(no_mangle)]
/// Forgets a statement; whether it was known.
pub extern "C" fn predictor_forget(memory: Memory, templates: Templates, fingerprint: u64, now: u64) -> bool {
    Registry::attach(memory.words())
        .is_ok_and(|mut registry| forecast(templates).forget(fingerprint, &mut registry, now))
}

#[unsafe(no_mangle)]
/// The statement of a place, counted from 0: 1 if one has it, 0 if none, -1 behind the last place.
pub extern "C" fn predictor_template(memory: Memory, templates: Templates, place: usize, view: *mut View) -> i32 {
    let Some(template) = templates.seen().get(place) else { return -1 };
    if !template.is_taken() {
        return 0;
    }
    let predictor = Predictor::attach(memory.words()).ok();
    let expected = template.scan().and_then(|scan| predictor?.scan(scan)).filter(|scan| scan.expected.is_some());
    let (came, failed) = template.outcomes();
    let shown = View {
        fingerprint: template.query().fingerprint,
        scan: expected.map_or(ScanId::NOBODY, |scan| scan.id).raw(),
        length: expected.map_or(0, |scan| scan.length),
        due: template.due().unwrap_or(0.0),
        last: template.rhythm().last(),
        trust: f64::from(template.trust()),
        runs: template.starts_seen(),
        came,
        failed,
    };
    put(view, shown);
    1
}
