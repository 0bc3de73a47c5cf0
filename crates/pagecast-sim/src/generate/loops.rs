//! Loops: streams that read the same pages over and over. LRU misses all of them in a pool one page
//! too small.

use super::call::Call;
use super::program::{Program, TABLE, scan};
use pagecast_core::random::Random;

pub(super) const ABOUT: &str = "the same pages over and over, each round a scan: pages, rounds, streams";

pub(super) fn make(call: &mut Call, _random: &mut Random) -> Result<Vec<Program>, String> {
    let pages = call.count("pages", 1000, 1, 1 << 26)?;
    let rounds = call.count("rounds", 100, 1, 1 << 20)?;
    let streams = call.count("streams", 1, 1, 1024)?;
    call.bounded(u64::from(pages) * u64::from(rounds) * u64::from(streams))?;
    let stream = |_| {
        let mut program = Vec::new();
        (0..rounds).for_each(|_| scan(&mut program, TABLE, 0, pages, 16));
        program
    };
    Ok((0..streams).map(stream).collect())
}
