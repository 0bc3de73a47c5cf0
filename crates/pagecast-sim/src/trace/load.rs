//! A trace in memory, in the form that replays want: pages by number, everything in columns.

use super::error::{Place, TraceError};
use super::{Action, Numbering, Registration, Rows, ScanNumber, Source, StreamNumber};
use pagecast_core::forecast::Clock;
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId, Tick};

/// A replay takes at most this many requests: their indices, with a bit to spare, fit 32 bits.
pub const MAX_REQUESTS: usize = (1 << 31) - 1;

/// What happened between two requests.
#[derive(Clone, PartialEq, Debug)]
pub enum LoadedEvent {
    /// A scan registers.
    Register(Box<Registration>),
    /// A scan says that all positions before this one are done.
    Report(ScanNumber, u64),
    /// A scan ends.
    Finish(ScanNumber),
    /// A stream's own work per request.
    Pace(u32),
    /// A stream waits until a moment.
    Wait(Tick),
    /// A relation was changed.
    Changed(RelationId),
}

/// An event, and where among the requests it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct PlacedEvent {
    /// The index of the request that it comes before.
    pub before: u32,
    /// Whose it is.
    pub stream: StreamNumber,
    /// What happened.
    pub event: LoadedEvent,
}

/// A whole trace. 4 bytes a request for the pages; 4 each for streams, scans and items if there are
/// any; a bit for writes.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// What reports call it.
    pub name: String,
    requests: Vec<u32>,
    pages: Vec<PageId>,
    /// A bit per request; empty if nothing is written.
    writes: Vec<u64>,
    written: u64,
    /// Empty if all is of stream 0.
    streams: Vec<StreamNumber>,
    /// The scan plus 1; empty if there are no scans.
    scans: Vec<u32>,
    /// The item, or [`NO_ITEM`]; empty if no request names one.
    items: Vec<u32>,
    /// By relation; the last word counts.
    rows: Vec<(RelationId, Rows)>,
    events: Vec<PlacedEvent>,
    clock: Option<Clock>,
}

/// In [`Trace`]: the request is for a page.
const NO_ITEM: u32 = u32::MAX;

impl Trace {
    /// Reads `source` to its end.
    ///
    /// # Errors
    ///
    /// Those of `source`; no requests, or more than [`MAX_REQUESTS`].
    pub fn load(name: impl Into<String>, source: &mut dyn Source) -> Result<Self, TraceError> {
        let mut trace = Self { name: name.into(), ..Self::default() };
        let mut numbering = Numbering::default();
        let mut reads = Vec::new();
        while let Some(record) = source.next()? {
            let at = trace.requests.len();
            let (action, item) = match record.action {
                Action::Tuple { page, item, write } => (Action::Request { page, write, scan: None }, Some(item)),
                action => (action, None),
            };
            let event = match action {
                Action::Request { page, write, scan } => {
                    trace.bounded(1)?;
                    if at.is_multiple_of(1 << 12) {
                        numbering.adapt();
                    }
                    trace.requests.push(numbering.number(page));
                    trace.note(at, write, record.stream, scan, item);
                    source.reads(&mut reads)?;
                    trace.take_reads(&mut reads, &mut numbering)?;
                    continue;
                }
                Action::Rows(relation, rows) => {
                    trace.rows.retain(|(known, _)| *known != relation);
                    trace.rows.push((relation, rows));
                    continue;
                }
                Action::Clock(clock) => {
                    trace.clock = Some(clock);
                    continue;
                }
                Action::Register(registration) => LoadedEvent::Register(registration),
                Action::Report { scan, position } => LoadedEvent::Report(scan, position),
                Action::Finish { scan } => LoadedEvent::Finish(scan),
                Action::Pace { ticks } => LoadedEvent::Pace(ticks),
                Action::Wait { until } => LoadedEvent::Wait(until),
                Action::Changed(relation) => LoadedEvent::Changed(relation),
                Action::Tuple { .. } => continue, // became a request above
            };
            trace.events.push(PlacedEvent { before: at as u32, stream: record.stream, event });
        }
        if trace.requests.is_empty() {
            return Err(TraceError::at(Place::Whole, "holds no requests"));
        }
        trace.pages = numbering.into_pages();
        Ok(trace)
    }

    /// Refuses `more` requests than a replay takes.
    fn bounded(&self, more: usize) -> Result<(), TraceError> {
        if self.requests.len() + more <= MAX_REQUESTS {
            return Ok(());
        }
        let cause = format!("more than {MAX_REQUESTS} requests; sample or split the trace");
        Err(TraceError::at(Place::Whole, cause))
    }

    /// Appends reads of stream 0 outside scans, which leave the other columns as they are, and
    /// empties `reads`.
    fn take_reads(&mut self, reads: &mut Vec<PageId>, numbering: &mut Numbering) -> Result<(), TraceError> {
        if reads.is_empty() {
            return Ok(());
        }
        self.bounded(reads.len())?;
        self.requests.extend(reads.drain(..).map(|page| numbering.number(page)));
        numbering.adapt();
        Ok(())
    }

