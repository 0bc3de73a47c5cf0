//! The bench's HTML page.

use pagecast_sim::report::{Page, Table};
use serde_json::{Value, json};

use super::results::{Delivery, Results, Run};
use crate::units::bytes_text;

/// Pixels of a bar with the space around it, and of the axis below.
const BAR: u32 = 34;
const AXIS: u32 = 86;

/// The page of `results`.
pub(super) fn page(results: &Results) -> Page {
    let config = &results.config;
    let mut page = Page::new(
        "pagecast bench",
        format!(
            "{} concurrent streams of {} queries each over {} of Parquet, once per policy: how much each read from \
             storage, and how long it took.",
            config.streams,
            config.queries_per_stream,
            bytes_text(config.data_bytes)
        ),
    );
    facts(&mut page, results);
    let runs = &results.runs;
    let height = runs.len() as u32 * BAR + AXIS;
    page.chart(
        "Bytes read from storage",
        "Less is better. The diamond is the floor: the same page requests replayed through Belady's optimal policy at \
         the same pool.",
        height,
        bytes_bars(runs),
    );
    page.chart(
        "Wall time",
        format!("Until the last stream ended, on storage {}.", config.storage.label),
        height,
        time_bars(runs),
    );
    page.chart("Bytes read over time", "Where a line ends, its run was done.", 420, bytes_lines(runs));
    for run in runs.iter().filter(|run| run.delivery == Delivery::InOrder) {
        page.chart(
            format!("Scans in the table: {}", run.label()),
            "Each line is a registered scan: where in its file it stood, and when. Lines that run close together can \
             share pages.",
            360,
            scan_lines(run),
        );
    }
    let (heads, rows) = results.cells();
    page.table("All figures", rows.into_iter().fold(Table::new(&heads, 2), Table::row));
    page
}

fn facts(page: &mut Page, results: &Results) {
    let config = &results.config;
    page.fact("Storage", config.storage.label.clone());
    page.fact("Pool", format!("{} ({})", bytes_text(config.pool_bytes), config.pool));
    page.fact("Touched by the query list", bytes_text(config.touched_bytes));
    page.fact(
        "Queries",
        format!("{}, {:.0} % of {}", config.templates.join(", "), config.selectivity * 100.0, config.range),
    );
    page.fact("Seed", config.seed.to_string());
    page.fact("Page size", bytes_text(config.page_bytes.into()));
    page.fact("Machine", config.machine.to_string());
    page.fact("Data", config.data.display().to_string());
}

/// Categories run upwards on ECharts' vertical axis; the first row is to be on top.
fn labels(runs: &[Run]) -> Value {
    json!({
        "type": "category", "inverse": true, "data": runs.iter().map(Run::label).collect::<Vec<_>>(),
        "axisTick": {"show": false}, "axisLabel": {"fontSize": 13, "color": "#1d2733"},
    })
}

fn bars(runs: &[Run], format: &str, series: Value, legend: bool) -> Value {
    json!({
        "grid": {"left": 8, "right": 76, "top": 8, "bottom": if legend { 34 } else { 8 }},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "valueFormatter": format, "confine": true},
        "legend": {"show": legend, "bottom": 0, "itemHeight": 10},
        "xAxis": {"type": "value", "axisLabel": {"formatter": format, "hideOverlap": true}, "splitNumber": 4},
        "yAxis": labels(runs),
        "series": series,
    })
}

fn bytes_bars(runs: &[Run]) -> Value {
    let read: Vec<u64> = runs.iter().map(|run| run.bytes_read).collect();
    let floor: Vec<Option<u64>> = runs.iter().map(|run| run.belady_bytes_read).collect();
    let label = json!({"show": true, "position": "right", "formatter": "=bytes"});
    let series = json!([
        {"name": "read", "type": "bar", "barWidth": 18, "data": read, "label": label},
        {"name": "Belady", "type": "scatter", "symbol": "diamond", "symbolSize": 12, "data": floor, "z": 3,
         "itemStyle": {"color": "#1d2733", "borderColor": "#fff", "borderWidth": 1.5}},
    ]);
    bars(runs, "=bytes", series, true)
}

fn time_bars(runs: &[Run]) -> Value {
    let walls: Vec<f64> = runs.iter().map(|run| run.wall_s).collect();
    let label = json!({"show": true, "position": "right", "formatter": "=seconds"});
    let series = json!([{"name": "wall", "type": "bar", "barWidth": 18, "data": walls, "label": label,
                         "itemStyle": {"color": "#3f9c6b"}}]);
    bars(runs, "=seconds", series, false)
}

/// The axes and hints that all charts over time share.
fn over_time(y_axis: Value, series: Value, tooltip: Value, legend: Value, bottom: u32) -> Value {
    json!({
        "grid": {"left": 8, "right": 20, "top": 14, "bottom": bottom},
        "tooltip": tooltip,
        "legend": legend,
        "xAxis": {"type": "value", "axisLabel": {"formatter": "=seconds", "hideOverlap": true},
                  "splitLine": {"show": false}, "max": "dataMax"},
        "yAxis": y_axis,
        "series": series,
    })
}

fn bytes_lines(runs: &[Run]) -> Value {
    let series: Vec<Value> = runs
        .iter()
        .map(|run| json!({"name": run.label(), "type": "line", "showSymbol": false, "data": run.timeline.bytes_read()}))
        .collect();
    let legend = json!({"type": "scroll", "bottom": 0, "itemHeight": 8, "itemWidth": 18});
    let tooltip = json!({"trigger": "axis", "valueFormatter": "=bytes", "confine": true});
    let y_axis = json!({"type": "value", "axisLabel": {"formatter": "=bytes"}, "splitNumber": 4});
    over_time(y_axis, json!(series), tooltip, legend, 40)
}

fn scan_lines(run: &Run) -> Value {
    let line = |points: &[(f64, f64)]| json!({"type": "line", "showSymbol": false, "lineStyle": {"width": 1.6}, "data": points});
    let series: Vec<Value> = run.timeline.scans().into_iter().map(line).collect();
    let y_axis = json!({"type": "value", "min": 0, "max": 1, "axisLabel": {"formatter": "=percent"}, "splitNumber": 4});
    over_time(y_axis, json!(series), json!({"show": false}), json!({"show": false}), 8)
}
