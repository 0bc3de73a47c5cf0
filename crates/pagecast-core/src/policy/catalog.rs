//! Every policy by name, with its parameters: the one place that a new policy is entered in.

use super::block_group::MAX_GROUP;
use super::parameters::{Kind, Parameter, PolicyError, resolve, split_call, split_list};
use super::{
    Arc, Car, Cfdc, Cflru, ClockPro, ClockSweep, ConcurrentPolicy, ExtendedSampling, Fifo, Frequency, Hyperbolic,
    LeanEvict, Lfu, LfuAged, Lirs, Lrfu, Lru, LruK, MAX_BULK, MAX_K, MAX_KEEP, MAX_SAMPLES, PbmPq, PbmSampling, Policy,
    PqOptions, PqVersion, Predictive, RandomChoice, Replacement, S3Fifo, SamplingOptions, SecondTouchClock,
    SequentialPolicy, Sieve, TwoPriorityLru, TwoQueue, WTinyLfu, Watt,
};
use crate::Tick;
use alloc::{borrow::ToOwned, boxed::Box, string::String, vec::Vec};
use core::{fmt, str::FromStr};

/// Which policy; what [`PolicySpec::visit`] distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Algorithm {
    Arc,
    Car,
    Cfdc,
    Cflru,
    Clock,
    ClockPro,
    Fifo,
    Hyperbolic,
    LeanEvict,
    Lfu,
    LfuAged,
    Lirs,
    Lrfu,
    Lru,
    LruK,
    Opt,
    Pbm,
    PbmExtended,
    PbmPq,
    Random,
    S3Fifo,
    SecondTouchClock,
    Sieve,
    TwoPriorityLru,
    TwoQueue,
    WTinyLfu,
    Watt,
}

/// A policy as the catalog lists it.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    algorithm: Algorithm,
    parameters: &'static [Parameter],
    /// Memory of its own for each frame, ghosts included, beside the word in the frame's header.
    bytes_per_frame: fn(&PolicySpec) -> f64,
}

impl Entry {
    /// Where a parameter stands that the policy declares.
    fn index(&self, name: &str) -> usize {
        let at = self.parameters.iter().position(|parameter| parameter.name == name);
        at.expect("the catalog declares every parameter that it uses")
    }
}

const fn count(name: &'static str, default: u64, low: u64, high: u64) -> Parameter {
    Parameter { name, default: default as f64, kind: Kind::Count(low, high) }
}

const fn number(name: &'static str, default: f64, low: f64, high: f64) -> Parameter {
    Parameter { name, default, kind: Kind::Number(low, high) }
}

const fn share(name: &'static str, default: f64, low: f64, high: f64) -> Parameter {
    Parameter { name, default, kind: Kind::Share(low, high) }
}

const OFF: Kind = Kind::Word(&["off"]);

/// Of `pbm-paper`. Bulk eviction, frequency statistics and the LRU fallback are named, so that a result says that they were off.
const PBM: &[Parameter] = &[
    count("samples", 10, 1, MAX_SAMPLES as u64),
    count("bulk", 1, 1, 1),
    Parameter { name: "frequency", default: 0.0, kind: OFF },
    Parameter { name: "fallback", default: 0.0, kind: OFF },
];

/// How the statistics of earlier uses are read, in the order of [`frequency`], and our own.
const FREQUENCY: Kind = Kind::Word(&["off", "max", "min", "mean", "auto"]);
/// In it: history as we learn it, [`Predictive`], for which [`WITHOUT_LEARNING`] mean nothing.
const AUTO: f64 = 4.0;
/// Who names one of these parts of the paper's sampling, and no `frequency`, wants it off and not learned.
const WITHOUT_LEARNING: [&str; 5] = ["bulk", "keep", "replacement", "fallback", "group"];

/// The reading that stands at `index` of [`FREQUENCY`].
fn frequency(index: f64) -> Frequency {
    [Frequency::Off, Frequency::Max, Frequency::Min, Frequency::Mean][index as usize]
}

