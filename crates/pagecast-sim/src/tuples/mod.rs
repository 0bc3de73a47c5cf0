//! Buffers that keep items of pages beside whole pages, or instead of them, at equal bytes.
//!
//! Whatever a buffer needs is charged to its memory: the frames' headers, what the policy says that
//! it takes, counters of visits, heads, index and rounding of mini-pages, and the small models that
//! learn.

mod bound;
mod learned;
mod published;
mod recency;
mod row_cache;

pub use published::PublishedOptions;

use crate::simulation::{Interleaving, Options, SimulationError, in_order};
use crate::trace::{Rows, Trace};
use bound::bound;
use learned::Learned;
use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, PolicyError, PolicySpec};
use pagecast_core::tuples::{Bounds, Counts, Model, ModelOptions, Room, Shares, Tuple, Visits};
use published::Published;
use row_cache::RowCache;
use std::fmt;
use std::time::{Duration, Instant};

/// Bytes of a frame's header and of its places in the page table and in the list of free frames.
const HEADER_BYTES: u32 = 128;
/// A share that leaves room for loads.
const MOST_SHARE: f64 = 0.97;

/// One request, as a buffer sees it.
pub(crate) struct Request {
    access: Access,
    tuple: Option<Tuple>,
}

/// What a replay drives.
trait Buffer {
    fn request(&mut self, request: &Request, oracle: &dyn Oracle);
    fn checkpoint(&mut self);
    fn counts(&self) -> Counts;
    /// The part of the memory that holds items.
    fn share(&self) -> f64;
}

/// A kind of buffer, by name and parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TupleSpec {
    /// Pages alone.
    Off,
    /// A cache of rows with this part of the memory, in front of one of pages.
    Rows(f64),
    /// `mg` or `amg`.
    Published(PublishedOptions),
    /// Ours, with this share.
    Share(f64),
    /// Ours, with a share that it learns.
    Learn,
    /// The fewest misses of any fixed content, of pages alone or with items.
    Bound {
        /// Whether items are left out.
        pages: bool,
    },
}

impl TupleSpec {
    /// Reads `off`, `row(50%)`, `mg(f=20%)`, `amg(f=20%,rate=50%,spill=off)`, `share=50%`,
    /// `learn`, `bound` or `bound(pages)`.
    ///
    /// ```
    /// use pagecast_sim::tuples::TupleSpec;
    ///
    /// assert_eq!(TupleSpec::parse("share=50%"), Ok(TupleSpec::Share(0.5)));
    /// assert_eq!(TupleSpec::parse("amg(spill=on)").unwrap().to_string(), "amg(f=20%,rate=50%,spill=on)");
    /// assert!(TupleSpec::parse("amg(g=1)").unwrap_err().contains("f, rate, spill"));
    /// ```
    ///
    /// # Errors
    ///
    /// What is wrong, and what there is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(value) = text.strip_prefix("share=") {
            return Ok(Self::Share(share(text, value, MOST_SHARE)?));
        }
        let (name, arguments) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => {
                (name, rest.strip_suffix(')').ok_or_else(|| format!("`{text}` does not end in `)`"))?)
            }
        };
        let mut options = PublishedOptions { f: 0.2, rate: (name == "amg").then_some(0.5), spill: false };
        let known = match name {
            "off" | "learn" => "",
            "row" => "a share",
            "bound" => "pages",
            "mg" => "f",
            "amg" => "f, rate, spill",
            _ => return Err(format!("no buffer `{name}`; there are off, row(50%), mg, amg, share=50%, learn, bound")),
        };
        let (mut of_rows, mut pages) = (0.5, false);
        for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
            match (name, argument.split_once('=').unwrap_or(("", argument))) {
                ("row", ("", value)) => of_rows = share(argument, value, MOST_SHARE)?,
                ("bound", ("", "pages")) => pages = true,
                ("mg" | "amg", ("f", value)) => options.f = share(argument, value, 1.0)?,
                ("amg", ("rate", value)) => options.rate = Some(share(argument, value, 1.0)?),
                ("amg", ("spill", word @ ("on" | "off"))) => options.spill = word == "on",
                _ if known.is_empty() => return Err(format!("`{name}` takes no parameters, not even `{argument}`")),
                _ => return Err(format!("`{argument}` is no parameter of `{name}`; it takes {known}")),
            }
        }
        Ok(match name {
            "off" => Self::Off,
            "row" => Self::Rows(of_rows),
            "learn" => Self::Learn,
            "bound" => Self::Bound { pages },
            _ => Self::Published(options),
        })
    }

    /// Whether the page policy makes a difference.
    pub fn uses_policy(&self) -> bool {
        !matches!(self, Self::Published(_) | Self::Bound { .. })
    }
}

