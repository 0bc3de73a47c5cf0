//! The pictures of a trace and of what policies make of it, as ECharts options for a
//! [`crate::report::Page`].

use crate::trace::Trace;
use serde_json::{Value, json};

/// One line of a miss-ratio chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The policy.
    pub name: String,
    /// Pool sizes as a share of the trace's unique pages, and the miss ratio at each.
    pub points: Vec<(f64, f64)>,
    /// The same as exact replays have it, where the line is only an estimate; drawn as dots.
    pub exact: Vec<(f64, f64)>,
}

/// Below this width in pixels a chart is laid out for a telephone.
const NARROW: u32 = 560;

/// Sizes further apart than this are drawn on a logarithmic axis.
const WIDE: f64 = 20.0;

/// Miss ratio over pool size, a line a policy.
pub fn miss_ratios(lines: &[Line]) -> Value {
    let mut series = Vec::new();
    for line in lines {
        let opt = line.name == "opt";
        series.push(json!({
            "name": line.name, "type": "line", "data": line.points, "symbolSize": 5,
            "showSymbol": line.points.len() < 16,
            "lineStyle": {"width": 2, "type": if opt { "dashed" } else { "solid" }},
        }));
    }
    // Of the same name, so that they share the line's color and its place in the legend. After all
    // lines: colors go by the order in which names come.
    for line in lines.iter().filter(|line| !line.exact.is_empty()) {
        series.push(json!({
            "name": line.name, "type": "scatter", "data": line.exact, "symbol": "diamond", "symbolSize": 10,
            "itemStyle": {"borderColor": "#fff", "borderWidth": 1},
        }));
    }
    let sizes = || lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let (low, high) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    // A legend of many policies takes several rows, and more of them on a narrow screen.
    let rows = |per_row: usize| 26 * lines.len().div_ceil(per_row);
    json!({
        "legend": {"top": 0, "icon": "roundRect", "itemWidth": 14, "itemHeight": 4},
        "grid": {"left": 56, "right": 18, "top": rows(8) + 14, "bottom": 48},
        "tooltip": {"trigger": "axis", "valueFormatter": "=percent", "confine": true, "order": "valueDesc"},
        "xAxis": {
            "type": if high > low * WIDE { "log" } else { "value" },
            "name": "pool size, part of the unique pages", "nameLocation": "middle", "nameGap": 30,
            "min": "dataMin", "max": "dataMax", "axisLabel": {"formatter": "=percent", "hideOverlap": true},
            "axisPointer": {"label": {"formatter": "=percent"}},
        },
        "yAxis": {"type": "value", "name": "miss ratio", "min": 0, "scale": true, "axisLabel": {"formatter": "=percent"}},
        "series": series,
        "media": [{"query": {"maxWidth": NARROW}, "option": {"grid": {"left": 46, "right": 10, "top": rows(4) + 14}}}],
    })
}

/// Hit rates from trace to trace, a line a buffer.
pub fn by_trace(traces: &[String], lines: &[(String, Vec<Option<f64>>)]) -> Value {
    let series: Vec<_> = lines
        .iter()
        .map(|(name, rates)| json!({"name": name, "type": "line", "data": rates, "symbolSize": 6, "lineStyle": {"width": 2}}))
        .collect();
    json!({
        "legend": {"top": 0, "icon": "roundRect", "itemWidth": 14, "itemHeight": 4},
        "grid": {"left": 56, "right": 18, "top": 26 * lines.len().div_ceil(6) + 14, "bottom": 48},
        "tooltip": {"trigger": "axis", "valueFormatter": "=percent", "confine": true, "order": "valueDesc"},
        "xAxis": {"type": "category", "data": traces, "axisLabel": {"interval": 0, "hideOverlap": true}},
        "yAxis": {"type": "value", "name": "hit rate", "scale": true, "axisLabel": {"formatter": "=percent"}},
        "series": series,
    })
}

/// A value for every workload, pool size and policy, as a map of colored cells.
#[derive(Clone, Debug, Default)]
pub struct CellMap {
    /// The columns: policies.
    pub columns: Vec<String>,
    /// The rows, from the top: a workload and a pool size each.
    pub rows: Vec<String>,
    /// Column, row, and the value.
    pub cells: Vec<(usize, usize, f64)>,
}

impl CellMap {
    /// The height in pixels that shows every row.
    pub fn height(&self) -> u32 {
        150 + 24 * self.rows.len() as u32
    }

    /// Differences between hit rates, from -1 to 1: green where `ours` hits more, red where the
    /// other does.
    pub fn differences(&self, ours: &str) -> Value {
        let most = self.cells.iter().map(|cell| cell.2.abs()).fold(0.01, f64::max);
        let colors = ["#b3282d", "#e98b6d", "#f4f1ea", "#85c08f", "#1a7a3c"];
        self.option((-most, most), [&format!("{ours} hits more"), "the other does"], &colors)
    }

    /// Misses above those of Belady's MIN, as a part of these: the redder, the more.
    pub fn above_optimum(&self) -> Value {
        let most = self.cells.iter().map(|cell| cell.2).fold(0.01, f64::max);
        self.option((0.0, most), ["many more misses", "as few as MIN"], &["#f4f8f3", "#f3d9b4", "#e98b6d", "#b3282d"])
    }