const PBM_EXTENDED: &[Parameter] = &[
    Parameter { name: "samples", default: 64.0, kind: Kind::CountOrAll(1, MAX_SAMPLES) },
    count("bulk", 1, 1, MAX_BULK as u64),
    count("keep", 16, 0, MAX_KEEP as u64),
    Parameter { name: "replacement", default: 2.0, kind: Kind::Word(&["yes", "no", "round"]) },
    Parameter { name: "frequency", default: AUTO, kind: FREQUENCY },
    Parameter { name: "fallback", default: 1.0, kind: Kind::Word(&["off", "lru"]) },
    count("group", 1, 1, MAX_GROUP as u64),
];

/// The most that a ghost takes: its node and its slots of the page index.
const GHOST: f64 = 24.0 + 22.0;

/// All policies, by name.
static CATALOG: &[Entry] = &[
    Entry {
        name: "2q",
        algorithm: Algorithm::TwoQueue,
        parameters: &[share("in", 0.25, 0.0, 1.0), share("out", 0.5, 0.0, 10.0)],
        bytes_per_frame: |spec| 24.0 + spec.value("out") * GHOST,
    },
    Entry { name: "arc", algorithm: Algorithm::Arc, parameters: &[], bytes_per_frame: |_| 24.0 + GHOST },
    Entry { name: "car", algorithm: Algorithm::Car, parameters: &[], bytes_per_frame: |_| 24.0 + GHOST },
    Entry {
        name: "cfdc",
        algorithm: Algorithm::Cfdc,
        parameters: &[share("working", 0.5, 0.0, 1.0), count("cluster", 64, 1, 1 << 20)],
        bytes_per_frame: |_| 32.0 + 104.0 + 40.0,
    },
    Entry {
        name: "cflru",
        algorithm: Algorithm::Cflru,
        parameters: &[share("window", 0.5, 0.0, 1.0)],
        bytes_per_frame: |_| 40.0,
    },
    Entry {
        name: "clock",
        algorithm: Algorithm::Clock,
        parameters: &[count("max", 5, 0, 255), count("init", 1, 0, 255)],
        bytes_per_frame: |_| 0.0,
    },
    Entry {
        name: "clock-pro",
        algorithm: Algorithm::ClockPro,
        parameters: &[share("cold", 0.01, 0.0, 0.5), share("ghosts", 2.0, 0.0, 10.0)],
        bytes_per_frame: |spec| 40.0 + spec.value("ghosts") * GHOST,
    },
    Entry { name: "clock2t", algorithm: Algorithm::SecondTouchClock, parameters: &[], bytes_per_frame: |_| 0.0 },
    Entry { name: "fifo", algorithm: Algorithm::Fifo, parameters: &[], bytes_per_frame: |_| 16.0 },
    Entry {
        name: "hyperbolic",
        algorithm: Algorithm::Hyperbolic,
        parameters: &[count("samples", 64, 1, MAX_SAMPLES as u64)],
        bytes_per_frame: |_| 8.0,
    },
    Entry {
        name: "leanevict",
        algorithm: Algorithm::LeanEvict,
        parameters: &[share("cooling", 0.2, 0.0, 1.0)],
        bytes_per_frame: |_| 28.0,
    },
    Entry { name: "lfu", algorithm: Algorithm::Lfu, parameters: &[], bytes_per_frame: |_| 72.0 },
    Entry {
        name: "lfu-aged",
        algorithm: Algorithm::LfuAged,
        parameters: &[number("mean", 10.0, 2.0, 1e9)],
        bytes_per_frame: |_| 72.0,
    },
    Entry {
        name: "lirs",
        algorithm: Algorithm::Lirs,
        parameters: &[share("hir", 0.01, 0.0, 1.0), share("ghosts", 2.0, 0.0, 100.0)],
        bytes_per_frame: |spec| 40.0 + spec.value("ghosts") * (16.0 + GHOST),
    },
    Entry {
        name: "lrfu",
        algorithm: Algorithm::Lrfu,
        parameters: &[number("lambda", 0.001, 0.0, 1.0)],
        bytes_per_frame: |_| 36.0,
    },
    Entry { name: "lru", algorithm: Algorithm::Lru, parameters: &[], bytes_per_frame: |_| 16.0 },
    Entry {
        name: "lru-2prio",
        algorithm: Algorithm::TwoPriorityLru,
        parameters: &[share("small", 0.05, 0.0, 1.0)],
        bytes_per_frame: |_| 24.0,
    },
    Entry {
        name: "lru-k",
        algorithm: Algorithm::LruK,
        parameters: &[
            count("k", 2, 1, MAX_K as u64),
            share("correlated", 0.15, 0.0, 1.0),
            share("history", 1.0, 0.0, 10.0),
        ],
        bytes_per_frame: |spec| {
            84.0 + 8.0 * spec.value("k") + spec.value("history") * (GHOST - 8.0 + 8.0 * spec.value("k"))
        },
    },
    Entry { name: "opt", algorithm: Algorithm::Opt, parameters: &[], bytes_per_frame: |_| 0.0 },
    Entry {
        name: "pbm",
        algorithm: Algorithm::PbmExtended,
        parameters: PBM_EXTENDED,
        bytes_per_frame: |spec| match spec.value("frequency") {
            0.0 => 0.0,
            AUTO => Predictive::BYTES_PER_FRAME,
            _ => 8.0,
        },
    },
    Entry { name: "pbm-paper", algorithm: Algorithm::Pbm, parameters: PBM, bytes_per_frame: |_| 0.0 },
    Entry {
        name: "pbm-pq",
        algorithm: Algorithm::PbmPq,
        parameters: &[
            Parameter { name: "version", default: 1.0, kind: Kind::Word(&["2011", "2012"]) },
            count("tiers", 10, 1, 20),
            count("queues", 5, 1, 64),
            count("slice", 0, 0, 1 << 50),
            count("group", 1, 1, MAX_GROUP as u64),
            count("bulk", 16, 1, 1 << 16),
        ],
        bytes_per_frame: |_| 24.0 + 32.0 + 22.0,
    },
    Entry { name: "random", algorithm: Algorithm::Random, parameters: &[], bytes_per_frame: |_| 0.0 },
    Entry {
        name: "s3-fifo",
        algorithm: Algorithm::S3Fifo,
        parameters: &[share("small", 0.1, 0.0, 1.0), share("ghost", 0.9, 0.0, 10.0), count("threshold", 2, 0, 3)],
        bytes_per_frame: |spec| 24.0 + spec.value("ghost") * GHOST,
    },
    Entry { name: "sieve", algorithm: Algorithm::Sieve, parameters: &[], bytes_per_frame: |_| 16.0 },
    Entry {
        name: "w-tinylfu",
        algorithm: Algorithm::WTinyLfu,
        parameters: &[share("window", 0.01, 0.0, 1.0), share("protected", 0.8, 0.0, 1.0), count("sample", 10, 1, 1000)],
        bytes_per_frame: |_| 24.0 + 16.0,
    },
    Entry {
        name: "watt",
        algorithm: Algorithm::Watt,
        parameters: &[count("epochs", 4, 1, 1024), number("write", 1.0, 0.0, 1000.0)],
        bytes_per_frame: |spec| if spec.value("write") > 0.0 { 56.0 } else { 32.0 },
    },
];

