//! Which buffers ahead of another's clock hand it should take, where the pool is not ours.
//!
//! Source: Khalaji et al., PVLDB 18(13) 2025, section 3 (the page that is wanted last goes) and 4.1
//! (of `samples * bulk` frames the `bulk` that are wanted last). PostgreSQL's clock sweep takes the
//! first unpinned buffer whose usage count is 0 and lowers the others on its way. A host that sets
//! the counts ahead of the hand therefore chooses the victims, and the server evicts them.
//!
//! Deviations: the sample is the stretch in front of the hand. It is as good as random, for where a
//! page lies says nothing about when it is wanted. Of pages wanted at the same moment the least
//! used go. A page that a scan has read and nobody wants goes also beyond `bulk`: it costs nothing.
//! Pages that no scan has read are judged by [`Uses`], because a guest does not see the accesses.
//!
//! Suits concurrent scans over more than the pool, beside other load. Cost: an estimate per buffer
//! looked at and a selection in linear time, 64 short steps each; 8 bytes per buffer. No
//! allocation, no panic.

use crate::{
    PageId, Tick,
    oracle::{Oracle, Question},
    random::hash,
    recurrence::Frequency,
};

/// The most a usage count may be, PostgreSQL's limit.
pub const MAX_USAGE: u8 = 5;

/// Usage count of a buffer that stays: low, so that the next uses raise it, and not so low that the
/// hand takes it when it comes by before anybody has looked again.
const KEEPS: u8 = 2;

/// Ticks (nanoseconds) in a unit of the times in [`Uses`], about a millisecond.
const UNIT_BITS: u32 = 20;
const TIME_BITS: u32 = 20;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Buffers that a clock's hand goes by for each victim where pages are read once: it comes to each
/// twice, to lower its count and to take it.
const STOCK_PACE: u64 = 2;

const INTERVAL_AT: u32 = TIME_BITS;
const LEFT_AT: u32 = 2 * TIME_BITS;
const KEPT: u64 = 1 << 44;
const SCANNED: u64 = 1 << 45;
const TAG_AT: u32 = 48;

/// What is remembered of one buffer, in 64 bits, 0 at the start: the page that was last seen there
/// (16 bits of a hash), the usage count that the hand leaves when nobody uses the page, when it was
/// used last and how often it is (20 bits each, in 2^20 ns, the first modulo 18 minutes), whether a
/// registered scan read it, and whether the page is there for our sake.
///
/// Counts of pages that stay for a scan are kept low, so that a rise is seen. Of a page that was
/// not seen twice nothing is known. The clock goes on with it as if we were not there, and no
/// faster: the hand comes by more often, and most times leaves the count as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Uses(pub u64);

impl Uses {
    /// A registered scan has read `page`, and its pin is in `usage`. The scan has told the
    /// predictor of it, hence it is no use that others might repeat. Second: whether the clock
    /// would have taken the page before, had it not been kept.
    pub fn read_by_scan(self, page: PageId, usage: u8, came_in: bool, now: Tick) -> (Self, bool) {
        if came_in || !self.is_of(page) {
            return (Self::of(page, usage, now).with(SCANNED), false);
        }
        let counted = self.left().saturating_add(1).min(MAX_USAGE);
        (self.with_left(counted).with(SCANNED).without(KEPT), self.0 & KEPT != 0)
    }

    /// Somebody else than such a scan has found `page`. Second: whether it had been kept; that is
    /// said once.
    pub fn found(self, page: PageId) -> (Self, bool) {
        let kept = self.is_of(page) && self.0 & KEPT != 0;
        (if kept { self.without(KEPT) } else { self }, kept)
    }

    fn of(page: PageId, left: u8, now: Tick) -> Self {
        Self(tag(page) << TAG_AT | time(now)).with_left(left)
    }

    fn is_of(self, page: PageId) -> bool {
        self.0 != 0 && self.0 >> TAG_AT == tag(page)
    }

