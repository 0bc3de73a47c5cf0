//! The scans of a trace, registered with the predictor while the trace is replayed.

use super::{Options, SimulationError};
use crate::trace::{Extent, LoadedEvent, Registration, ScanNumber, Trace};
use pagecast_core::forecast::{Clock, Forecast, Query, TEMPLATES, Template};
use pagecast_core::predictor::{Pages, Part, Predictor, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{PageId, RelationId, ScanId, Tick};
use std::collections::HashMap;
use std::sync::Arc;

type Memory = Arc<[AtomicU64]>;

/// A scan of the trace while it runs.
#[derive(Clone, Copy)]
struct Running {
    id: ScanId,
    /// Of a scan that registered one run, that run. Where it asks for pages of another relation, it
    /// goes along an index, and its position names the entry that leads to the page.
    entries: Option<(RelationId, Run)>,
    position: u64,
    template: Option<u64>,
}

/// The predictor, and which of its scans is which of the trace's.
pub(super) struct Scans {
    registry: Registry<Memory>,
    predictor: Predictor<Memory>,
    /// By number in the trace; `None` before registration and after the end.
    running: Vec<Option<Running>>,
    /// What is known of the trace's queries, if they are to be expected.
    forecast: Option<Known>,
    bitsets: bool,
    name: String,
    fault: Option<SimulationError>,
}

impl Scans {
    /// A predictor with room for all that runs at one time in `trace`, and in logical time may.
    /// With `forecast` queries that come back are expected.
    pub(super) fn of(trace: &Trace, options: &Options, forecast: bool) -> Self {
        let config = room_for(trace, options, forecast);
        let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let registry = Registry::format(memory, config).expect("the memory was made for this configuration");
        let predictor = registry.predictor();
        let (name, bitsets) = (trace.name.clone(), options.bitsets);
        let forecast = forecast.then(|| Known::of(trace));
        Self { registry, predictor, running: Vec::new(), forecast, bitsets, name, fault: None }
    }

    /// What policies ask.
    pub(super) fn oracle(&self) -> Predictor<Memory> {
        self.predictor.clone()
    }

    /// A scan of the trace asks for `page`: the predictor's name for the scan. One that goes along
    /// an index leaves a mark for those behind it.
    pub(super) fn request(&self, scan: ScanNumber, page: PageId) -> Option<ScanId> {
        let running = self.running.get(scan as usize)?.as_ref()?;
        if let Some((index, run)) = running.entries
            && index != page.relation()
            && let Some(entry) = entry_at(&run, running.position)
        {
            self.predictor.mark(page, PageId::new(index, entry));
        }
        Some(running.id)
    }

    /// Tells the predictor what happened. False if it refused; then the replay is to end.
    pub(super) fn apply(&mut self, event: &LoadedEvent, now: Tick) -> bool {
        match event {
            LoadedEvent::Register(registration) => return self.register(registration, now),
            LoadedEvent::Report(scan, position) => {
                if let Some(running) = self.running.get_mut(*scan as usize).and_then(Option::as_mut) {
                    running.position = *position;
                    self.predictor.report(running.id, *position, now);
                }
            }
            LoadedEvent::Finish(scan) => {
                let running = self.running.get_mut(*scan as usize);
                match (running.and_then(Option::take), &mut self.forecast) {
                    (Some(Running { id, template: Some(template), .. }), Some(known)) => {
                        known.forecast().ends(template, id, &mut self.registry, now);
                    }
                    (Some(running), _) => _ = self.registry.finish(running.id, now),
                    (None, _) => {}
                }
            }
            LoadedEvent::Changed(relation) => {
                if let Some(known) = &mut self.forecast {
                    known.forecast().changed(u64::from(relation.0), &mut self.registry, now);
                }
            }
            // Of streams, not of scans.
            LoadedEvent::Pace(_) | LoadedEvent::Wait(_) => {}
        }
        true
    }

    fn register(&mut self, registration: &Registration, now: Tick) -> bool {
        let bits: Vec<_> = registration.parts.iter().map(|(_, extent)| self.bitset(extent)).collect();
        let parts = registration.parts.iter().zip(&bits);
        let parts: Vec<_> = parts
            .map(|((relation, extent), bits)| Part {
                relation: *relation,
                pages: bits.as_ref().map_or_else(|| pages(extent), Bits::pages),
            })
            .collect();
        if let Some(known) = &mut self.forecast {
            known.begins(registration, &mut self.registry, now);
        }
        let spec = ScanSpec { kind: ScanKind(registration.kind), length: registration.length, parts: &parts };
        match self.registry.register(&spec, now) {
            Ok(id) => {
                let number = registration.scan as usize;
                self.running.resize(self.running.len().max(number + 1), None);
                self.running[number] =
                    Some(Running { id, entries: entries(registration), position: 0, template: registration.template });
                true
            }
            Err(error) => {
                let (trace, scan) = (self.name.clone(), registration.scan);
                self.fault = Some(SimulationError::Scan { trace, scan, cause: error.to_string() });
                false
            }
        }
    }

    /// The extent as a bitset, if that is asked for and it is one.
    fn bitset(&self, extent: &Extent) -> Option<Bits> {
        match extent {
            Extent::Runs(runs) if self.bitsets => Bits::of(runs),
            _ => None,
        }
    }

    /// The refusal that ended the replay, if one did.
    pub(super) fn fault(self) -> Result<(), SimulationError> {
        self.fault.map_or(Ok(()), Err)
    }
}

/// What is known of a trace's queries.
struct Known {
    templates: Vec<Template>,
    clock: Clock,
}

impl Known {
    fn of(trace: &Trace) -> Self {
        Self { templates: vec![Template::EMPTY; TEMPLATES], clock: trace.clock() }
    }

    fn forecast(&mut self) -> Forecast<'_> {
        Forecast::new(&mut self.templates, self.clock)
    }

    /// A scan is about to register.
    fn begins(&mut self, registration: &Registration, registry: &mut Registry<Memory>, now: Tick) {
        self.forecast().review(registry, now);
        if let (Some(fingerprint), Some((table, _))) = (registration.template, registration.parts.first()) {
            let query = Query { fingerprint, table: u64::from(table.0), again_in: 0 };
            self.forecast().begins(query, registry, now);
        }
    }
}

