//! What a run came to in the figures of the thesis, and several runs of different seeds in one.

use super::{ClosedError, Delivery, Machine, Outcome, Query, Settings, Together, Workload, run};
use pagecast_core::Tick;
use pagecast_core::policy::PolicySpec;

const SECOND: f64 = 1e9;

/// A figure over several seeds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Spread {
    /// Of some values; zeros if there are none.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count();
        if count == 0 {
            return Self::default();
        }
        Self {
            mean: values.clone().sum::<f64>() / count as f64,
            low: values.clone().fold(f64::MAX, f64::min),
            high: values.fold(f64::MIN, f64::max),
        }
    }
}

/// A type of query in one run.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeFigures {
    /// Its name.
    pub name: String,
    /// Queries of this type.
    pub queries: usize,
    /// Their mean latency in seconds.
    pub seconds: f64,
    /// Its standard deviation, as a part of the mean.
    pub deviation: f64,
    /// What a query of this type takes alone, with an empty pool.
    pub base_seconds: f64,
    /// The mean over the base time.
    pub normalized: f64,
}

/// A run.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    /// Bytes that the device read.
    pub bytes_read: f64,
    /// Requests for pages, in bytes.
    pub bytes_requested: f64,
    /// The mean time until a stream was done, in seconds.
    pub stream_seconds: f64,
    /// The time until all were, in seconds.
    pub total_seconds: f64,
    /// The mean over the types of their normalized latencies.
    pub normalized: f64,
    /// Work of the processor over the total time: 1 is one core.
    pub cores: f64,
    /// Of the chunks that scans took in any order, the part that was brought for others.
    pub shared: f64,
    /// By type.
    pub types: Vec<TypeFigures>,
}

impl Figures {
    /// Of an outcome, where a query of each type takes `base` alone.
    pub fn of(workload: &Workload, outcome: &Outcome, base: &[Tick]) -> Self {
        let seconds = |ticks: Tick| ticks as f64 / SECOND;
        let mean = |values: &[Tick]| values.iter().map(|&ticks| seconds(ticks)).sum::<f64>() / values.len() as f64;
        let types = workload.types.iter().zip(&outcome.latencies).zip(base).filter(|((_, all), _)| !all.is_empty());
        let types: Vec<_> = types
            .map(|((name, all), &base)| {
                let (middle, base_seconds) = (mean(all), seconds(base));
                let square = all.iter().map(|&ticks| (seconds(ticks) - middle).powi(2)).sum::<f64>();
                TypeFigures {
                    name: name.clone(),
                    queries: all.len(),
                    seconds: middle,
                    deviation: (square / all.len() as f64).sqrt() / middle,
                    base_seconds,
                    normalized: middle / base_seconds,
                }
            })
            .collect();
        Self {
            bytes_read: outcome.reads as f64 * f64::from(workload.page_bytes),
            bytes_requested: outcome.counts.requests as f64 * f64::from(workload.page_bytes),
            stream_seconds: mean(&outcome.streams),
            total_seconds: seconds(outcome.total),
            normalized: Spread::of(types.iter().map(|kind| kind.normalized)).mean,
            cores: outcome.busy as f64 / outcome.total as f64,
            shared: if outcome.chunks == 0 { 0.0 } else { outcome.shared as f64 / outcome.chunks as f64 },
            types,
        }
    }
}

/// How long a query of each type takes alone, in the order of the table, with an empty pool: the
/// first of its type that the workload has.
///
/// # Errors
///
/// As [`run`].
pub fn base_times(workload: &Workload, machine: Machine) -> Result<Vec<Tick>, ClosedError> {
    let policy = PolicySpec::parse("lru")?;
    let alone = |kind: usize| {
        let query = workload.streams.iter().flatten().find(|query| query.kind == kind);
        let streams = vec![query.map(|query| Query { after: 0, ..query.clone() }).into_iter().collect()];
        let alone = Workload { streams, resident: Vec::new(), ..workload.clone() };
        let (name, full) = (String::new(), String::new());
        let delivery = Delivery { name, full, ahead: 2, together: Together::Apart, unordered: None };
        let settings = Settings {
            machine,
            delivery: &delivery,
            policy: &policy,
            frames: workload.pages(),
            seed: 0,
            record: false,
        };
        Ok(run(&alone, settings)?.total)
    };
    (0..workload.types.len()).map(alone).collect()
}