    fn left(self) -> u8 {
        (self.0 >> LEFT_AT) as u8 & 0xf
    }

    fn with_left(self, left: u8) -> Self {
        Self(self.0 & !(0xf << LEFT_AT) | u64::from(left & 0xf) << LEFT_AT)
    }

    fn with(self, bit: u64) -> Self {
        Self(self.0 | bit)
    }

    fn without(self, bit: u64) -> Self {
        Self(self.0 & !bit)
    }

    fn with_interval(self, interval: u64) -> Self {
        Self(self.0 & !(TIME_MASK << INTERVAL_AT) | interval.clamp(1, TIME_MASK) << INTERVAL_AT)
    }

    fn interval(self) -> u64 {
        self.0 >> INTERVAL_AT & TIME_MASK
    }

    /// Takes in the usage count that is found at `now`. What it has risen are uses; 0 for a page
    /// not seen here before.
    fn noticed(self, page: PageId, usage: u8, now: Tick) -> Self {
        if !self.is_of(page) {
            return Self::of(page, usage, now);
        }
        let rise = u64::from(usage.saturating_sub(self.left()));
        if rise == 0 {
            return self;
        }
        let found = (self.idle(now) / rise).clamp(1, TIME_MASK);
        let interval = match self.interval() {
            0 => found,
            // There may have been more uses than were counted.
            known if usage == MAX_USAGE => (known / 2).clamp(1, found),
            known => known.midpoint(found),
        };
        Self(self.0 & !TIME_MASK | time(now)).with_interval(interval)
    }

    /// Since the last use, in units.
    fn idle(self, now: Tick) -> u64 {
        time(now).wrapping_sub(self.0) & TIME_MASK
    }

    /// Ticks to the next use, as far as uses tell.
    fn next_use(self, frequency: Frequency, now: Tick) -> Option<Tick> {
        let units = (self.interval() > 0).then(|| frequency.until_next(self.interval(), self.idle(now)))?;
        units.map(|units| units << UNIT_BITS)
    }
}

fn time(now: Tick) -> u64 {
    now >> UNIT_BITS & TIME_MASK
}

fn tag(page: PageId) -> u64 {
    page.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> TAG_AT
}

/// What becomes of pages that no scan wants and of which uses tell nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The clock goes on with them; those that a scan has read go.
    Clock,
    /// They go before all others, the least recently used first (the paper's section 4.3).
    Lru,
    /// They go before all others, drawn at random (the paper's Algorithm 1).
    Random,
}

/// The paper's switches, as far as a guest has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// What earlier uses say.
    pub frequency: Frequency,
    /// What is done where nothing says anything.
    pub fallback: Fallback,
}

impl Default for Switches {
    fn default() -> Self {
        Self { frequency: Frequency::Max, fallback: Fallback::Clock }
    }
}

/// Later than anything that is expected, for pages that go by [`Fallback`].
const UNEXPECTED: Tick = 1 << 62;

/// A buffer that the hand will come to, and afterwards what becomes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Candidate {
    /// What is in it.
    pub page: PageId,
    /// What is remembered of it; brought up to date.
    pub uses: Uses,
    /// Ticks until it is wanted, [`Tick::MAX`] if nothing is known. An output.
    pub wanted_in: Tick,
    /// The host's name for it.
    pub frame: u32,
    /// The usage count, from 0 to [`MAX_USAGE`]; replaced by what it should be.
    pub usage: u8,
    /// Whether a scan wants it. An output.
    pub predicted: bool,
}

impl Candidate {
    /// Whether anything tells when it is wanted.
    fn is_known(&self) -> bool {
        self.wanted_in != Tick::MAX
    }
}

/// What [`choose`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Choice {
    /// Estimates that running scans gave.
    pub predicted: u32,
    /// Estimates that uses gave.
    pub by_uses: u32,
    /// Buffers that the hand will take.
    pub given: u32,
    /// Buffers that it would have taken and now will not, for a scan wants them.
    pub kept: u32,
}

