//! Reports that come back by the clock, and queries that never do.
//!
//! Each report is a stream: one template over one range, every 8, 16 or 32 seconds, a little early
//! or late. Between them others run, each over a range of its own and once, as people look at data.
//! When which starts is a function of the seed alone; one that is due while the one before it still
//! runs begins when that ends.

use std::collections::HashMap;
use std::time::Duration;

use pagecast_core::random::Random;

use super::workload::{Domain, Query, Template};

/// Seconds from start to start of the most frequent reports.
const PERIOD: f64 = 8.0;
/// By this part of its period a report is early or late.
const JITTER: f64 = 0.03;
/// Reports for each stream of queries that never come back.
const REPORTS: usize = 4;
/// What queries that never come back are called.
pub(super) const ONE_OFF: &str = "one-off";

/// What comes back, and what does not.
pub(super) struct Mix {
    /// How many reports there are.
    pub(super) reports: usize,
    /// How often the most frequent ones start.
    pub(super) starts: usize,
    /// The share of all queries that never come back.
    pub(super) one_off: f64,
}

/// A stream for each report, and those of the others.
pub(super) fn query_list(
    templates: &[Template],
    domain: &Domain,
    shares: &[f64],
    mix: &Mix,
    seed: u64,
) -> Vec<Vec<Query>> {
    let mut random = Random::new(seed);
    let length = PERIOD * mix.starts as f64;
    let query = |name: &str, at: f64, random: &mut Random| {
        let template = &templates[random.below(templates.len() as u32) as usize];
        let share = shares[random.below(shares.len() as u32) as usize];
        let query = template.query(0, domain, share, random);
        Query { name: name.to_owned(), at: Duration::from_secs_f64(at.max(0.0)), ..query }
    };
    let mut streams: Vec<Vec<Query>> = Vec::new();
    for number in 0..mix.reports {
        let period = PERIOD * f64::from(1 << (number % 3));
        let phase = random.unit() * period;
        let report = query(&format!("report-{number}"), 0.0, &mut random);
        let starts = (0..).map(|start| phase + f64::from(start) * period).take_while(|&at| at < length);
        let late = |at: f64, random: &mut Random| (at + (2.0 * random.unit() - 1.0) * JITTER * period).max(0.0);
        let at = |at| Query { at: Duration::from_secs_f64(late(at, &mut random)), ..report.clone() };
        streams.push(starts.map(at).collect());
    }
    let reports: usize = streams.iter().map(Vec::len).sum();
    let others = (reports as f64 * mix.one_off / (1.0 - mix.one_off)).round() as usize;
    let mut starts: Vec<f64> = (0..others).map(|_| random.unit() * length).collect();
    starts.sort_unstable_by(f64::total_cmp);
    let lanes = mix.reports.div_ceil(REPORTS);
    let mut lane = |number: usize| -> Vec<Query> {
        let starts = starts.iter().skip(number).step_by(lanes);
        starts.map(|&at| query(ONE_OFF, at, &mut random)).collect()
    };
    streams.extend((0..lanes).map(&mut lane).filter(|lane| !lane.is_empty()));
    streams
}

/// What the runs of reports took, of all queries by name and seconds: the shortest first. The first
/// two of each report do not count: before the third nobody can know that it comes back.
pub(super) fn latencies<'a>(queries: impl Iterator<Item = (&'a str, f64)>) -> Vec<f64> {
    let mut runs: HashMap<&str, usize> = HashMap::new();
    let mut latencies = Vec::new();
    for (name, seconds) in queries.filter(|&(name, _)| name != ONE_OFF) {
        let run = runs.entry(name).or_default();
        *run += 1;
        if *run > 2 {
            latencies.push(seconds);
        }
    }
    latencies.sort_unstable_by(f64::total_cmp);
    latencies
}

/// The middle one of numbers in order; 0 of none.
pub(super) fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reports_come_back_and_others_do_not() {
        let domain: Domain = "0..100000".parse().unwrap();
        let mix = Mix { reports: 6, starts: 8, one_off: 0.5 };
        let list = |seed| query_list(&Template::defaults(), &domain, &[0.05, 0.1], &mix, seed);
        assert_eq!(list(1), list(1));
        assert_ne!(list(1), list(2));
        let list = list(1);
        let distinct = |queries: &[Query]| queries.iter().map(|query| query.sql.clone()).collect::<HashSet<_>>().len();
        let (reports, others) = list.split_at(6);
        assert_eq!(reports.iter().map(Vec::len).collect::<Vec<_>>(), [8, 4, 2, 8, 4, 2]);
        assert!(reports.iter().all(|report| distinct(report) == 1));
        let others = others.concat();
        assert_eq!((others.len(), distinct(&others)), (28, 28));
        assert!(list.iter().all(|stream| stream.is_sorted_by_key(|query| query.at)));
    }
}
