//! Every policy by name: its parameters, the memory that it takes, and how it is made. A new policy
//! is its file and its line here.

use super::parameters::{Kind, Memory, Parameter, PolicyError, Value, Values};
use super::{
    AdLru, Arc, Belady, Car, CcfLru, Cfdc, Cflru, ClockPro, ClockSweep, Fifo, Frequency, Hyperbolic, LeanEvict, Lfu,
    Lirs, Lrfu, Lru, LruK, MAX_BULK, MAX_K, MAX_SAMPLES, NextUses, PbmPq, PqOptions, PqVersion, Predictive,
    PublishedOptions, PublishedSampling, RandomChoice, S3Fifo, SecondTouchClock, Sieve, TwoPriorityLru, TwoQueue,
    Visitor, WTinyLfu, Watt,
};
use alloc::{borrow::ToOwned, format};

/// A policy as the catalog lists it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// What it takes in a pool of so many frames. The part for each frame does not depend on them.
    pub(super) memory: fn(&Values, u32) -> Memory,
}

const fn count(name: &'static str, default: u64, low: u64, high: u64) -> Parameter {
    Parameter { name, default: Value::Count(default), kind: Kind::Count(low, high) }
}

const fn count_or_all(name: &'static str, default: u64, low: u64, high: u64) -> Parameter {
    Parameter { name, default: Value::Count(default), kind: Kind::CountOrAll(low, high) }
}

const fn number(name: &'static str, default: f64, low: f64, high: f64) -> Parameter {
    Parameter { name, default: Value::Number(default), kind: Kind::Number(low, high) }
}

const fn share(name: &'static str, default: f64, low: f64, high: f64) -> Parameter {
    Parameter { name, default: Value::Number(default), kind: Kind::Share(low, high) }
}

