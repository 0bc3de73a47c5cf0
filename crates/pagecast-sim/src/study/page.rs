//! The HTML report of a study.

use super::Study;
use super::rows::{Curve, FLASH_HEADS, Flash, Results, Row, Tuples, time_text};
use crate::charts::{CellMap, Line, by_trace, miss_ratios};
use crate::report::{Page, Table};

/// The page.
pub fn render(study: &Study, results: &Results) -> String {
    let lead = "Page traces replayed through the replacement policies that the pool itself runs. Every run starts with an \
                empty pool; a miss is a page that had to be read, below a tier on flash one that had to be read from the store.";
    let mut page = Page::new("Simulated pools", lead);
    page.fact("Traces", traces(results).len().to_string());
    page.fact("Order", time_text(study.interleaving));
    page.fact("Seed", study.seed.to_string());
    page.fact("pagecast", env!("CARGO_PKG_VERSION"));
    if results.partial {
        page.fact("Interrupted", "the results are partial".to_owned());
    }
    add_traces(&mut page, study, results);
    // With one size there is no curve, and traces beside each other say more.
    if study.sizes.len() > 1 || results.rows.iter().all(|row| row.tuples.is_none()) {
        add_curves(&mut page, results);
    }
    add_errors(&mut page, results);
    add_differences(&mut page, study, results);
    add_distances(&mut page, results);
    for (trace, picture) in &results.pictures {
        let note = "Pages over time. A dot stands for all requests of a small stretch of time to neighbouring pages; of many \
                    point reads an even choice is drawn.";
        page.chart(format!("Accesses of {}", label(trace, results)), note, 340, picture.clone());
    }
    if !results.rows.is_empty() {
        page.table("All figures", figures(results));
    }
    page.to_string()
}

/// The last part of a path without the ends that traces have, which is what fits beside a chart.
fn short(trace: &str) -> &str {
    let mut name = trace.rsplit(['/', '\\']).next().unwrap_or(trace);
    for end in [".gz", ".zst", ".xz", ".txt", ".pct", ".csv", ".oracleGeneral"] {
        name = name.strip_suffix(end).filter(|rest| !rest.is_empty()).unwrap_or(name);
    }
    name
}

/// What a trace is called: its short name, or its whole path where another trace has the same short
/// name.
fn label<'a>(trace: &'a str, results: &Results) -> &'a str {
    let name = short(trace);
    let shared = results.rows.iter().any(|row| row.trace != trace && short(&row.trace) == name);
    if shared { trace } else { name }
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

/// The traces of rows, and of curves without rows.
fn traces(results: &Results) -> Vec<&str> {
    let rows = results.rows.iter().map(|row| row.trace.as_str());
    distinct(rows.chain(results.curves.iter().map(|curve| curve.trace.as_str())))
}

fn add_curves(page: &mut Page, results: &Results) {
    for trace in traces(results) {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.trace == trace).collect();
        let curves: Vec<_> = results.curves.iter().filter(|curve| curve.trace == trace).collect();
        let of_curves = || curves.first().map(|curve| (curve.requests, curve.unique));
        let (requests, pages) =
            rows.first().map(|row| (row.requests, row.unique)).or_else(of_curves).unwrap_or_default();
        let unique = f64::from(pages);
        let lines: Vec<Line> = if curves.is_empty() {
            let policies = distinct(rows.iter().map(|row| row.label()));
            let line = |name: String| {
                let of = rows.iter().filter(|row| row.label() == name);
                let mut points: Vec<_> = of.map(|row| (row.size_pages as f64 / unique, row.miss_ratio())).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Line { name, points, exact: Vec::new() }
            };
            policies.into_iter().map(line).collect()
        } else {
            let share =
                |points: &[(u32, f64)]| points.iter().map(|&(size, miss)| (f64::from(size) / unique, miss)).collect();
            let exact = |policy: &str| {
                let of = rows.iter().filter(|row| row.policy == policy);
                of.map(|row| (row.size_pages as f64 / unique, row.miss_ratio())).collect()
            };
            let line = |curve: &&Curve| Line {
                name: curve.policy.clone(),
                points: share(&curve.points),
                exact: if curve.rate < 1.0 { exact(&curve.policy) } else { Vec::new() },
            };
            curves.iter().map(line).collect()
        };
        let sampled = curves.first().map(|curve| curve.rate).filter(|&rate| rate < 1.0);
        let made = sampled.map_or(String::new(), |rate| {
            format!(" Lines are estimated from {:.2} % of the pages, diamonds are exact.", rate * 100.0)
        });
        let note = format!("{requests} requests for {pages} different pages. Lower is better.{made}");
        page.chart(format!("Miss ratio of {}", label(trace, results)), note, 380, miss_ratios(&lines));
    }
}

/// The policy that the others are compared with: a predictive one if it ran, else the first.
fn ours(study: &Study, results: &Results) -> String {
    let learned = results.rows.iter().find(|row| row.tuples.as_ref().is_some_and(|of| of.tuples == "learn"));
    let of = |name: &str| study.policies.iter().find(|policy| policy.algorithm() == Some(name));
    let policy = || of("pbm").or(of("pbm-paper")).unwrap_or(&study.policies[0]).name().to_owned();
    let first = results.rows.first().filter(|row| row.tuples.is_some() || row.flash.is_some());
    learned.or(first).map_or_else(policy, Row::label)
}

/// What a row is called in a map.
fn place(row: &Row, results: &Results) -> String {
    let percent = row.size_pages as f64 / f64::from(row.unique) * 100.0;
    let trace = label(&row.trace, results);
    if percent < 0.1 {
        return format!("{} pages of {trace}", row.size_pages);
    }
    format!("{} % of {trace}", (percent * 10.0).round() / 10.0)
}

