//! Every policy by name, with its parameters and what it takes: a new policy is entered here, and made in spec.rs.

use super::block_group::MAX_GROUP;
use super::parameters::{Kind, Parameter};
use super::spec::PolicySpec;
use super::{MAX_BULK, MAX_K, MAX_KEEP, MAX_SAMPLES, Predictive};

/// Which policy; what `PolicySpec::visit` distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Algorithm {
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
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) algorithm: Algorithm,
    pub(super) parameters: &'static [Parameter],
    /// Memory of its own for each frame, ghosts included, beside the word in the frame's header.
    pub(super) bytes_per_frame: fn(&PolicySpec) -> f64,
}

impl Entry {
    /// Where a parameter stands that the policy declares.
    pub(super) fn index(&self, name: &str) -> usize {
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

/// How the statistics of earlier uses are read, in the order of [`super::spec`], and our own, [`AUTO`].
const FREQUENCY: Kind = Kind::Word(&["off", "max", "min", "mean", "auto"]);
/// In [`FREQUENCY`]: history as we learn it, [`Predictive`], for which [`WITHOUT_LEARNING`] mean nothing.
pub(super) const AUTO: f64 = 4.0;
/// Who names one of these parts of the paper's sampling, and no `frequency`, wants it off and not learned.
pub(super) const WITHOUT_LEARNING: [&str; 5] = ["bulk", "keep", "replacement", "fallback", "group"];

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
pub(super) static CATALOG: &[Entry] = &[
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
