//! A policy as it is asked for, `name(parameter=value,...)`: read, checked and made.

use super::catalog::{AUTO, Algorithm, CATALOG, Entry, WITHOUT_LEARNING, names};
use super::parameters::{PolicyError, resolve, split_call, split_list};
use super::{
    Arc, Car, Cfdc, Cflru, ClockPro, ClockSweep, ConcurrentPolicy, ExtendedSampling, Fifo, Frequency, Hyperbolic,
    LeanEvict, Lfu, LfuAged, Lirs, Lrfu, Lru, LruK, PbmPq, PbmSampling, Policy, PqOptions, PqVersion, Predictive,
    RandomChoice, Replacement, S3Fifo, SamplingOptions, SecondTouchClock, SequentialPolicy, Sieve, TwoPriorityLru,
    TwoQueue, WTinyLfu, Watt,
};
use crate::Tick;
use alloc::{borrow::ToOwned, boxed::Box, string::String, vec::Vec};
use core::{fmt, str::FromStr};

/// The reading that stands at `index` of the catalog's `frequency`.
fn frequency(index: f64) -> Frequency {
    [Frequency::Off, Frequency::Max, Frequency::Min, Frequency::Mean][index as usize]
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
    pub(super) fn value(&self, name: &str) -> f64 {
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