/// A map of `value` over all rows of the policies in `columns`.
fn map(columns: Vec<String>, results: &Results, value: impl Fn(&Row) -> Option<f64>) -> CellMap {
    let mut map = CellMap { columns, ..CellMap::default() };
    let mut places = Vec::new();
    for row in &results.rows {
        let column = map.columns.iter().position(|name| *name == row.label());
        let Some((column, value)) = column.zip(value(row)) else { continue };
        let key = (row.trace.as_str(), row.size_pages);
        let at = places.iter().position(|known| *known == key).unwrap_or_else(|| {
            places.push(key);
            map.rows.push(place(row, results));
            places.len() - 1
        });
        map.cells.push((column, at, value));
    }
    map
}

fn add_differences(page: &mut Page, study: &Study, results: &Results) {
    let ours = ours(study, results);
    let ours = ours.as_str();
    let columns = distinct(results.rows.iter().map(Row::label).filter(|name| *name != ours));
    let map = map(columns, results, |other| {
        let same = |row: &&Row| row.label() == ours && row.trace == other.trace && row.size_pages == other.size_pages;
        results.rows.iter().find(same).map(|own| other.miss_ratio() - own.miss_ratio())
    });
    if !map.cells.is_empty() {
        let note = format!("By how many points {ours} hits more (green) or less (red) than the policy of the column.");
        page.chart(format!("{ours} against the others"), note, map.height(), map.differences(ours));
    }
}

/// The fewest misses possible where `row` ran, if they are known.
fn floor(row: &Row, results: &Results) -> Option<u64> {
    let opt = |other: &&Row| other.policy == "opt" && other.trace == row.trace && other.size_pages == row.size_pages;
    // Below a tier there is none that holds for all pools.
    if row.flash.is_some() {
        return None;
    }
    row.opt_misses.or_else(|| results.rows.iter().find(opt).map(|opt| opt.misses))
}

fn add_distances(page: &mut Page, results: &Results) {
    let columns = distinct(results.rows.iter().map(|row| row.policy.clone()).filter(|name| name != "opt"));
    let map = map(columns, results, |row| Some(row.misses as f64 / floor(row, results)? as f64 - 1.0));
    if !map.cells.is_empty() {
        let note = "Misses beyond those of Belady's MIN, which knows the future, as a part of these: 0 % misses no more \
                    than MIN, 100 % twice as often.";
        page.chart("Distance to the optimum", note, map.height(), map.above_optimum());
    }
}

/// What the samples got wrong where there are exact rows.
fn add_errors(page: &mut Page, results: &Results) {
    let mut table = Table::new(&["trace", "policy", "sampled pages", "mean error of the miss ratio"], 2);
    let mut any = false;
    for (curve, error) in results.curves.iter().filter_map(|curve| Some((curve, curve.mean_error?))) {
        let rate = format!("{:.2} %", curve.rate * 100.0);
        table = table.row([label(&curve.trace, results).to_owned(), curve.policy.clone(), rate, format!("{error:.5}")]);
        any = true;
    }
    if any {
        page.table("What the samples get wrong", table);
    }
}

/// Hit rates from trace to trace, where tuples are buffered: how they change with how the hot ones
/// lie.
fn add_traces(page: &mut Page, study: &Study, results: &Results) {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| row.tuples.is_some()).collect();
    let traces = distinct(rows.iter().map(|row| row.trace.as_str()));
    if traces.len() < 2 {
        return;
    }
    let names: Vec<String> = traces.iter().map(|trace| label(trace, results).to_owned()).collect();
    for (size, asked) in study.sizes.iter().enumerate() {
        let line = |name: String| {
            let of = |trace: &&str| rows.iter().filter(|row| row.trace == **trace && row.label() == name).nth(size);
            let rates = traces.iter().map(|trace| of(trace).map(|row| 1.0 - row.miss_ratio())).collect();
            (name, rates)
        };
        let lines: Vec<_> = distinct(rows.iter().map(|row| row.label())).into_iter().map(line).collect();
        let note = "All memory of a row counts: headers, index, rounding, counters, and what learns. Higher is better.";
        let title = format!("Hit rate from trace to trace, memory {asked}");
        page.chart(title, note, 420, by_trace(&names, &lines));
    }
}

fn figures(results: &Results) -> Table {
    let logical = results.rows.iter().any(|row| row.ticks.is_some());
    let mut heads = vec!["trace", "policy", "parameters", "pages", "requests", "misses", "miss ratio", "written back"];
    if logical {
        heads.extend(["MIN", "ticks"]);
    }
    if results.rows.iter().any(|row| row.tuples.is_some()) {
        heads.extend(["share", "tuple hits", "cleaning reads", "device requests"]);
    }
    if results.rows.iter().any(|row| row.flash.is_some()) {
        heads.extend(FLASH_HEADS);
    }
    results.rows.iter().fold(Table::new(&heads, 3), |table, row| {
        let mut cells = vec![label(&row.trace, results).to_owned(), row.label(), row.params.clone()];
        cells.extend([row.size_pages, row.requests, row.misses].map(|number| number.to_string()));
        cells.extend([format!("{:.4}", row.miss_ratio()), row.write_backs.to_string()]);
        if logical {
            cells.extend([row.opt_misses, row.ticks].map(|number| number.map_or(String::new(), |n| n.to_string())));
        }
        cells.extend(row.tuples.iter().flat_map(Tuples::cells));
        cells.extend(row.flash.iter().flat_map(Flash::cells));
        table.row(cells)
    })
}