/// Blocks whose positions are their ranks.
struct Bits {
    first: u32,
    words: Vec<u64>,
    position: u64,
}

impl Bits {
    /// Of runs that do not overlap and follow each other on the axis, block by block.
    fn of(runs: &[Run]) -> Option<Self> {
        let first = runs.first()?;
        let ranked = |run: &Run| run.span == u64::from(run.blocks);
        let follows = |pair: &[Run]| {
            pair[0].first + pair[0].blocks <= pair[1].first && pair[0].position + pair[0].span == pair[1].position
        };
        if !runs.iter().all(ranked) || !runs.windows(2).all(follows) {
            return None;
        }
        let mut words = vec![0; blocks_between(runs).div_ceil(64) as usize];
        for block in runs.iter().flat_map(|run| run.first..run.first + run.blocks) {
            let bit = block - first.first;
            words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        Some(Self { first: first.first, words, position: first.position })
    }

    fn pages(&self) -> Pages<'_> {
        Pages::Bitset { first: self.first, words: &self.words, position: self.position }
    }
}

/// Blocks from the first to the last of runs in their order.
fn blocks_between(runs: &[Run]) -> u32 {
    match (runs.first(), runs.last()) {
        (Some(first), Some(last)) => last.first.saturating_add(last.blocks).saturating_sub(first.first),
        _ => 0,
    }
}

/// As the predictor has it.
fn pages(extent: &Extent) -> Pages<'_> {
    match extent {
        Extent::Runs(runs) => Pages::Runs(runs),
        Extent::Correlated { run, scatter, descending } => {
            Pages::Correlated { run: *run, scatter: *scatter, descending: *descending }
        }
    }
}

/// What a scan goes through, if that is one run of one relation.
fn entries(registration: &Registration) -> Option<(RelationId, Run)> {
    match &registration.parts[..] {
        [(relation, Extent::Runs(runs))] => match runs[..] {
            [run] => Some((*relation, run)),
            _ => None,
        },
        _ => None,
    }
}

/// The block of `run` at `position`; `None` if the run is not there or has no length.
fn entry_at(run: &Run, position: u64) -> Option<u32> {
    let offset = u128::from(position.checked_sub(run.position)?) * u128::from(run.blocks);
    let offset = u32::try_from(offset.checked_div(u128::from(run.span))?).ok()?;
    (offset < run.blocks).then(|| run.first + offset)
}