/// The first of the words is the default.
const fn word(name: &'static str, words: &'static [&'static str]) -> Parameter {
    Parameter { name, default: Value::Word(words[0]), kind: Kind::Word(words) }
}

const SAMPLES: u64 = MAX_SAMPLES as u64;
const READINGS: &[&str] = &["off", "max", "min", "mean"];
/// The most that a ghost takes: its node and its slots of the page index.
const GHOST: f64 = 24.0 + 22.0;

const fn each(per_frame: f64) -> Memory {
    Memory { per_frame, apart: 12 << 10 }
}

fn published(of: &Values) -> PublishedOptions {
    PublishedOptions {
        samples: of.small("samples"),
        bulk: of.small("bulk"),
        replacement: of.is("replacement", "yes"),
        frequency: match of.word("frequency") {
            "max" => Frequency::Max,
            "min" => Frequency::Min,
            "mean" => Frequency::Mean,
            _ => Frequency::Off,
        },
        lru_fallback: of.is("fallback", "lru"),
    }
}

fn queues(of: &Values) -> PqOptions {
    PqOptions {
        version: if of.is("version", "2011") { PqVersion::Equal } else { PqVersion::Doubling },
        tiers: of.small("tiers"),
        queues: of.small("queues"),
        slice: of.count("slice"),
        bulk: of.small("bulk"),
    }
}

/// Refuses values that exclude each other.
pub(super) fn check(policy: &'static str, of: &Values) -> Result<(), PolicyError> {
    let refused = |reason| Err(PolicyError::Contradiction { policy, reason });
    match policy {
        "pbm-published" if of.count("bulk") > of.count("samples") => {
            let (bulk, samples) = (of.count("bulk"), of.count("samples"));
            refused(format!("`bulk={bulk}` needs `samples={bulk}` or more, not {samples}"))
        }
        _ => Ok(()),
    }
}

fn made<P>(make: impl Fn(u32, &Values, u64) -> P, frames: u32, of: &Values, seed: u64) -> P {
    make(frames, of, seed)
}

/// A line: the name, the kind, the parameters, the memory by values and frames, and how it is made
/// by frames, values and seed.
macro_rules! catalog {
    ($($name:literal $kind:ident [$($parameter:expr),*] $memory:expr, $make:expr;)*) => {
        /// All policies, by name.
        pub(super) static CATALOG: &[Entry] =
            &[$(Entry { name: $name, parameters: &[$($parameter),*], memory: $memory }),*];

        /// Hands the policy of this name to `visitor`, with its type.
        pub(super) fn visit<V: Visitor>(
            name: &str,
            (frames, of, seed): (u32, &Values, u64),
            visitor: V,
        ) -> Result<V::Output, PolicyError> {
            match name {
                $($name => Ok(visitor.$kind(made($make, frames, of, seed))),)*
                _ => Err(PolicyError::UnknownPolicy { name: name.to_owned(), known: names().collect() }),
            }
        }
    };
}

catalog! {
    "2q" sequential [share("in", 0.25, 0.0, 1.0), share("out", 0.5, 0.0, 10.0)]
        |of, _| each(24.0 + of.number("out") * GHOST),
        |frames, of, _| TwoQueue::new(frames, of.number("in"), of.number("out"));
    "ad-lru" sequential [share("cold", 0.1, 0.0, 1.0)]
        |_, _| each(24.0), |frames, of, _| AdLru::new(frames, of.number("cold"));
    "arc" sequential [] |_, _| each(24.0 + GHOST), |frames, _, _| Arc::new(frames);
    "car" sequential [] |_, _| each(24.0 + GHOST), |frames, _, _| Car::new(frames);
    "ccf-lru" sequential [] |_, _| each(24.0), |frames, _, _| CcfLru::new(frames);
    "cfdc" sequential [share("working", 0.5, 0.0, 1.0), count("cluster", 64, 1, 1 << 20)]
        |_, _| each(32.0 + 104.0 + 40.0),
        |frames, of, _| Cfdc::new(frames, of.number("working"), of.small("cluster"));
    "cflru" sequential [share("window", 0.5, 0.0, 1.0)]
        |_, _| each(40.0), |frames, of, _| Cflru::new(frames, of.number("window"));
    "clock" concurrent [count("max", 5, 0, 255), count("init", 1, 0, 255)]
        |_, _| each(0.0), |_, of, _| ClockSweep::new(of.count("max"), of.count("init"));
    "clock-pro" sequential [share("cold", 0.01, 0.0, 0.5), share("ghosts", 2.0, 0.0, 10.0)]
        |of, _| each(40.0 + of.number("ghosts") * GHOST),
        |frames, of, _| ClockPro::new(frames, of.number("cold"), of.number("ghosts"));
    "clock2t" concurrent [] |_, _| each(0.0), |_, _, _| SecondTouchClock::new();
    "fifo" sequential [] |_, _| each(16.0), |frames, _, _| Fifo::new(frames);
    "hyperbolic" concurrent [count("samples", 64, 1, SAMPLES)]
        |_, _| each(8.0), |frames, of, seed| Hyperbolic::new(frames, of.small("samples"), seed);
    "leanevict" sequential [share("cooling", 0.2, 0.0, 1.0)]
        |_, _| each(28.0), |frames, of, seed| LeanEvict::new(frames, of.number("cooling"), seed);
    "lfu" sequential [] |_, _| each(72.0), |frames, _, _| Lfu::new(frames);
    "lfu-aged" sequential [number("mean", 10.0, 2.0, 1e9)]
        |_, _| each(72.0), |frames, of, _| Lfu::aged(frames, of.number("mean"));
    "lirs" sequential [share("hir", 0.01, 0.0, 1.0), share("ghosts", 2.0, 0.0, 100.0)]
        |of, _| each(40.0 + of.number("ghosts") * (16.0 + GHOST)),
        |frames, of, _| Lirs::new(frames, of.number("hir"), of.number("ghosts"));
    "lrfu" sequential [number("lambda", 0.001, 0.0, 1.0)]
        |_, _| each(36.0), |frames, of, _| Lrfu::new(frames, of.number("lambda"));
    "lru" sequential [] |_, _| each(16.0), |frames, _, _| Lru::new(frames);
    "lru-2prio" sequential [share("small", 0.05, 0.0, 1.0)]
        |_, _| each(24.0), |frames, of, _| TwoPriorityLru::new(frames, of.number("small"));
    "lru-k" sequential [count("k", 2, 1, MAX_K as u64), share("correlated", 0.15, 0.0, 1.0), share("history", 1.0, 0.0, 10.0)]
        |of, _| {
            let uses = 8.0 * of.count("k") as f64;
            each(84.0 + uses + of.number("history") * (GHOST - 8.0 + uses))
        },
        |frames, of, _| LruK::new(frames, of.small("k"), of.number("correlated"), of.number("history"));
    // Only the replay of a trace can run it, with what follows in the trace: see `Belady`.
    "opt" sequential [] |_, _| each(0.0), |frames, _, _| Belady::new(frames, NextUses::of(&[]));
    "pbm" concurrent [count_or_all("samples", 20, 1, SAMPLES), word("history", &["on", "off"]), word("forecast", &["off", "on"])]
        |of, frames| Predictive::memory(of.is("history", "on"), frames),
        |frames, of, seed| Predictive::new(frames, of.small("samples"), of.is("history", "on"), seed);
    // Its words are named, so that a result says that they were off.
    "pbm-paper" concurrent [count("samples", 10, 1, SAMPLES), count("bulk", 1, 1, 1), word("frequency", &["off"]), word("fallback", &["off"])]
        |_, _| each(0.0),
        |frames, of, seed| {
            let options = PublishedOptions { samples: of.small("samples"), ..PublishedOptions::PAPER };
            PublishedSampling::new(frames, options, seed)
        };
    "pbm-pq" sequential [word("version", &["2012", "2011"]), count("tiers", 10, 1, 20), count("queues", 5, 1, 64), count("slice", 0, 0, 1 << 50), count("bulk", 16, 1, 1 << 16)]
        |_, _| each(24.0), |frames, of, _| PbmPq::new(frames, queues(of));
    "pbm-published" concurrent [count("samples", 10, 1, SAMPLES), count("bulk", 1, 1, MAX_BULK as u64), word("replacement", &["yes", "no"]), word("frequency", READINGS), word("fallback", &["off", "lru"])]
        |of, _| each(if of.is("frequency", "off") { 0.0 } else { 8.0 }),
        |frames, of, seed| PublishedSampling::new(frames, published(of), seed);
    "random" concurrent [] |_, _| each(0.0), |_, _, seed| RandomChoice::new(seed);
    "s3-fifo" sequential [share("small", 0.1, 0.0, 1.0), share("ghost", 0.9, 0.0, 10.0), count("threshold", 2, 0, 3)]
        |of, _| each(24.0 + of.number("ghost") * GHOST),
        |frames, of, _| S3Fifo::new(frames, of.number("small"), of.number("ghost"), of.count("threshold"));
    "sieve" sequential [] |_, _| each(16.0), |frames, _, _| Sieve::new(frames);
    "w-tinylfu" sequential [share("window", 0.01, 0.0, 1.0), share("protected", 0.8, 0.0, 1.0), count("sample", 10, 1, 1000)]
        |_, _| each(24.0 + 16.0),
        |frames, of, _| WTinyLfu::new(frames, of.number("window"), of.number("protected"), of.count("sample"));
    "watt" concurrent [count("epochs", 4, 1, 1024), number("write", 1.0, 0.0, 1000.0)]
        |of, _| each(if of.number("write") > 0.0 { 56.0 } else { 32.0 }),
        |frames, of, seed| Watt::new(frames, of.small("epochs"), of.number("write"), seed);
}

/// The names of all policies, in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> {
    CATALOG.iter().map(|entry| entry.name)
}