fn share(of: &str, text: &str, most: f64) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.trim().parse(),
    };
    match number {
        Ok(number) if (0.0..=most).contains(&number) => Ok(number),
        _ => Err(format!("`{of}`: not a share from 0% to {}%", most * 100.0)),
    }
}

impl fmt::Display for TupleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{}%", (share * 1e4).round() / 1e2);
        match self {
            Self::Off => f.write_str("off"),
            Self::Rows(share) => write!(f, "row({})", percent(*share)),
            Self::Published(PublishedOptions { f: first, rate: None, .. }) => write!(f, "mg(f={})", percent(*first)),
            Self::Published(PublishedOptions { f: first, rate: Some(rate), spill }) => {
                let spill = if *spill { "on" } else { "off" };
                write!(f, "amg(f={},rate={},spill={spill})", percent(*first), percent(*rate))
            }
            Self::Share(share) => write!(f, "share={}", percent(*share)),
            Self::Learn => f.write_str("learn"),
            Self::Bound { pages } => f.write_str(if *pages { "bound(pages)" } else { "bound" }),
        }
    }
}

/// What is replayed, beside the policy and the buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TupleOptions {
    /// All memory, in bytes.
    pub memory: u64,
    /// Pages and items of relations of which the trace does not say how they lie.
    pub rows: Rows,
    /// The part of the trace that fills the memory and is not counted.
    pub skip: f64,
    /// Requests between two checkpoints, or none.
    pub checkpoint: Option<u32>,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// What a page and an item take.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Charges {
    /// A frame with its header, the policy's bytes and, with tuples, its counters.
    frame: u32,
    /// How slabs are cut.
    room: Room,
    /// Beside: the policy's, and the small models.
    apart: u64,
    rows: Rows,
}

/// What a simulation counted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct TupleOutcome {
    /// Behind the part that was skipped.
    pub counts: Counts,
    /// Frames for pages and slabs together.
    pub frames: u32,
    /// The mean share of the memory that held items.
    pub share: f64,
    /// The wall time of the replay.
    pub wall: Duration,
}

/// How items lie in `page`.
fn rows_of(trace: &Trace, page: PageId, charges: &Charges) -> Rows {
    trace.rows(page.relation()).unwrap_or(charges.rows)
}

/// What is charged to a buffer of kind `spec` over pages of `policy`.
///
/// # Errors
///
/// The memory has not even a frame.
fn charges(
    trace: &Trace,
    policy: &PolicySpec,
    spec: TupleSpec,
    options: &TupleOptions,
) -> Result<Charges, PolicyError> {
    let page = trace.page_bytes().unwrap_or(options.rows.page);
    let room = Room::new(page);
    let counters = match spec {
        TupleSpec::Off | TupleSpec::Rows(_) | TupleSpec::Bound { .. } => 0,
        _ => Visits::words(page / options.rows.bytes.max(1)) as u32 * 8,
    };
    let lru = PolicySpec::parse("lru")?;
    let policy = if spec.uses_policy() { policy } else { &lru };
    let frame = page + HEADER_BYTES + policy.bytes_per_frame() + counters;
    let frames = u32::try_from(options.memory / u64::from(frame)).unwrap_or(u32::MAX);
    let models = if spec == TupleSpec::Learn { Shares::bytes(policy, frames, room) } else { 0 };
    Ok(Charges { frame, room, apart: u64::from(policy.bytes_apart(frames)) + models, rows: options.rows })
}