/// Marks for four times the pages where scans were led to some by an index; none where there are no
/// such scans.
fn marks_for(trace: &Trace) -> u32 {
    let mut relations = Vec::new();
    for event in trace.events() {
        if let LoadedEvent::Register(registration) = &event.event {
            let at = registration.scan as usize;
            relations.resize(relations.len().max(at + 1), None);
            relations[at] = entries(registration).map(|(relation, _)| relation);
        }
    }
    let led = |at: &usize| {
        let index = trace.scan(*at).and_then(|scan| relations.get(scan as usize).copied().flatten());
        index.is_some_and(|index| index != trace.pages()[trace.requests()[*at] as usize].relation())
    };
    let index_scans = (0..trace.requests().len()).any(|at| led(&at));
    if index_scans { trace.unique().saturating_mul(4).min(MOST_MARKS) } else { 0 }
}

/// 64 MiB of marks.
const MOST_MARKS: u32 = 1 << 22;

/// Room for the scans that run at one time. In logical time the streams run against each other as
/// they will, but a stream keeps to its own order: the sum over streams of what each runs at most
/// holds for every interleaving.
fn room_for(trace: &Trace, options: &Options, forecast: bool) -> PredictorConfig {
    #[derive(Clone, Copy, Default)]
    struct Room([u64; 3]);
    impl Room {
        fn of(registration: &Registration, bitsets: bool) -> Self {
            let runs = registration.parts.iter().map(|(_, extent)| match extent {
                // A bitset takes a word for 64 blocks and one for 8 of these, a run three.
                Extent::Runs(runs) if bitsets => (runs.len() as u64).max(u64::from(blocks_between(runs)) / 160 + 1),
                Extent::Runs(runs) => runs.len() as u64,
                // A word more than a run.
                Extent::Correlated { .. } => 2,
            });
            Self([1, registration.parts.len() as u64, runs.sum()])
        }
    }
    let mut needs: Vec<Room> = Vec::new();
    // By stream: what runs now, and at most so far.
    let mut streams = vec![(Room::default(), Room::default()); trace.stream_count() as usize];
    for event in trace.events() {
        let (now, most) = &mut streams[event.stream as usize];
        match &event.event {
            LoadedEvent::Register(registration) => {
                let need = Room::of(registration, options.bitsets);
                needs.resize(needs.len().max(registration.scan as usize + 1), Room::default());
                needs[registration.scan as usize] = need;
                for i in 0..3 {
                    now.0[i] += need.0[i];
                    most.0[i] = most.0[i].max(now.0[i]);
                }
            }
            LoadedEvent::Finish(scan) => {
                let need = needs.get_mut(*scan as usize).map(std::mem::take).unwrap_or_default();
                // Another stream than the one that registered it may end a scan.
                (0..3).for_each(|i| now.0[i] = now.0[i].saturating_sub(need.0[i]));
            }
            _ => {}
        }
    }
    // An expected scan for each query that has come twice.
    let known =
        if forecast { most_expected(trace, |registration| Room::of(registration, options.bitsets).0) } else { [0; 3] };
    let sum = |i: usize| (streams.iter().map(|(_, most)| most.0[i]).sum::<u64>() + known[i]).clamp(1, 1 << 26) as u32;
    // Runs lie next to each other in one space that fragments: twice the room.
    PredictorConfig {
        scans: sum(0),
        parts: sum(1),
        runs: 2 * sum(2),
        cells: 4096,
        scan_words: options.scan_words,
        marks: marks_for(trace),
        ..PredictorConfig::EMPTY
    }
}

/// The sum over queries that come again of the most that a scan of theirs needs.
fn most_expected(trace: &Trace, need: impl Fn(&Registration) -> [u64; 3]) -> [u64; 3] {
    let mut needs: HashMap<u64, (u32, [u64; 3])> = HashMap::new();
    for event in trace.events() {
        if let LoadedEvent::Register(registration) = &event.event
            && let Some(template) = registration.template
        {
            let (count, most) = needs.entry(template).or_default();
            *count += 1;
            let need = need(registration);
            (0..3).for_each(|i| most[i] = most[i].max(need[i]));
        }
    }
    let recurring = needs.values().filter(|(count, _)| *count > 1);
    recurring.fold([0; 3], |sum, (_, most)| [0, 1, 2].map(|i| sum[i] + most[i]))
}