/// Sets the usage counts of `buffers` such that the hand takes `victims` of them, or more if nobody
/// wants more.
///
/// ```
/// use pagecast_core::oracle::NoScans;
/// use pagecast_core::steering::{Candidate, Switches, Uses, choose};
/// use pagecast_core::{PageId, RelationId};
///
/// let page = PageId::new(RelationId(1), 7);
/// let (uses, _) = Uses::default().read_by_scan(page, 1, true, 0);
/// let mut buffers = [Candidate { page, uses, wanted_in: 0, frame: 0, usage: 1, predicted: false }];
/// assert_eq!(choose(&mut buffers, 1, Switches::default(), &NoScans, 1000).given, 1);
/// assert_eq!(buffers[0].usage, 0); // a scan has read it, and no other will
/// ```
pub fn choose(buffers: &mut [Candidate], victims: usize, switches: Switches, oracle: &dyn Oracle, now: Tick) -> Choice {
    let mut choice = Choice::default();
    for buffer in buffers.iter_mut() {
        estimate(buffer, switches, oracle, now, &mut choice);
    }
    // Of those of which nothing is known the clock takes what it would take anyhow.
    let taken = buffers.iter().filter(|buffer| !buffer.is_known() && buffer.usage == 0).count();
    let known = buffers.iter().filter(|buffer| buffer.is_known()).count();
    let needed = victims.saturating_sub(taken).min(known);
    let cut = cut(buffers, needed);
    let later = buffers.iter().filter(|buffer| buffer.is_known() && buffer.wanted_in > cut).count();
    // Of those that are wanted at the cut itself the least used go. Index scans that keep only
    // roughly to the table's order want all pages around their place at any moment. Those visited
    // most often are wanted most, as section 6.4 finds, and nothing but the counts tells which.
    let mut at_cut = least_used(buffers, cut, needed.saturating_sub(later));
    choice.given = (taken + needed) as u32;
    for buffer in buffers.iter_mut().filter(|buffer| buffer.is_known()) {
        let gives = needed > 0 && (buffer.wanted_in > cut || (buffer.wanted_in == cut && at_cut.take(buffer.usage)));
        if gives {
            buffer.usage = 0;
            buffer.uses = buffer.uses.without(KEPT);
            continue;
        }
        // Whether somebody finds what is kept by its uses is not seen, and so not asked.
        if buffer.usage == 0 && buffer.predicted {
            buffer.uses = buffer.uses.with(KEPT);
            choice.kept += 1;
        }
        // The clock keeps what is used often for longer, and the hand may come by several times
        // before anybody looks again.
        buffer.usage = if buffer.predicted { buffer.usage.clamp(1, KEEPS) } else { buffer.usage.max(1) };
    }
    let pace = buffers.len() / victims.max(1);
    for buffer in buffers {
        if !buffer.is_known() && buffer.usage > 0 && is_spared(buffer.page, pace, now) {
            buffer.usage = (buffer.usage + 1).min(MAX_USAGE);
        }
        // The hand lowers every count that it passes.
        buffer.uses = buffer.uses.with_left(buffer.usage.saturating_sub(1));
    }
    choice
}

/// Does to `buffers` what the hand would do when it passed them, for a host that hands its victims
/// over in another way and leaves the hand where it is: counts sink by one, so that what is no
/// longer used is forgotten. Those of buffers that are wanted stop at 1, because the hand may come
/// by in between. To be called after [`choose`], for all that are not handed over.
///
/// ```
/// use pagecast_core::oracle::NoScans;
/// use pagecast_core::steering::{Candidate, Switches, Uses, choose, pass};
/// use pagecast_core::{PageId, RelationId};
///
/// let page = PageId::new(RelationId(1), 7);
/// let mut buffers = [Candidate { page, uses: Uses::default(), wanted_in: 0, frame: 0, usage: 2, predicted: false }];
/// choose(&mut buffers, 1, Switches::default(), &NoScans, 1000); // nothing is known of it
/// pass(&mut buffers);
/// assert_eq!(buffers[0].usage, 1);
/// ```
pub fn pass(buffers: &mut [Candidate]) {
    for buffer in buffers {
        let least = u8::from(buffer.wanted_in != Tick::MAX).min(buffer.usage);
        buffer.usage = buffer.usage.saturating_sub(1).max(least);
        buffer.uses = buffer.uses.with_left(buffer.usage);
    }
}

