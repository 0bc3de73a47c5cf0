//! The forecast: queries that come back are expected before they start.
//!
//! Source: ours; facts and a bound are in the project's research notes. A *template* is what a host
//! takes for one query, by a fingerprint of its plan without the literals that move with time. The
//! [rhythm](Rhythm) of its starts says when it comes next, and the scan of its last run becomes an
//! expected one then, in the predictor that running scans use. What no template expects is what no
//! scan wants, and leaves first.
//!
//! Wrong forecasts are to cost little: one that fails is trusted less and moved to the next time,
//! and withdrawn when little trust is left. Expected scans give way to running ones where the
//! predictor has no room.
//!
//! Suits work that repeats. Of work that does not it learns nothing and expects nothing. Cost: a
//! start or an end of a query looks at 8 templates, a review at all; nothing on the path of a page.
//! Memory: a template takes [`Template::BYTES`], 1,024 of them 128 KiB, beside one expected scan
//! each in the predictor. All of it is given and never grows.

mod rhythm;
mod template;
mod week;

pub use rhythm::{NextStart, Rhythm};
pub use template::Template;

use crate::predictor::{Expectation, Registry};
use crate::sync::atomic::AtomicU64;
use crate::{ScanId, Tick};

/// Templates that hosts and the simulator know at a time.
pub const TEMPLATES: usize = 1024;

/// Templates that share a place: those of one set are told apart by looking at each.
const SET: usize = 8;

/// What a tick is, and when the first was.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clock {
    /// Local seconds since the epoch at tick 0.
    pub start: u64,
    /// Ticks of a second; at least 1.
    pub ticks_per_second: u64,
}

impl Clock {
    fn seconds(self, at: Tick) -> f64 {
        self.start as f64 + at as f64 / self.ticks_per_second.max(1) as f64
    }

    fn duration(self, seconds: f64) -> Tick {
        (seconds * self.ticks_per_second.max(1) as f64) as Tick
    }

    fn tick(self, seconds: f64) -> Tick {
        self.duration(seconds - self.start as f64)
    }
}

/// A query that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Of its plan, without literals that move with time. A query that scans several tables is one
    /// template for each, of fingerprints of their own.
    pub fingerprint: u64,
    /// The table that it scans, by any number that the host has for it.
    pub table: u64,
    /// Seconds from its start to the next, where whoever runs it says so, as a scheduler can; 0
    /// where it is to be learned. It is expected then after its first run, and judged as any other.
    pub again_in: u32,
}

/// The templates, and what they expect in a predictor.
///
/// Whoever calls holds the lock of the registry.
#[derive(Debug)]
pub struct Forecast<'a> {
    templates: &'a mut [Template],
    clock: Clock,
}

impl<'a> Forecast<'a> {
    /// Over templates that a host keeps: [`Template::EMPTY`] at first, later as they were left.
    pub fn new(templates: &'a mut [Template], clock: Clock) -> Self {
        Self { templates, clock }
    }

    /// A query begins. To be said before its scan registers: from here on the run after this one is
    /// expected.
    pub fn begins<M: AsRef<[AtomicU64]> + Clone>(&mut self, query: Query, registry: &mut Registry<M>, now: Tick) {
        let (clock, at) = (self.clock, self.clock.seconds(now));
        let Some(template) = self.place_for(query, registry, now) else { return };
        template.starts(at, query.again_in);
        expect_next(template, clock, registry, now);
    }

    /// A query's scan ends: it is expected again, or finished.
    pub fn ends<M: AsRef<[AtomicU64]> + Clone>(
        &mut self,
        fingerprint: u64,
        scan: ScanId,
        registry: &mut Registry<M>,
        now: Tick,
    ) {
        let (clock, at) = (self.clock, self.clock.seconds(now));
        match self.known(fingerprint).and_then(|template| Some((template.next(at)?, template))) {
            Some((next, template)) => {
                template.withdraw(registry, now);
                let expected = expectation(clock, next, template.trust());
                template.expects(registry.expect(scan, expected, now));
            }
            None => _ = registry.finish(scan, now),
        }
    }

    /// A table has changed: queries that come after that are expected.
    pub fn changed<M: AsRef<[AtomicU64]> + Clone>(&mut self, table: u64, registry: &mut Registry<M>, now: Tick) {
        let (clock, at) = (self.clock, self.clock.seconds(now));
        for template in self.templates.iter_mut().filter(|template| template.scans(table)) {
            template.changes(at);
            expect_next(template, clock, registry, now);
        }
    }

    /// Looks for templates that are overdue: each is trusted less and expected the next time, or
    /// no more. To be called now and then, as when a query begins.
    pub fn review<M: AsRef<[AtomicU64]> + Clone>(&mut self, registry: &mut Registry<M>, now: Tick) {
        let (clock, at) = (self.clock, self.clock.seconds(now));
        for template in self.templates.iter_mut().filter(|template| template.has_failed(at)) {
            template.fails();
            expect_next(template, clock, registry, now);
        }
    }

    /// Takes in what another forecast has learned of a query, unless it is known here.
    pub fn restore<M: AsRef<[AtomicU64]> + Clone>(&mut self, learned: Template, registry: &mut Registry<M>, now: Tick) {
        let query = learned.query();
        if learned.is_taken()
            && self.known(query.fingerprint).is_none()
            && let Some(place) = self.place_for(query, registry, now)
        {
            *place = learned;
        }
    }

    /// Forgets a template. Whether it was known.
    pub fn forget<M: AsRef<[AtomicU64]> + Clone>(
        &mut self,
        fingerprint: u64,
        registry: &mut Registry<M>,
        now: Tick,
    ) -> bool {
        self.known(fingerprint).map(|template| template.clear(registry, now)).is_some()
    }

    fn known(&mut self, fingerprint: u64) -> Option<&mut Template> {
        self.set(fingerprint).iter_mut().find(|template| template.is(fingerprint))
    }

    fn set(&mut self, fingerprint: u64) -> &mut [Template] {
        let sets = self.templates.len().div_ceil(SET).max(1);
        let first = crate::words::scatter(fingerprint, sets) * SET;
        let end = self.templates.len().min(first + SET);
        self.templates.get_mut(first..end).unwrap_or_default()
    }

    /// The template of `query`. A new one takes the place of the one that is worth least.
    fn place_for<M: AsRef<[AtomicU64]> + Clone>(
        &mut self,
        query: Query,
        registry: &mut Registry<M>,
        now: Tick,
    ) -> Option<&mut Template> {
        let at = self.clock.seconds(now);
        let set = self.set(query.fingerprint);
        let known = set.iter().position(|template| template.is(query.fingerprint));
        let place = known.or_else(|| {
            let worths = set.iter().map(|template| template.worth(at)).enumerate();
            worths.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(place, _)| place)
        })?;
        let template = set.get_mut(place)?;
        if known.is_none() {
            template.clear(registry, now);
            *template = Template::of(query);
        }
        Some(template)
    }
}

/// Moves the template's expected scan, if it has one, to the next start after `now`.
fn expect_next<M: AsRef<[AtomicU64]> + Clone>(
    template: &mut Template,
    clock: Clock,
    registry: &mut Registry<M>,
    now: Tick,
) {
    match template.next(clock.seconds(now)) {
        Some(next) => template.move_to(registry, expectation(clock, next, template.trust())),
        None => template.withdraw(registry, now),
    }
}

fn expectation(clock: Clock, next: NextStart, trust: f32) -> Expectation {
    Expectation { start: clock.tick(next.at), spread: clock.duration(f64::from(next.spread)), trust }
}