    fn option(&self, (low, high): (f64, f64), ends: [&str; 2], colors: &[&str]) -> Value {
        let cells: Vec<_> =
            self.cells.iter().map(|&(x, y, value)| json!([x, y, (value * 1e4).round() / 1e4])).collect();
        json!({
            "grid": {"left": 190, "right": 16, "top": 60, "bottom": 70},
            "tooltip": {"confine": true, "valueFormatter": "=percent"},
            "xAxis": {
                "type": "category", "data": self.columns, "position": "top", "splitArea": {"show": true},
                "axisLabel": {"interval": 0, "rotate": if self.columns.len() > 8 { 40 } else { 0 }},
            },
            "yAxis": {"type": "category", "data": self.rows, "inverse": true, "axisLabel": {"interval": 0}},
            "visualMap": {
                "min": low, "max": high, "calculable": false, "orient": "horizontal", "left": "center", "bottom": 4,
                "formatter": "=percent", "text": ends, "itemHeight": 160, "inRange": {"color": colors},
            },
            "series": [{
                "type": "heatmap", "data": cells, "itemStyle": {"borderColor": "#fff", "borderWidth": 1},
                "label": {"show": self.columns.len() <= 14, "fontSize": 11, "formatter": "=percent"},
            }],
            "media": [{"query": {"maxWidth": NARROW}, "option": {
                "grid": {"left": 118, "right": 6},
                "xAxis": {"axisLabel": {"rotate": 60, "fontSize": 10}},
                "yAxis": {"axisLabel": {"fontSize": 10, "width": 112, "overflow": "truncate"}},
                "visualMap": {"itemHeight": 70},
                "series": [{"label": {"show": self.columns.len() <= 5, "fontSize": 9}}],
            }}],
        })
    }
}

/// Cells of the access picture, in time and in pages.
const PICTURE: (usize, usize) = (360, 180);

/// At most so many point reads are drawn, evenly chosen: all of them would cover everything else.
const POINTS: usize = 8_000;

/// What the picture of [`accesses`] shows, for people.
pub const ACCESSES: &str = "Which pages are asked for over time. A dot stands for all requests of a small stretch of time \
                            to neighbouring pages, and of many point reads an even choice is drawn; pages are in the \
                            order of their ids.";

/// Which pages are asked for over time: point reads red, scans blue on top, one dot for all
/// requests that fall in a cell.
///
/// Pages are in the order of their ids, relation after relation, gaps between them left out.
pub fn accesses(trace: &Trace) -> Value {
    let (columns, rows) = PICTURE;
    let mut order: Vec<u32> = (0..trace.unique()).collect();
    order.sort_unstable_by_key(|&number| trace.pages()[number as usize]);
    let mut rank = vec![0u32; order.len()];
    order.iter().zip(0..).for_each(|(&number, place)| rank[number as usize] = place);
    let requests = trace.requests().len();
    let (columns, rows) = (columns.min(requests), rows.min(rank.len()));
    let mut seen = vec![[false; 2]; columns * rows];
    let points = (0..requests).filter(|&at| trace.scan(at).is_none()).count();
    let mut point = 0;
    for (at, &page) in trace.requests().iter().enumerate() {
        let scan = trace.scan(at).is_some();
        point += usize::from(!scan);
        if !scan && !point.is_multiple_of(points.div_ceil(POINTS)) {
            continue;
        }
        let (x, y) = (at * columns / requests, rank[page as usize] as usize * rows / rank.len());
        seen[y * columns + x][usize::from(scan)] = true;
    }
    // Dots carry the first request and page of their cell.
    let dots = |kind: usize| -> Vec<Value> {
        let cells = seen.iter().enumerate().filter(|(_, seen)| seen[kind]);
        cells.map(|(i, _)| json!([i % columns * requests / columns, i / columns * rank.len() / rows])).collect()
    };
    let series = |name: &str, kind: usize, color: &str| {
        json!({
            "name": name, "type": "scatter", "data": dots(kind), "symbol": "rect", "symbolSize": 2.6, "silent": true, "progressive": 0,
            "itemStyle": {"color": color, "opacity": 0.75},
        })
    };
    json!({
        "legend": {"top": 0},
        "grid": {"left": 64, "right": 18, "top": 34, "bottom": 48},
        "xAxis": {
            "type": "value", "name": "request", "nameLocation": "middle", "nameGap": 30, "max": requests,
            "axisLabel": {"formatter": "=count", "hideOverlap": true}, "splitLine": {"show": false},
        },
        "yAxis": {
            "type": "value", "name": "page", "max": rank.len(), "axisLabel": {"formatter": "=count", "showMaxLabel": false},
            "splitLine": {"show": false},
        },
        "series": [series("point reads", 0, "#c8403f"), series("scans", 1, "#2f6fb0")],
        "media": [{"query": {"maxWidth": NARROW}, "option": {"grid": {"left": 48, "right": 10}}}],
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::generate::generate;

    #[test]
    fn dots_tell_scans_from_points() {
        let workload = "ycsb(streams=2,operations=2000,pages=400,scans=10000)";
        let trace = Trace::load("t", &mut generate(workload, 1).unwrap()).unwrap();
        let option = accesses(&trace);
        let dots = |series: usize| option["series"][series]["data"].as_array().unwrap();
        assert!(!dots(0).is_empty() && !dots(1).is_empty());
        for dot in dots(0).iter().chain(dots(1)) {
            assert!(dot[0].as_u64().unwrap() < trace.requests().len() as u64);
            assert!(dot[1].as_u64().unwrap() < u64::from(trace.unique()));
        }
    }

    #[test]
    fn a_tiny_trace_has_a_picture() {
        let trace = Trace::load("t", &mut generate("loop(pages=1,rounds=1)", 1).unwrap()).unwrap();
        assert_eq!(accesses(&trace)["series"][1]["data"], json!([[0, 0]]));
    }
}
