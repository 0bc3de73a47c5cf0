//! Figure 2 of PVLDB 18(13) 2025 and figure A.1 of Vanderkooy's thesis: how often a victim is a
//! good one, by formula and as the policy does it.
//!
//! `cargo run --release -p pagecast-sim --example sampling_odds -- odds.html`

use pagecast_core::policy::PolicySpec;
use pagecast_sim::odds::{measured_share, optimal_share, sampling};
use pagecast_sim::report::{Page, Table};
use serde_json::{Value, json};
use std::error::Error;

/// Samples and victims of a choice.
const CHOICES: [(u32, u32); 9] = [(1, 1), (2, 1), (5, 1), (10, 1), (20, 1), (50, 1), (100, 1), (100, 10), (200, 10)];
/// Parts of the pool that are optimal.
const PARTS: [f64; 8] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3];
const FRAMES: u32 = 100_000;
const EVICTIONS: u32 = 20_000;
const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: sampling_odds FILE.html")?;
    let mut table = Table::new(&["choice", "optimal part", "formula", "measured"], 1);
    let (mut lines, mut dots): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    println!("{:>10} {:>8} {:>8} {:>8}", "choice", "part", "formula", "measured");
    for (samples, bulk) in CHOICES {
        let name = format!("{bulk} of {samples}");
        let spec: PolicySpec = sampling(samples, bulk).parse()?;
        let line: Vec<_> =
            (0..=60).map(|at| f64::from(at) / 200.0).map(|p| (p, optimal_share(p, samples, bulk))).collect();
        let mut measured = Vec::new();
        for p in PARTS {
            let share = measured_share(&spec, p, FRAMES, EVICTIONS, SEED)?;
            println!("{name:>10} {p:>8} {:>8.4} {share:>8.4}", optimal_share(p, samples, bulk));
            table = table.row([
                name.clone(),
                p.to_string(),
                format!("{:.4}", optimal_share(p, samples, bulk)),
                format!("{share:.4}"),
            ]);
            measured.push((p, share));
        }
        lines.push(json!({"name": &name, "type": "line", "data": line, "showSymbol": false}));
        dots.push(json!({"name": &name, "type": "scatter", "data": measured, "symbol": "diamond", "symbolSize": 8}));
    }
    lines.append(&mut dots);
    let mut page = Page::new(
        "How often sampling gives a good victim",
        "Of a pool, a part may as well be evicted. Of some random pages those that are wanted last leave; how many are of that part?",
    );
    page.fact("frames", FRAMES.to_string());
    page.fact("evictions a point", EVICTIONS.to_string());
    page.fact("seed", SEED.to_string());
    let percent = |name: &str| json!({"type": "value", "name": name, "axisLabel": {"formatter": "=percent"}});
    let mut across = percent("optimal part of the pool");
    across["nameLocation"] = "middle".into();
    across["nameGap"] = 30.into();
    let chart = json!({
        "legend": {"top": 0},
        "grid": {"left": 56, "right": 18, "top": 64, "bottom": 48},
        "tooltip": {"trigger": "item", "confine": true},
        "xAxis": across,
        "yAxis": percent("optimal victims"),
        "series": lines,
    });
    page.chart("Optimal victims", "Lines: the formulas. Diamonds: the policy, told the truth.", 460, chart);
    page.table("All figures", table);
    std::fs::write(&file, page.to_string())?;
    println!("seed {SEED}; wrote {file}");
    Ok(())
}