/// Asks for one buffer, and gives it up if a scan has read it and it is of no more use.
fn estimate(buffer: &mut Candidate, switches: Switches, oracle: &dyn Oracle, now: Tick, choice: &mut Choice) {
    buffer.uses = buffer.uses.noticed(buffer.page, buffer.usage, now);
    let by_scans = oracle.next_access(Question::new(buffer.page, now));
    let by_uses = buffer.uses.next_use(switches.frequency, now);
    choice.predicted += u32::from(by_scans.is_some());
    choice.by_uses += u32::from(by_uses.is_some());
    buffer.predicted = by_scans.is_some();
    let sooner = match (by_scans, by_uses) {
        (Some(0), Some(by_uses)) => by_uses,
        _ => by_scans.unwrap_or(Tick::MAX).min(by_uses.unwrap_or(Tick::MAX)),
    };
    buffer.wanted_in = sooner;
    if buffer.is_known() {
        return;
    }
    match switches.fallback {
        Fallback::Clock if buffer.uses.0 & SCANNED != 0 => buffer.usage = 0,
        Fallback::Clock => {}
        Fallback::Lru => buffer.wanted_in = UNEXPECTED + buffer.uses.idle(now),
        Fallback::Random => buffer.wanted_in = UNEXPECTED + (hash(buffer.page.raw() ^ hash(now)) >> 8),
    }
}

/// Whether a page of which nothing is known keeps its count this time. The hand goes by `pace`
/// buffers for each victim, where it goes by [`STOCK_PACE`] of its own accord: only that share of
/// its visits may age what we know nothing about. Drawn by a hash.
fn is_spared(page: PageId, pace: usize, now: Tick) -> bool {
    let draw = (tag(PageId::from_raw(page.raw() ^ now)) * pace as u64) >> (64 - TAG_AT);
    draw >= STOCK_PACE
}

/// Those of the buffers wanted at one moment that go: all that are used less than `usage`, and
/// `of_usage` with just that count.
struct LeastUsed {
    usage: u8,
    of_usage: usize,
}

impl LeastUsed {
    /// Whether one with this count goes.
    fn take(&mut self, usage: u8) -> bool {
        let last = usage == self.usage && self.of_usage > 0;
        self.of_usage -= usize::from(last);
        last || usage < self.usage
    }
}

/// The `needed` least used of the buffers that are wanted in `wanted_in`, of which there are as
/// many.
fn least_used(buffers: &[Candidate], wanted_in: Tick, needed: usize) -> LeastUsed {
    let mut of_usage = needed;
    for usage in 0..=MAX_USAGE {
        let equal = buffers.iter().filter(|buffer| buffer.wanted_in == wanted_in && buffer.usage == usage).count();
        if equal >= of_usage {
            return LeastUsed { usage, of_usage };
        }
        of_usage -= equal;
    }
    LeastUsed { usage: MAX_USAGE, of_usage }
}

/// The latest moment at or after which at least `needed` of the buffers are wanted of which
/// something is known; 0 if there are fewer. Bit by bit from the highest: 64 counts, which the
/// compiler does many at a time, and no order is needed.
fn cut(buffers: &[Candidate], needed: usize) -> Tick {
    (0..Tick::BITS).rev().fold(0, |cut, bit| {
        let later = cut | 1 << bit;
        let wanted = buffers.iter().filter(|buffer| buffer.is_known() && buffer.wanted_in >= later).count();
        if wanted >= needed { later } else { cut }
    })
}