    /// Fills the columns that most traces do not have, from the first request that needs them.
    #[inline]
    fn note(&mut self, at: usize, write: bool, stream: StreamNumber, scan: Option<ScanNumber>, item: Option<u32>) {
        if write {
            self.written += 1;
            self.writes.resize(at / 64 + 1, 0);
            self.writes[at / 64] |= 1 << (at % 64);
        }
        if stream != 0 || !self.streams.is_empty() {
            self.streams.resize(at, 0);
            self.streams.push(stream);
        }
        if scan.is_some() || !self.scans.is_empty() {
            self.scans.resize(at, 0);
            self.scans.push(scan.map_or(0, |scan| scan + 1));
        }
        if item.is_some() || !self.items.is_empty() {
            self.items.resize(at, NO_ITEM);
            self.items.push(item.unwrap_or(NO_ITEM));
        }
    }

    /// The requests for a part of the pages, `rate` of them, chosen by a hash of the page and
    /// `seed`. Scans stay registered as they were; those of their requests that remain come to the
    /// same moments.
    #[must_use]
    pub fn sample(&self, rate: f64, seed: u64) -> Self {
        let below = (rate.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        let chosen = |page: &PageId| Random::new(page.raw() ^ seed.rotate_left(32)).next() <= below;
        let mut numbers = vec![None; self.pages.len()];
        let (name, rows) = (self.name.clone(), self.rows.clone());
        let mut sample = Self { name, rows, clock: self.clock, ..Self::default() };
        for (number, page) in self.pages.iter().enumerate().filter(|(_, page)| chosen(page)) {
            numbers[number] = Some(sample.pages.len() as u32);
            sample.pages.push(*page);
        }
        let mut events = self.events.iter().peekable();
        for (at, &page) in self.requests.iter().enumerate() {
            let kept = sample.requests.len();
            while let Some(event) = events.next_if(|event| event.before as usize <= at) {
                sample.events.push(PlacedEvent { before: kept as u32, ..event.clone() });
            }
            if let Some(number) = numbers[page as usize] {
                sample.requests.push(number);
                sample.note(kept, self.is_write(at), self.stream(at), self.scan(at), self.item(at));
            }
        }
        let end = sample.requests.len() as u32;
        sample.events.extend(events.map(|event| PlacedEvent { before: end, ..event.clone() }));
        sample
    }

    /// The requests, each a page's number.
    pub fn requests(&self) -> &[u32] {
        &self.requests
    }

    /// The pages by number.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// How many different pages there are.
    pub fn unique(&self) -> u32 {
        self.pages.len() as u32
    }

    /// How many requests write.
    pub fn writes(&self) -> u64 {
        self.written
    }

    /// Whether request `at` writes its page.
    #[inline]
    pub fn is_write(&self, at: usize) -> bool {
        self.writes.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// The stream of request `at`.
    #[inline]
    pub fn stream(&self, at: usize) -> StreamNumber {
        self.streams.get(at).copied().unwrap_or(0)
    }

    /// The scan of request `at`.
    #[inline]
    pub fn scan(&self, at: usize) -> Option<ScanNumber> {
        self.scans.get(at).copied().unwrap_or(0).checked_sub(1)
    }

    /// The item that request `at` names.
    #[inline]
    pub fn item(&self, at: usize) -> Option<u32> {
        self.items.get(at).copied().filter(|&item| item != NO_ITEM)
    }

    /// Whether any request names an item.
    pub fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// How items lie in the pages of `relation`, if the trace says so.
    pub fn rows(&self, relation: RelationId) -> Option<Rows> {
        self.rows.iter().find(|(known, _)| *known == relation).map(|&(_, rows)| rows)
    }

    /// What its ticks are: as it says, or milliseconds from the epoch on.
    pub fn clock(&self) -> Clock {
        self.clock.unwrap_or(Clock { start: 0, ticks_per_second: 1000 })
    }

    /// The widest pages that the trace speaks of.
    pub fn page_bytes(&self) -> Option<u32> {
        self.rows.iter().map(|(_, rows)| rows.page).max()
    }

    /// Registrations, reports and the like, in order.
    pub fn events(&self) -> &[PlacedEvent] {
        &self.events
    }

    /// Whether scans are registered: without them a predictive policy knows nothing.
    pub fn has_scans(&self) -> bool {
        self.events.iter().any(|event| matches!(event.event, LoadedEvent::Register(_)))
    }

    /// How many scans register.
    pub fn scan_count(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.event, LoadedEvent::Register(_))).count()
    }

    /// The number of streams, empty ones included.
    pub fn stream_count(&self) -> u32 {
        let of_events = self.events.iter().map(|event| event.stream).max().unwrap_or(0);
        self.streams.iter().copied().max().unwrap_or(0).max(of_events) + 1
    }
}
