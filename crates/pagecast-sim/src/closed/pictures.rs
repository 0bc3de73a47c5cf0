//! The pictures of a closed loop, as ECharts options for a [`crate::report::Page`].

use super::record::{LEVELS, Pictures};
use pagecast_core::Tick;
use serde_json::{Value, json};

/// One scan alone, then more and more.
const HEAT: [&str; LEVELS] = ["#3f9c6b", "#c9b53a", "#e0a13d", "#e0723d", "#b3282d"];

fn seconds(at: Tick) -> f64 {
    (at as f64 / 1e6).round() / 1e3
}

/// An axis of time from 0 to `end` seconds, so that pictures of several runs can be compared.
fn time_axis(end: f64) -> Value {
    json!({
        "type": "value", "name": "seconds", "nameLocation": "middle", "nameGap": 28, "max": end,
        "splitLine": {"show": false}, "axisLabel": {"hideOverlap": true, "showMaxLabel": false},
    })
}

fn unit_axis(units: u32) -> Value {
    json!({"type": "value", "name": "unit", "max": units, "splitLine": {"show": false}, "axisLabel": {"showMaxLabel": false}})
}

/// Bytes that so many running scans still need, over time.
pub fn sharing(pictures: &Pictures, end: f64) -> Value {
    let series = (0..LEVELS).map(|level| {
        let name = match level + 1 {
            1 => "one scan".to_owned(),
            LEVELS => format!("{LEVELS} or more"),
            scans => format!("{scans} scans"),
        };
        let data: Vec<_> = pictures
            .sharing
            .iter()
            .map(|moment| json!([seconds(moment.at), moment.bytes[level] as f64 / 1e6]))
            .collect();
        json!({
            "name": name, "type": "line", "stack": "all", "step": "end", "symbol": "none", "data": data,
            "color": HEAT[level], "lineStyle": {"width": 0}, "areaStyle": {"opacity": 0.9},
        })
    });
    json!({
        "legend": {"top": 0, "icon": "roundRect", "itemWidth": 14, "itemHeight": 8},
        "grid": {"left": 76, "right": 22, "top": 56, "bottom": 46},
        "tooltip": {"trigger": "axis", "valueFormatter": "=count", "confine": true, "order": "seriesDesc"},
        "xAxis": time_axis(end),
        "yAxis": {"type": "value", "name": "MB"},
        "series": series.collect::<Vec<_>>(),
    })
}

/// Colors of as many streams as are told apart.
const STREAMS: [&str; 16] = [
    "#2f6fb0", "#e0823d", "#3f9c6b", "#b2476d", "#7a62b8", "#8a9099", "#c2a12e", "#2aa0b5", "#6d8f2f", "#d05a4e",
    "#4a55a2", "#a5633c", "#1f7a6d", "#96308f", "#5f6b75", "#d9a0b4",
];

/// Where the scans of each stream were in the tables, over time.
pub fn ways(pictures: &Pictures, end: f64) -> Value {
    let streams = pictures.steps.iter().map(|step| step.stream + 1).max().unwrap_or(0);
    let series = (0..streams).map(|stream| {
        let steps = pictures.steps.iter().filter(|step| step.stream == stream);
        let data: Vec<_> = steps.map(|step| json!([seconds(step.at), step.unit])).collect();
        json!({
            "name": format!("stream {}", stream + 1), "type": "scatter", "data": data, "symbol": "rect",
            "symbolSize": 3, "silent": true, "color": STREAMS[stream % STREAMS.len()], "progressive": 0,
        })
    });
    json!({
        "grid": {"left": 50, "right": 22, "top": 24, "bottom": 46},
        "xAxis": time_axis(end), "yAxis": unit_axis(pictures.units),
        "series": series.collect::<Vec<_>>(),
    })
}

/// Loads, and who took what they brought.
pub fn loads(pictures: &Pictures, end: f64) -> Value {
    let mut stays = Vec::new();
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for load in &pictures.loads {
        let last = load.uses.last().map_or(load.time.1, |last| last.0.max(load.time.1));
        // A line from the load to the last use; the empty point ends it.
        stays.extend([
            json!([seconds(load.time.0), load.unit]),
            json!([seconds(last), load.unit]),
            json!([null, null]),
        ]);
        for &(at, for_him) in &load.uses {
            let uses = if for_him { &mut own } else { &mut others };
            uses.push(json!([seconds(at), load.unit]));
        }
    }
    let dots = |name: &str, data: Vec<Value>, color: &str| json!({"name": name, "type": "scatter", "data": data, "symbolSize": 4, "silent": true, "color": color, "progressive": 0});
    json!({
        "legend": {"top": 0},
        "grid": {"left": 50, "right": 22, "top": 40, "bottom": 46},
        "xAxis": time_axis(end), "yAxis": unit_axis(pictures.units),
        "series": [
            {
                "name": "from a load to its last use", "type": "line", "data": stays, "symbol": "none", "silent": true,
                "connectNulls": false, "color": "#b4bcc6", "lineStyle": {"width": 1.5}, "sampling": "none",
            },
            dots("the scan that it was for", own, "#2f6fb0"),
            dots("another scan", others, "#e0661a"),
        ],
    })
}

/// A figure over the size of the pool, a line for each row: its name, and sizes as a share with the
/// figure there, in `unit`.
pub fn over_sizes(lines: &[(String, Vec<(f64, f64)>)], unit: &str) -> Value {
    let series = lines.iter().map(|(name, points)| {
        json!({"name": name, "type": "line", "data": points, "symbolSize": 6, "lineStyle": {"width": 2}})
    });
    json!({
        "legend": {"top": 0, "icon": "roundRect", "itemWidth": 14, "itemHeight": 4},
        "grid": {"left": 70, "right": 22, "top": 34 + 24 * lines.len().div_ceil(4), "bottom": 46},
        "tooltip": {"trigger": "axis", "valueFormatter": "=count", "confine": true},
        "xAxis": {
            "type": "value", "name": "pool, part of the tables", "nameLocation": "middle", "nameGap": 28, "min": 0, "max": 1,
            "axisLabel": {"formatter": "=percent"}, "axisPointer": {"label": {"formatter": "=percent"}},
        },
        "yAxis": {"type": "value", "name": unit, "min": 0},
        "series": series.collect::<Vec<_>>(),
    })
}
