//! What it costs to keep the pages of bitmap scans in fewer words than they need: misses, by the
//! words that a scan may have.

use pagecast_core::policy::PolicySpec;
use pagecast_sim::simulation::{Interleaving, Options, simulate_with};
use pagecast_sim::trace::Trace;

use super::row::{frames, load};

/// Some 960 blocks of 4,800 in 240 stretches: 720 words as runs, 85 as bits.
const WORKLOAD: &str = "bitmap(streams=32,queries=6,pages=16000,range=0.3,share=0.2,run=4)";
const POOLS: [f64; 2] = [0.1, 0.3];
const POLICIES: [&str; 2] = ["pbm-paper", "pbm(history=off)"];
/// 0: no bound.
const WORDS: [u32; 9] = [0, 768, 384, 192, 96, 48, 24, 12, 3];

pub(crate) struct Coarse {
    pub(crate) form: &'static str,
    pub(crate) policy: &'static str,
    pub(crate) pool: f64,
    pub(crate) scan_words: u32,
    pub(crate) misses: u64,
    /// Misses over those with no bound.
    pub(crate) of_exact: f64,
}

pub(crate) fn measure(seed: u64) -> Result<Vec<Coarse>, String> {
    println!("\n`{WORKLOAD}`: misses by the words that a scan may have, over those with no bound\n");
    let words: String = WORDS[1..].iter().map(|words| format!(" {words} |")).collect();
    println!("| policy | pool | kept as | any |{words}\n|---|---|---|{}", "---|".repeat(WORDS.len()));
    let trace = load(WORKLOAD, seed)?;
    let mut all = Vec::new();
    for pool in POOLS {
        for policy in POLICIES {
            for (form, bitsets) in [("runs", false), ("bitset", true)] {
                let series = series(&trace, (form, bitsets), policy, pool, seed)?;
                let exact = series.first().map_or(0, |exact| exact.misses);
                let coarse: String = series.iter().skip(1).map(|cell| format!(" {:.3} |", cell.of_exact)).collect();
                println!("| `{policy}` | {:.0} % | {form} | {exact} |{coarse}", pool * 100.0);
                all.extend(series);
            }
        }
    }
    Ok(all)
}

fn series(
    trace: &Trace,
    (form, bitsets): (&'static str, bool),
    policy: &'static str,
    pool: f64,
    seed: u64,
) -> Result<Vec<Coarse>, String> {
    let spec = PolicySpec::parse(policy).map_err(|e| e.to_string())?;
    let mut series: Vec<Coarse> = Vec::new();
    for scan_words in WORDS {
        let options = Options { scan_words, bitsets, ..Options::of(Interleaving::Fixed) };
        let outcome = simulate_with(trace, &spec, frames(trace, pool), seed, &options).map_err(|e| e.to_string())?;
        let misses = outcome.counts.misses;
        let exact = series.first().map_or(misses, |exact| exact.misses);
        series.push(Coarse { form, policy, pool, scan_words, misses, of_exact: misses as f64 / exact as f64 });
    }
    Ok(series)
}