/// The names of all policies, in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> {
    CATALOG.iter().map(|entry| entry.name)
}

/// A policy by name and parameters, checked.
///
/// ```
/// use pagecast_core::policy::{Policy, PolicySpec};
///
/// let clock: PolicySpec = "clock(max=3)".parse()?;
/// assert_eq!((clock.name(), clock.params().as_str()), ("clock(max=3)", "max=3,init=1"));
/// assert!(matches!(clock.build(1024, 42)?, Policy::Concurrent(_)));
/// # Ok::<(), pagecast_core::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicySpec {
    text: String,
    entry: &'static Entry,
    values: Vec<f64>,
}

/// Receives a policy with its own type, so that a replay is compiled for it and its hits cost no virtual call.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// The policy is concurrent.
    fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Self::Output;

    /// The policy is sequential.
    fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Self::Output;
}

impl PolicySpec {
    /// Reads `name` or `name(parameter=value,...)`; parameters that are not named take their defaults.
    ///
    /// # Errors
    ///
    /// The name or a parameter is unknown, a value is out of range, or the text has another form.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(PolicyError::Syntax { text: String::new(), reason: "the name is missing" });
        }
        let (name, arguments) = split_call(text)?;
        let entry = CATALOG
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| PolicyError::UnknownPolicy { name: name.to_owned(), known: names().collect() })?;
        let mut values = resolve(entry.name, entry.parameters, arguments)?;
        let named = |name| arguments.split(',').any(|argument| argument.split('=').next().map(str::trim) == Some(name));
        if entry.algorithm == Algorithm::PbmExtended && !named("frequency") && WITHOUT_LEARNING.into_iter().any(named) {
            values[entry.index("frequency")] = 0.0;
        }
        Ok(Self { text: text.to_owned(), entry, values })
    }

    /// Reads policies separated by commas; commas inside parentheses do not separate.
    ///
    /// # Errors
    ///
    /// That of the first which cannot be read; an empty place between commas is one.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PolicyError> {
        split_list(text).map(Self::parse).collect()
    }

    /// The policy as it was given.
    pub fn name(&self) -> &str {
        &self.text
    }

    /// The name without parameters.
    pub fn algorithm(&self) -> &'static str {
        self.entry.name
    }

    /// All parameters with their values, `max=5,init=1`; empty if there are none.
    pub fn params(&self) -> String {
        let mut text = String::new();
        for (parameter, &value) in self.entry.parameters.iter().zip(&self.values) {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(parameter.name);
            text.push('=');
            parameter.kind.write(&mut text, value).expect("a String takes any text");
        }
        text
    }

    /// Whether the policy needs to know the future ([`super::Belady`]) and only a replay can run it.
    pub fn needs_trace(&self) -> bool {
        self.entry.algorithm == Algorithm::Opt
    }

    /// Whether the policy looks at how page ids lie to each other, so that a replay must not number the pages anew.
    /// `pbm` does so for pages that scans read, and a replay of scans keeps their ids for every policy.
    pub fn needs_page_ids(&self) -> bool {
        matches!(self.entry.algorithm, Algorithm::Cfdc | Algorithm::PbmPq | Algorithm::TwoPriorityLru)
    }

    /// An upper bound for the bytes of memory that the policy takes for each frame, ghosts included, beside the frame's
    /// own word: what a pool sets aside before it is built, with [`PolicySpec::bytes_apart`]. What `opt` needs to know of its
    /// trace is not in it.
    pub fn bytes_per_frame(&self) -> u32 {
        let bytes = (self.entry.bytes_per_frame)(self);
        bytes as u32 + u32::from(f64::from(bytes as u32) < bytes)
    }

    /// An upper bound for the bytes of memory that the policy takes beside, in a pool of `frames` frames: what does not grow with
    /// them, or only so far.
    pub fn bytes_apart(&self, frames: u32) -> u32 {
        match self.entry.algorithm {
            Algorithm::PbmExtended if self.value("frequency") == AUTO => Predictive::bytes_apart(frames),
            _ => 12 << 10,
        }
    }

    /// The policy for `frames` frames, handed to `visitor` with its type. `seed` decides what it leaves to chance.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NoFrames`] for no frames, [`PolicyError::NeedsTrace`] for `opt`.
    pub fn visit<V: Visitor>(&self, frames: u32, seed: u64, visitor: V) -> Result<V::Output, PolicyError> {
        if frames == 0 {
            return Err(PolicyError::NoFrames);
        }
        let value = |name| self.value(name);
        Ok(match self.entry.algorithm {
            Algorithm::Arc => visitor.sequential(Arc::new(frames)),
            Algorithm::Car => visitor.sequential(Car::new(frames)),
            Algorithm::Clock => visitor.concurrent(ClockSweep::new(value("max") as u64, value("init") as u64)),
            Algorithm::Fifo => visitor.sequential(Fifo::new(frames)),
            Algorithm::Lfu => visitor.sequential(Lfu::new(frames)),
            Algorithm::LfuAged => visitor.sequential(LfuAged::new(frames, value("mean"))),
            Algorithm::Lru => visitor.sequential(Lru::new(frames)),
            Algorithm::Opt => return Err(PolicyError::NeedsTrace { policy: self.entry.name }),
            Algorithm::Pbm => visitor.concurrent(PbmSampling::new(value("samples") as u32, seed)),
            Algorithm::PbmExtended if value("frequency") == AUTO => {
                visitor.concurrent(Predictive::new(frames, value("samples") as u32, seed))
            }
            Algorithm::PbmExtended => visitor.concurrent(ExtendedSampling::new(
                frames,
                SamplingOptions {
                    samples: value("samples") as u32,
                    bulk: value("bulk") as u32,
                    keep: value("keep") as u32,
                    replacement: [Replacement::Yes, Replacement::No, Replacement::Round][value("replacement") as usize],
                    frequency: frequency(value("frequency")),
                    lru_fallback: value("fallback") > 0.0,
                    group: value("group") as u32,
                },
                seed,
            )),
            Algorithm::PbmPq => visitor.sequential(PbmPq::new(
                frames,
                PqOptions {
                    version: if value("version") == 0.0 { PqVersion::Equal } else { PqVersion::Doubling },
                    tiers: value("tiers") as u32,
                    queues: value("queues") as u32,
                    slice: value("slice") as Tick,
                    group: value("group") as u32,
                    bulk: value("bulk") as u32,
                },
            )),
            Algorithm::Random => visitor.concurrent(RandomChoice::new(seed)),
            Algorithm::S3Fifo => {
                let threshold = value("threshold") as u64;
                visitor.sequential(S3Fifo::new(frames, value("small"), value("ghost"), threshold))
            }
            Algorithm::Sieve => visitor.sequential(Sieve::new(frames)),
            Algorithm::TwoQueue => visitor.sequential(TwoQueue::new(frames, value("in"), value("out"))),
            Algorithm::Lirs => visitor.sequential(Lirs::new(frames, value("hir"), value("ghosts"))),
            Algorithm::ClockPro => visitor.sequential(ClockPro::new(frames, value("cold"), value("ghosts"))),
            Algorithm::WTinyLfu => {
                visitor.sequential(WTinyLfu::new(frames, value("window"), value("protected"), value("sample") as u64))
            }
            Algorithm::LruK => {
                visitor.sequential(LruK::new(frames, value("k") as u32, value("correlated"), value("history")))
            }
            Algorithm::TwoPriorityLru => visitor.sequential(TwoPriorityLru::new(frames, value("small"))),
            Algorithm::SecondTouchClock => visitor.concurrent(SecondTouchClock::new()),
            Algorithm::Lrfu => visitor.sequential(Lrfu::new(frames, value("lambda"))),
            Algorithm::Hyperbolic => visitor.concurrent(Hyperbolic::new(frames, value("samples") as u32, seed)),
            Algorithm::Watt => visitor.concurrent(Watt::new(frames, value("epochs") as u32, value("write"), seed)),
            Algorithm::LeanEvict => visitor.sequential(LeanEvict::new(frames, value("cooling"), seed)),
            Algorithm::Cflru => visitor.sequential(Cflru::new(frames, value("window"))),
            Algorithm::Cfdc => visitor.sequential(Cfdc::new(frames, value("working"), value("cluster") as u32)),
        })
    }

    /// The policy for `frames` frames, boxed. `seed` decides what it leaves to chance.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NoFrames`] for no frames, [`PolicyError::NeedsTrace`] for `opt`.
    pub fn build(&self, frames: u32, seed: u64) -> Result<Policy, PolicyError> {
        struct Boxed;
        impl Visitor for Boxed {
            type Output = Policy;
            fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Policy {
                Policy::Concurrent(Box::new(policy))
            }
            fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Policy {
                Policy::Sequential(Box::new(policy))
            }
        }
        self.visit(frames, seed, Boxed)
    }

    /// The value of a parameter that the policy declares.
    fn value(&self, name: &str) -> f64 {
        self.values[self.entry.index(name)]
    }
}

