//! TPC-H's throughput run: each stream runs the 22 queries in an order of its own, as appendix A of
//! the specification (revision 3) lists it, with parameters drawn as its clause 2.4 says.
//!
//! Deviations: no refresh stream, since the tables are files; scale factors below 1; stream 17 and
//! later take the orders again from the first. So the figure is no result of TPC-H.

mod data;
mod parameters;

use std::time::Duration;

use pagecast_core::random::Random;

pub(super) use data::folder;
use parameters::Drawn;

use super::workload::Query;

macro_rules! queries {
    ($($number:literal)*) => {
        [$(include_str!(concat!("../../../../../hosts/datafusion/tests/queries/q", $number, ".sql"))),*]
    };
}

/// The queries, from the first, with the parameters of their validation.
const QUERIES: [&str; 22] = queries!("01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16"
    "17" "18" "19" "20" "21" "22");

/// The orders of the first sixteen streams.
const ORDERS: [[usize; 22]; 16] = [
    [21, 3, 18, 5, 11, 7, 6, 20, 17, 12, 16, 15, 13, 10, 2, 8, 14, 19, 9, 22, 1, 4],
    [6, 17, 14, 16, 19, 10, 9, 2, 15, 8, 5, 22, 12, 7, 13, 18, 1, 4, 20, 3, 11, 21],
    [8, 5, 4, 6, 17, 7, 1, 18, 22, 14, 9, 10, 15, 11, 20, 2, 21, 19, 13, 16, 12, 3],
    [5, 21, 14, 19, 15, 17, 12, 6, 4, 9, 8, 16, 11, 2, 10, 18, 1, 13, 7, 22, 3, 20],
    [21, 15, 4, 6, 7, 16, 19, 18, 14, 22, 11, 13, 3, 1, 2, 5, 8, 20, 12, 17, 10, 9],
    [10, 3, 15, 13, 6, 8, 9, 7, 4, 11, 22, 18, 12, 1, 5, 16, 2, 14, 19, 20, 17, 21],
    [18, 8, 20, 21, 2, 4, 22, 17, 1, 11, 9, 19, 3, 13, 5, 7, 10, 16, 6, 14, 15, 12],
    [19, 1, 15, 17, 5, 8, 9, 12, 14, 7, 4, 3, 20, 16, 6, 22, 10, 13, 2, 21, 18, 11],
    [8, 13, 2, 20, 17, 3, 6, 21, 18, 11, 19, 10, 15, 4, 22, 1, 7, 12, 9, 14, 5, 16],
    [6, 15, 18, 17, 12, 1, 7, 2, 22, 13, 21, 10, 14, 9, 3, 16, 20, 19, 11, 4, 8, 5],
    [15, 14, 18, 17, 10, 20, 16, 11, 1, 8, 4, 22, 5, 12, 3, 9, 21, 2, 13, 6, 19, 7],
    [1, 7, 16, 17, 18, 22, 12, 6, 8, 9, 11, 4, 2, 5, 20, 21, 13, 10, 19, 3, 14, 15],
    [21, 17, 7, 3, 1, 10, 12, 22, 9, 16, 6, 11, 2, 4, 5, 14, 8, 20, 13, 18, 15, 19],
    [2, 9, 5, 4, 18, 1, 20, 15, 16, 17, 7, 21, 13, 14, 19, 8, 22, 11, 10, 3, 12, 6],
    [16, 9, 17, 8, 14, 11, 10, 12, 6, 21, 7, 3, 15, 5, 22, 20, 1, 13, 19, 2, 4, 18],
    [1, 3, 6, 5, 2, 16, 14, 22, 17, 20, 4, 9, 10, 11, 15, 8, 12, 19, 18, 13, 7, 21],
];

/// For each of `streams` streams the first `queries` of its 22, over tables of scale factor
/// `scale`.
pub(super) fn query_list(scale: f64, (streams, queries): (usize, usize), seed: u64) -> Vec<Vec<Query>> {
    let mut random = Random::new(seed);
    let mut query = |number: usize| {
        let sql = Drawn::of(number, scale, &mut random).put_into(QUERIES[number - 1]);
        Query { name: format!("q{number}"), selectivity: 1.0, sql, at: Duration::ZERO }
    };
    let order = |stream: usize| ORDERS[stream % ORDERS.len()].into_iter().take(queries);
    (0..streams).map(|stream| order(stream).map(&mut query).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_runs_each_query_once() {
        for (stream, queries) in query_list(1.0, (20, 22), 1).iter().enumerate() {
            let mut names: Vec<&str> = queries.iter().map(|query| query.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), 22, "stream {stream}");
        }
    }

    #[test]
    fn the_list_is_the_seeds_and_its_parameters_differ() {
        let list = |seed| query_list(1.0, (16, 22), seed);
        assert_eq!(list(1), list(1));
        assert_ne!(list(1), list(2));
        let mut firsts: Vec<String> = list(1).concat().into_iter().filter(|q| q.name == "q7").map(|q| q.sql).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() > 10, "{} of 16 differ", firsts.len());
    }
}
