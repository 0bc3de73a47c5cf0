//! The HTML report of `pagecast simulate`.

use std::collections::BTreeSet;

use pagecast_sim::charts::{DifferenceMap, Line, miss_ratios, over_opt};
use pagecast_sim::report::{Page, Table};

use super::Plan;
use super::rows::{Results, Row, time_text};

/// The page.
pub(super) fn render(plan: &Plan, results: &Results) -> String {
    let lead = "Page traces replayed through the replacement policies that the pool itself runs. Every run starts with an \
                empty pool; a miss is a page that had to be read.";
    let mut page = Page::new("Simulated pools", lead);
    page.fact("Traces", plan.traces.len().to_string());
    page.fact("Order", time_text(plan.interleaving));
    page.fact("Seed", plan.seed.to_string());
    page.fact("pagecast", env!("CARGO_PKG_VERSION"));
    add_curves(&mut page, results);
    add_differences(&mut page, plan, results);
    add_distances(&mut page, results);
    for (trace, picture) in &results.pictures {
        let note = "Pages over time. A dot stands for all requests of a small stretch of time to neighbouring pages; of many \
                    point reads an even choice is drawn.";
        page.chart(format!("Accesses of {}", short(trace)), note, 340, picture.clone());
    }
    page.table("All figures", figures(results));
    page.to_string()
}

/// The last part of a path, which is what fits beside a chart.
fn short(trace: &str) -> &str {
    trace.rsplit(['/', '\\']).next().unwrap_or(trace)
}

/// The values of a field in the order in which they first come.
fn distinct<'a, T: PartialEq>(values: impl Iterator<Item = T> + 'a) -> Vec<T> {
    let mut seen = Vec::new();
    values.for_each(|value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
    });
    seen
}

fn add_curves(page: &mut Page, results: &Results) {
    for trace in distinct(results.rows.iter().map(|row| row.trace.as_str())) {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.trace == trace).collect();
        let unique = f64::from(rows[0].unique);
        let curves: Vec<_> = results.curves.iter().filter(|curve| curve.trace == trace).collect();
        let lines: Vec<Line> = if curves.is_empty() {
            let policies = distinct(rows.iter().map(|row| row.policy.as_str()));
            let line = |name: &str| {
                let of = rows.iter().filter(|row| row.policy == name);
                let mut points: Vec<_> = of.map(|row| (row.size_pages as f64 / unique, row.miss_ratio())).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Line { name: name.to_owned(), points }
            };
            policies.into_iter().map(line).collect()
        } else {
            let points =
                |points: &[(u32, f64)]| points.iter().map(|&(size, miss)| (f64::from(size) / unique, miss)).collect();
            curves.iter().map(|curve| Line { name: curve.policy.clone(), points: points(&curve.points) }).collect()
        };
        let sampled = curves.first().map(|curve| curve.rate).filter(|&rate| rate < 1.0);
        let made = sampled.map_or(String::new(), |rate| format!(" Estimated from {:.2} % of the pages.", rate * 100.0));
        let note =
            format!("{} requests for {} different pages. Lower is better.{made}", rows[0].requests, rows[0].unique);
        page.chart(format!("Miss ratio of {}", short(trace)), note, 380, miss_ratios(&lines));
    }
}

/// The policy that the others are compared with: a predictive one if it ran, else the first.
fn ours(plan: &Plan) -> &str {
    let of = |name: &str| plan.policies.iter().find(|policy| policy.algorithm() == name);
    of("pbm").or(of("pbm-paper")).unwrap_or(&plan.policies[0]).name()
}

fn add_differences(page: &mut Page, plan: &Plan, results: &Results) {
    let ours = ours(plan);
    let columns: Vec<String> = distinct(results.rows.iter().map(|row| row.policy.clone()).filter(|name| name != ours));
    let mut map = DifferenceMap { columns, ..DifferenceMap::default() };
    for own in results.rows.iter().filter(|row| row.policy == ours) {
        let share = own.size_pages as f64 / f64::from(own.unique) * 100.0;
        map.rows.push(format!("{} % of {}", (share * 10.0).round() / 10.0, short(&own.trace)));
        for (column, name) in map.columns.iter().enumerate() {
            let same = |row: &&Row| row.policy == *name && row.trace == own.trace && row.size_pages == own.size_pages;
            if let Some(other) = results.rows.iter().find(same) {
                map.cells.push((column, map.rows.len() - 1, other.miss_ratio() - own.miss_ratio()));
            }
        }
    }
    if !map.cells.is_empty() {
        let note = format!("By how many points {ours} hits more (green) or less (red) than the policy of the column.");
        page.chart(format!("{ours} against the others"), note, map.height(), map.option());
    }
}

/// The fewest misses possible where `row` ran, if they are known.
fn floor(row: &Row, results: &Results) -> Option<u64> {
    let opt = |other: &&Row| other.policy == "opt" && other.trace == row.trace && other.size_pages == row.size_pages;
    row.opt_misses.or_else(|| results.rows.iter().find(opt).map(|opt| opt.misses))
}

fn add_distances(page: &mut Page, results: &Results) {
    let group = |row: &Row| format!("{}, {}", row.size_pages, short(&row.trace));
    let policies = distinct(results.rows.iter().map(|row| row.policy.as_str()).filter(|&name| name != "opt"));
    let groups = distinct(results.rows.iter().map(group));
    let excess = |name: &str| -> Vec<Option<f64>> {
        let of = |at: &String| results.rows.iter().find(|row| row.policy == name && group(row) == *at);
        let above = |row: &Row| Some(row.misses as f64 / floor(row, results)? as f64 - 1.0);
        groups.iter().map(|at| of(at).and_then(above)).collect()
    };
    let bars: Vec<_> = policies.iter().map(|&name| (name.to_owned(), excess(name))).collect();
    if bars.iter().flat_map(|(_, values)| values).any(Option::is_some) {
        let note = "Misses beyond those of Belady's MIN, which knows the future. Each group is a pool size in pages and a trace.";
        page.chart("Distance to the optimum", note, 380, over_opt(&groups, &bars));
    }
}

fn figures(results: &Results) -> Table {
    let logical = results.rows.iter().any(|row| row.ticks.is_some());
    let mut heads = vec!["trace", "policy", "parameters", "pages", "requests", "misses", "miss ratio", "written back"];
    if logical {
        heads.extend(["MIN", "ticks"]);
    }
    let traces: BTreeSet<_> = results.rows.iter().map(|row| row.trace.as_str()).collect();
    // Paths are shown whole only when their last parts would not tell two traces apart.
    let whole = traces.iter().map(|trace| short(trace)).collect::<BTreeSet<_>>().len() < traces.len();
    results.rows.iter().fold(Table::new(&heads, 3), |table, row| {
        let trace = if whole { row.trace.clone() } else { short(&row.trace).to_owned() };
        let mut cells = vec![trace, row.policy.clone(), row.params.clone()];
        cells.extend([row.size_pages, row.requests, row.misses].map(|number| number.to_string()));
        cells.extend([format!("{:.4}", row.miss_ratio()), row.write_backs.to_string()]);
        if logical {
            cells.extend([row.opt_misses, row.ticks].map(|number| number.map_or(String::new(), |n| n.to_string())));
        }
        table.row(cells)
    })
}
