//! The scans of a trace, registered with the predictor while the trace is replayed.

use super::SimulationError;
use crate::trace::{LoadedEvent, Registration, ScanNumber, Trace};
use pagecast_core::predictor::{Pages, Part, Predictor, PredictorConfig, Registry, ScanKind, ScanSpec};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{ScanId, Tick};
use std::sync::Arc;

type Memory = Arc<[AtomicU64]>;

/// The predictor, and which of its scans is which of the trace's.
pub(super) struct Scans {
    registry: Registry<Memory>,
    predictor: Predictor<Memory>,
    /// By number in the trace; `None` before registration and after the end.
    running: Vec<Option<ScanId>>,
    name: String,
    fault: Option<SimulationError>,
}

impl Scans {
    /// A predictor with room for all that runs at one time in `trace`, and in logical time may.
    pub(super) fn of(trace: &Trace) -> Self {
        let config = room_for(trace);
        let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let registry = Registry::format(memory, config).expect("the memory was made for this configuration");
        let predictor = registry.predictor();
        Self { registry, predictor, running: Vec::new(), name: trace.name.clone(), fault: None }
    }

    /// What policies ask.
    pub(super) fn oracle(&self) -> Predictor<Memory> {
        self.predictor.clone()
    }

    /// The predictor's name for a scan of the trace.
    pub(super) fn id(&self, scan: ScanNumber) -> Option<ScanId> {
        self.running.get(scan as usize).copied().flatten()
    }

    /// Tells the predictor what happened. False if it refused; then the replay is to end.
    pub(super) fn apply(&mut self, event: &LoadedEvent, now: Tick) -> bool {
        match event {
            LoadedEvent::Register(registration) => return self.register(registration, now),
            LoadedEvent::Report(scan, position) => {
                if let Some(id) = self.id(*scan) {
                    self.predictor.report(id, *position, now);
                }
            }
            LoadedEvent::Finish(scan) => {
                if let Some(id) = self.running.get_mut(*scan as usize).and_then(Option::take) {
                    self.registry.finish(id, now);
                }
            }
            // Of streams, not of scans.
            LoadedEvent::Pace(_) | LoadedEvent::Wait(_) => {}
        }
        true
    }

    fn register(&mut self, registration: &Registration, now: Tick) -> bool {
        let parts = registration.parts.iter();
        let parts: Vec<_> =
            parts.map(|(relation, runs)| Part { relation: *relation, pages: Pages::Runs(runs) }).collect();
        let spec = ScanSpec { kind: ScanKind(registration.kind), length: registration.length, parts: &parts };
        match self.registry.register(&spec, now) {
            Ok(id) => {
                let at = registration.scan as usize;
                self.running.resize(self.running.len().max(at + 1), None);
                self.running[at] = Some(id);
                true
            }
            Err(error) => {
                let (trace, scan) = (self.name.clone(), registration.scan);
                self.fault = Some(SimulationError::Scan { trace, scan, cause: error.to_string() });
                false
            }
        }
    }

    /// The refusal that ended the replay, if one did.
    pub(super) fn fault(self) -> Result<(), SimulationError> {
        self.fault.map_or(Ok(()), Err)
    }
}

/// Room for the scans that run at one time. In logical time the streams run against each other as they will, but a
/// stream keeps to its own order: the sum over streams of what each runs at most holds for every interleaving.
fn room_for(trace: &Trace) -> PredictorConfig {
    #[derive(Clone, Copy, Default)]
    struct Room([u64; 3]);
    impl Room {
        fn of(registration: &Registration) -> Self {
            let runs: usize = registration.parts.iter().map(|(_, runs)| runs.len()).sum();
            Self([1, registration.parts.len() as u64, runs as u64])
        }
    }
    let mut needs: Vec<Room> = Vec::new();
    // By stream: what runs now, and at most so far.
    let mut streams = vec![(Room::default(), Room::default()); trace.stream_count() as usize];
    for event in trace.events() {
        let (now, most) = &mut streams[event.stream as usize];
        match &event.event {
            LoadedEvent::Register(registration) => {
                let need = Room::of(registration);
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
    let sum = |i: usize| streams.iter().map(|(_, most)| most.0[i]).sum::<u64>().clamp(1, 1 << 26) as u32;
    // Runs lie next to each other in one space that fragments: twice the room.
    PredictorConfig { scans: sum(0), parts: sum(1), runs: 2 * sum(2), cells: 4096, ..PredictorConfig::EMPTY }
}