impl FromStr for PolicySpec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::parse(text)
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloc::string::ToString;

    fn error(text: &str) -> String {
        PolicySpec::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn names_are_sorted_and_parse() {
        assert!(CATALOG.is_sorted_by(|a, b| a.name < b.name));
        for name in names() {
            let spec = PolicySpec::parse(name).unwrap();
            assert_eq!((spec.name(), spec.algorithm()), (name, name));
            let resolved = alloc::format!("{name}({})", spec.params());
            assert_eq!(PolicySpec::parse(&resolved).unwrap().params(), spec.params(), "{resolved}");
        }
    }

    #[test]
    fn history_is_learned_unless_parts_of_the_papers_sampling_are_named() {
        let frequency = |text: &str| {
            let spec = PolicySpec::parse(text).unwrap();
            spec.params().split(',').find_map(|part| part.strip_prefix("frequency=").map(str::to_owned)).unwrap()
        };
        assert_eq!((frequency("pbm"), frequency("pbm(samples=40)")), ("auto".to_owned(), "auto".to_owned()));
        for named in ["bulk=10", "samples=9, group = 8", "fallback=off", "keep=0", "replacement=no", "frequency=off"] {
            assert_eq!(frequency(&alloc::format!("pbm({named})")), "off", "{named}");
        }
        assert_eq!(frequency("pbm(fallback=lru,frequency=max)"), "max");
    }

    #[test]
    fn a_list_splits_outside_parentheses_only() {
        let list = PolicySpec::parse_list("clock(max=1, init=0), lru,pbm").unwrap();
        assert_eq!(list.iter().map(PolicySpec::name).collect::<Vec<_>>(), ["clock(max=1, init=0)", "lru", "pbm"]);
        assert_eq!(list[0].params(), "max=1,init=0");
        assert!(PolicySpec::parse_list("clock,,lru").is_err());
        assert!(PolicySpec::parse_list("clock,").is_err());
    }

    #[test]
    fn errors_name_what_there_is() {
        assert!(error("clok").contains("unknown policy `clok`; there are"));
        assert!(error("clok").contains("clock,"));
        assert_eq!(error("clock(maks=2)"), "policy `clock` has no parameter `maks`; it has max, init");
        assert_eq!(error("lru(k=2)"), "policy `lru` takes no parameters, not even `k`");
        for bad in ["NaN", "-1", "300", "2.5", "", "9999999999999999999999"] {
            let text = alloc::format!("clock(max={bad})");
            assert_eq!(
                error(&text),
                alloc::format!("policy `clock`: `max={bad}` must be a whole number from 0 to 255")
            );
        }
        for bad in ["", "clock(", "clock)", "clock(max)", "clock(max=1,max=2)", "clock((max=1))", "clock(max=1)x"] {
            assert!(error(bad).contains("write name or name(parameter=value,...)"), "{bad}: {}", error(bad));
        }
    }

    #[test]
    fn no_frames_and_no_future_are_refused() {
        assert_eq!(PolicySpec::parse("lru").unwrap().build(0, 1).err(), Some(PolicyError::NoFrames));
        let opt = PolicySpec::parse("opt").unwrap();
        assert!(opt.needs_trace());
        assert_eq!(opt.build(8, 1).err(), Some(PolicyError::NeedsTrace { policy: "opt" }));
    }
}