/// Replays `trace` through a buffer of kind `spec` over pages of `policy`.
///
/// # Errors
///
/// [`SimulationError`]: no memory for a frame, a registration that the predictor refuses, `opt`.
pub fn simulate_tuples(
    trace: &Trace,
    policy: &PolicySpec,
    spec: TupleSpec,
    options: &TupleOptions,
) -> Result<TupleOutcome, SimulationError> {
    let started = Instant::now();
    let charges = charges(trace, policy, spec, options)?;
    let memory = options.memory.saturating_sub(charges.apart);
    let frames_in = |bytes: u64| u32::try_from(bytes / u64::from(charges.frame)).unwrap_or(u32::MAX);
    let frames = frames_in(memory);
    let model = |frames: u32, share: f64| {
        let bounds = Bounds::none(frames, charges.room);
        Model::new(&ModelOptions {
            policy: policy.clone(),
            frames,
            room: charges.room,
            share,
            bounds,
            seed: options.seed,
        })
    };
    if frames == 0 {
        return Err(PolicyError::NoFrames.into());
    }
    let mut buffer: Box<dyn Buffer> = match spec {
        TupleSpec::Off => Box::new(Learned { pool: model(frames, 0.0)?, shares: None }),
        TupleSpec::Share(share) => Box::new(Learned { pool: model(frames, share)?, shares: None }),
        TupleSpec::Learn => {
            let shares = Shares::new(policy, frames, charges.room, options.seed)?;
            Box::new(Learned { pool: model(frames, 0.0)?, shares: Some(shares) })
        }
        TupleSpec::Rows(share) => {
            let rows = (memory as f64 * share) as u64;
            Box::new(RowCache::new(model(frames_in(memory - rows), 0.0)?, rows, memory))
        }
        TupleSpec::Bound { pages } => {
            let counts = bound(trace, &charges, memory, options.skip, pages);
            return Ok(TupleOutcome { counts, frames, wall: started.elapsed(), share: 0.0 });
        }
        TupleSpec::Published(published) => {
            let rows = trace.pages().first().map_or(options.rows, |&page| rows_of(trace, page, &charges)).count;
            Box::new(Published::new(published, memory, u64::from(charges.frame), rows))
        }
    };
    let mut outcome = replay(trace, buffer.as_mut(), &charges, options)?;
    outcome.frames = frames;
    outcome.wall = started.elapsed();
    Ok(outcome)
}

fn replay(
    trace: &Trace,
    buffer: &mut dyn Buffer,
    charges: &Charges,
    options: &TupleOptions,
) -> Result<TupleOutcome, SimulationError> {
    let skipped = first_counted(trace, options.skip);
    let (mut before, mut shares) = (Counts::default(), 0.0);
    in_order(trace, &Options::of(Interleaving::Fixed), |at, access, oracle| {
        if at == skipped {
            before = buffer.counts();
        }
        let length = rows_of(trace, access.page, charges).bytes;
        let tuple = trace.item(at).map(|name| Tuple { name, length });
        buffer.request(&Request { access, tuple }, oracle);
        if options.checkpoint.is_some_and(|every| (at as u64 + 1).is_multiple_of(u64::from(every))) {
            buffer.checkpoint();
        }
        if at >= skipped {
            shares += buffer.share();
        }
    })?;
    let share = shares / (trace.requests().len() - skipped).max(1) as f64;
    Ok(TupleOutcome { counts: less(buffer.counts(), before), share, ..TupleOutcome::default() })
}

/// The first request that counts if the part `skip` does not.
fn first_counted(trace: &Trace, skip: f64) -> usize {
    (trace.requests().len() as f64 * skip) as usize
}

fn less(all: Counts, before: Counts) -> Counts {
    Counts {
        requests: all.requests - before.requests,
        writes: all.writes - before.writes,
        tuple_hits: all.tuple_hits - before.tuple_hits,
        misses: all.misses - before.misses,
        cleaning_reads: all.cleaning_reads - before.cleaning_reads,
        write_backs: all.write_backs - before.write_backs,
    }
}
