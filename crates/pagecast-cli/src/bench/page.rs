//! The bench's HTML page.

use pagecast_sim::report::{Page, Table};
use serde_json::{Value, json};

use super::results::{Delivery, Results, Run};
use crate::units::bytes_text;

/// Pixels of a bar with the space around it, and of the axis below.
const BAR: u32 = 34;
const AXIS: u32 = 96;

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
        format!("Until the last stream ended. Storage: {}.", config.storage.label),
        height,
        time_bars(runs),
    );
    page.chart("Bytes read over time", "Where a line ends, its run was done.", 420, bytes_lines(runs));
    let longest = runs.iter().map(|run| run.wall_s).fold(0.0, f64::max);
    for run in runs.iter().filter(|run| run.delivery == Delivery::InOrder) {
        page.chart(
            format!("Scans in the table: {}", run.label()),
            "Each line is a registered scan: where in its file it stood, and when. Lines that run close together can \
             share pages.",
            360,
            scan_lines(run, longest),
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

/// A step between the ticks of an axis up to `most` bytes that is round in the unit that its labels use.
fn byte_step(most: u64) -> u64 {
    let unit = 1u64 << (most.max(1).ilog2() / 10 * 10);
    let steps = [1, 2, 5, 10, 20, 50, 100, 200, 250, 512].map(|step| unit.saturating_mul(step));
    steps.into_iter().find(|step| most / step <= 5).unwrap_or(most)
}

fn most_read(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.bytes_read).max().unwrap_or(0)
}

fn bars(runs: &[Run], format: &str, axis: Value, series: Value, legend: bool) -> Value {
    json!({
        "grid": {"left": 8, "right": 76, "top": 8, "bottom": if legend { 44 } else { 8 }},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "valueFormatter": format, "confine": true},
        "legend": {"show": legend, "bottom": 0, "itemHeight": 10},
        "xAxis": axis,
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
    let axis = json!({"type": "value", "interval": byte_step(most_read(runs)),
                      "axisLabel": {"formatter": "=bytes", "hideOverlap": true}});
    bars(runs, "=bytes", axis, series, true)
}

fn time_bars(runs: &[Run]) -> Value {
    let walls: Vec<f64> = runs.iter().map(|run| run.wall_s).collect();
    let label = json!({"show": true, "position": "right", "formatter": "=seconds"});
    let series = json!([{"name": "wall", "type": "bar", "barWidth": 18, "data": walls, "label": label,
                         "itemStyle": {"color": "#3f9c6b"}}]);
    let axis = json!({"type": "value", "splitNumber": 4, "axisLabel": {"formatter": "=seconds", "hideOverlap": true}});
    bars(runs, "=seconds", axis, series, false)
}

/// The axes and hints that all charts over time share.
fn over_time(y_axis: Value, end: Value, series: Value, tooltip: Value, legend: Value, bottom: u32) -> Value {
    json!({
        "grid": {"left": 8, "right": 20, "top": 14, "bottom": bottom},
        "tooltip": tooltip,
        "legend": legend,
        "xAxis": {"type": "value", "axisLabel": {"formatter": "=seconds", "hideOverlap": true, "showMaxLabel": false},
                  "splitLine": {"show": false}, "max": end},
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
    let y_axis = json!({"type": "value", "axisLabel": {"formatter": "=bytes"}, "interval": byte_step(most_read(runs))});
    over_time(y_axis, json!("dataMax"), json!(series), tooltip, legend, 40)
}

/// `end` is the same for all runs, so that their pictures can be compared.
fn scan_lines(run: &Run, end: f64) -> Value {
    let line = |points: &[(f64, f64)]| json!({"type": "line", "showSymbol": false, "lineStyle": {"width": 1.6}, "data": points});
    let series: Vec<Value> = run.timeline.scans().into_iter().map(line).collect();
    let y_axis = json!({"type": "value", "min": 0, "max": 1, "axisLabel": {"formatter": "=percent"}, "interval": 0.25});
    over_time(y_axis, json!(end), json!(series), json!({"show": false}), json!({"show": false}), 8)
}

#[cfg(test)]
mod tests {
    use super::byte_step;

    #[test]
    fn ticks_are_round_and_few() {
        let mib = 1 << 20;
        assert_eq!(byte_step(13 * mib), 5 * mib);
        assert_eq!(byte_step(700 * mib), 200 * mib);
        for most in [0, 1, 999, 1024, 1 << 30, (1 << 40) - 1, u64::MAX / 2, u64::MAX] {
            assert!(most / byte_step(most) <= 5, "{most}");
        }
    }
}
