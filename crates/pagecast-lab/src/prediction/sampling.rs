//! The paper's sampling as its figure 7 varies it: more samples miss less, and ten victims of a
//! hundred samples are as good as ten of twenty each.

use pagecast_core::policy::PolicySpec;
use pagecast_sim::simulation::Interleaving;
use serde_json::{Value, json};

use super::goals::{Check, at_most};
use super::row::{load, row, spec};

const POOL: f64 = 0.3;
const STREAMS: [u32; 3] = [8, 16, 32];
/// Of the policy; the misses of all are summed, for two neighbours may differ by less than chance
/// moves either.
const SEEDS: u64 = 3;
const SAMPLES: [u32; 6] = [1, 2, 5, 10, 20, 100];
/// Victims of a bulk, and draws with replacement as the paper's Algorithm 1, or without as its
/// formula.
const BULKS: [(&str, &str); 2] = [("10 of 100", "yes"), ("10 of 100, no draw twice", "no")];

struct Way {
    name: String,
    policy: PolicySpec,
    misses: u64,
}

pub(crate) fn measure(seed: u64, quick: bool, checks: &mut Vec<Check>) -> Result<Value, String> {
    println!(
        "\nSampling as in the paper, scans alone in a pool of 30 %: misses, {SEEDS} seeds of the policy together\n"
    );
    let names: String = ways()?.iter().map(|way| format!(" {} |", way.name)).collect();
    println!("| streams |{names}\n|---|{}", "---|".repeat(SAMPLES.len() + BULKS.len()));
    let mut table = Vec::new();
    for streams in if quick { &STREAMS[..1] } else { &STREAMS[..] } {
        let trace = load(&format!("sequential(streams={streams},queries=8,pages=8000)"), seed)?;
        let mut ways = ways()?;
        for way in &mut ways {
            for seed in seed..seed + SEEDS {
                let policies = std::slice::from_ref(&way.policy);
                let row = row(&trace, policies, Interleaving::Fixed, (*streams, POOL), seed)?;
                way.misses += row.of(way.policy.name())?.misses;
            }
            table.push(json!({
                "streams": streams, "pool": POOL, "samples": way.name, "policy": way.policy.name(), "seeds": SEEDS,
                "misses": way.misses,
            }));
        }
        let misses: String = ways.iter().map(|way| format!(" {} |", way.misses)).collect();
        println!("| {streams} |{misses}");
        check(*streams, &ways, checks);
    }
    Ok(table.into())
}

fn ways() -> Result<Vec<Way>, String> {
    let way = |name: String, text: String| Ok(Way { name, policy: spec(&text)?, misses: 0 });
    let single = SAMPLES.iter().map(|samples| way(samples.to_string(), format!("pbm-paper(samples={samples})")));
    let bulk = BULKS.iter().map(|(name, replacement)| {
        let text = format!("pbm-published(samples=100,bulk=10,replacement={replacement})");
        way((*name).to_owned(), text)
    });
    single.chain(bulk).collect()
}

/// Each way misses less than the one before it; a bulk no more than [`SAMPLES`]' 20.
fn check(streams: u32, ways: &[Way], checks: &mut Vec<Check>) {
    let (single, bulks) = ways.split_at(SAMPLES.len());
    let beyond = |way: &Way, than: &Way| 100.0 * (way.misses as f64 / than.misses as f64 - 1.0);
    let cell = || format!("{streams} streams");
    for pair in single.windows(2) {
        let goal = format!("{} samples miss less than {}", pair[1].name, pair[0].name);
        checks.push(at_most(goal, cell(), (beyond(&pair[1], &pair[0]), 0.0), "%"));
    }
    for bulk in bulks {
        let goal = format!("{} misses no more than 20 singly", bulk.name);
        checks.push(at_most(goal, cell(), (beyond(bulk, &single[4]), 0.0), "%"));
    }
}
