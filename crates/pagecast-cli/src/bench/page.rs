//! The bench's HTML page.

use pagecast_sim::report::{Page, Table};
use serde_json::{Value, json};

use super::axis::Axis;
use super::results::{Delivery, Results, Row, Run, ours};
use super::workload::Workload;
use crate::units::bytes_text;

/// Pixels of a bar with the space around it, and of the axis below.
const BAR: u32 = 34;
const AXIS: u32 = 96;

/// Ours stands out; what it is compared with is dark and light, the other policies are muted.
const OURS: &str = "#e0661a";
const STOCK: &str = "#1d2733";
const NO_POOL: &str = "#b4bcc6";
const OTHERS: [&str; 6] = ["#5b8db8", "#8f7fb8", "#5aa3a6", "#a58f55", "#7d93b8", "#b08aa8"];

/// The page of `results`.
pub(super) fn page(results: &Results) -> Page {
    let (config, rows) = (&results.config, results.rows());
    let bars = Bars { rows: &rows, repeated: config.repeat > 1 };
    let mut page = Page::new(results.headline().unwrap_or("What each row read".into()), lead(results));
    facts(&mut page, results);
    page.chart("Bytes read from storage", "Less is better.", bars.height(), bars.bytes());
    explain_rows(&mut page, &rows);
    page.explain(
        "Belady",
        "the least that any policy could have read for the same page requests, in a pool of the same size.",
    );
    let notes = results.back_in_order().into_iter().chain(results.bound());
    let limit: String = notes.map(|note| format!(" {note}")).collect();
    page.chart(
        "Wall time",
        format!("Until the last stream ended. Storage: {}.{limit}", config.storage.label),
        bars.height(),
        bars.time(),
    );
    let course = if config.repeat > 1 { " Of each row the median run is shown." } else { "" };
    page.chart(
        "Bytes read over time",
        format!("Where a line ends, its run was done.{course}"),
        460,
        bytes_lines(&rows),
    );
    let longest = Axis::of_seconds(rows.iter().map(|row| row.typical().wall_s).fold(0.0, f64::max));
    for run in rows.iter().map(Row::typical) {
        let meaning = match run.delivery {
            Delivery::None | Delivery::Stock => continue,
            Delivery::InOrder => {
                "Each line is a registered scan: where in its file it stood, and when. Lines that run close together \
                 can share pages."
            }
            Delivery::OutOfOrder => {
                "Each dot is a place where a scan was sent. Dots of several scans close together are reads that they \
                 shared."
            }
        };
        page.chart(format!("Scans in the table: {}", run.label()), meaning, 360, scan_lines(run, &longest));
    }
    sharing(&mut page, &rows, &longest);
    let (heads, cells) = results.cells();
    page.table("All figures", cells.into_iter().fold(Table::new(&heads, 2), Table::row));
    explain_figures(&mut page, config.repeat > 1);
    page
}

fn lead(results: &Results) -> String {
    let config = &results.config;
    let partial = if results.partial { " Ctrl-C ended the bench: this is what was done so far." } else { "" };
    format!(
        "{} concurrent streams of {} queries each over {} of Parquet, once per row: how much each read from storage, and \
         how long it took.{partial}",
        config.streams,
        config.queries_per_stream,
        bytes_text(config.data_bytes)
    )
}

fn facts(page: &mut Page, results: &Results) {
    let config = &results.config;
    page.fact("Storage", config.storage.label.clone());
    page.fact("Pool", format!("{} ({})", bytes_text(config.pool_bytes), config.pool));
    page.fact("Touched by the query list", bytes_text(config.touched_bytes));
    let templates =
        || format!("{}, {} of {}", config.templates.join(", "), percents(&config.selectivity), config.range);
    page.fact("Queries", if config.workload == Workload::Tpch { "TPC-H, throughput run".into() } else { templates() });
    page.fact("Seed", config.seed.to_string());
    if config.repeat > 1 {
        page.fact("Runs of each row", format!("{}, in turns; figures are medians", config.repeat));
    }
    page.fact("Page size", bytes_text(config.page_bytes.into()));
    page.fact("Machine", config.machine.to_string());
    page.fact("Data", config.data.display().to_string());
}

fn percents(shares: &[f64]) -> String {
    let shares: Vec<String> = shares.iter().map(|share| format!("{:.0}", share * 100.0)).collect();
    format!("{} %", shares.join(", "))
}

/// What the names of rows mean, where they first stand.
fn explain_rows(page: &mut Page, rows: &[Row<'_>]) {
    let words = [
        (Delivery::None, "no pool", "DataFusion as it is, which keeps no pages."),
        (Delivery::Stock, "stock", "DataFusion's own order of delivery, through a pool of the same size."),
        (
            Delivery::InOrder,
            "in-order",
            "row groups in the order of the file, from scans that tell the pool what they will read.",
        ),
        (
            Delivery::OutOfOrder,
            "out-of-order",
            "the same scans take row groups as the pool hands them out: what is in memory first, and what it brings for \
             several of them.",
        ),
    ];
    for (_, word, meaning) in words.iter().filter(|word| rows.iter().any(|row| row.typical().delivery == word.0)) {
        page.explain(*word, *meaning);
    }
}

fn explain_figures(page: &mut Page, repeated: bool) {
    page.explain(
        "hit rate",
        "the part of the page requests that found the page in the pool because it had been asked for before.",
    );
    page.explain("joined", "the part that found it on its way, and waited for what another had begun to read.");
    page.explain("requested, read", "bytes that queries asked for, and bytes that came from storage.");
    page.explain("/stock", "beside the same figure of the stock row: 0.60x is 40 % less.");
    page.explain("bypassed", "bytes read past the pool, because every page in it was in use at that moment.");
    if repeated {
        page.explain("least-most", "how far the runs of a row are apart, as parts of their median.");
    }
}

/// The color of each row.
fn colors(rows: &[Row<'_>]) -> Vec<&'static str> {
    let mut others = OTHERS.iter().cycle();
    let ours = ours(rows).map(Row::typical);
    let color = |row: &Row<'_>| match row.typical() {
        run if is(run, ours) => OURS,
        run if run.delivery == Delivery::Stock => STOCK,
        run if run.delivery == Delivery::None => NO_POOL,
        _ => others.next().unwrap_or(&OURS),
    };
    rows.iter().map(color).collect()
}

fn is(run: &Run, ours: Option<&Run>) -> bool {
    ours.is_some_and(|ours| std::ptr::eq(run, ours))
}

/// The charts that have a bar for each row.
struct Bars<'a> {
    rows: &'a [Row<'a>],
    repeated: bool,
}

impl Bars<'_> {
    fn height(&self) -> u32 {
        self.rows.len() as u32 * BAR + AXIS
    }

    fn bytes(&self) -> Value {
        let floor: Vec<Option<f64>> = self
            .rows
            .iter()
            .map(|row| {
                row.typical().belady_bytes_read.map(|_| row.median(|run| run.belady_bytes_read.unwrap_or(0) as f64))
            })
            .collect();
        let belady = json!({
            "name": "Belady", "type": "scatter", "symbol": "diamond", "symbolSize": 12, "data": floor, "z": 3,
            "itemStyle": {"color": "#fff", "borderColor": "#1d2733", "borderWidth": 2},
        });
        self.option("read", |run| run.bytes_read as f64, "=bytes", Axis::of_bytes, vec![belady])
    }

    fn time(&self) -> Value {
        self.option("wall", |run| run.wall_s, "=seconds", Axis::of_seconds, Vec::new())
    }

    /// Medians of `figure` as bars, and where rows were repeated each run as a dot.
    fn option(
        &self,
        name: &str,
        figure: impl Fn(&Run) -> f64 + Copy,
        format: &str,
        axis: impl Fn(f64) -> Axis,
        mut more: Vec<Value>,
    ) -> Value {
        let all = || self.rows.iter().enumerate().flat_map(|(row, runs)| runs.runs().iter().map(move |run| (row, run)));
        let axis = axis(all().map(|(_, run)| figure(run)).fold(0.0, f64::max));
        let bar = |(row, color): (&Row<'_>, &&str)| json!({"value": row.median(figure), "itemStyle": {"color": color}});
        let bars: Vec<Value> = self.rows.iter().zip(&colors(self.rows)).map(bar).collect();
        let mut series = vec![json!({
            "name": name, "type": "bar", "barWidth": 18, "data": bars, "itemStyle": {"color": "#8a9099"},
            "label": {"show": true, "position": "right", "distance": if self.repeated { 12 } else { 5 }, "formatter": format},
        })];
        if self.repeated {
            let dots: Vec<Value> = all().map(|(row, run)| json!([figure(run), row])).collect();
            series.push(json!({
                "name": "each run", "type": "scatter", "symbolSize": 6, "data": dots, "z": 2, "tooltip": {"show": false},
                "itemStyle": {"color": "#fff", "borderColor": "#5b6875", "borderWidth": 1},
            }));
        }
        series.append(&mut more);
        let legend = series.len() > 1;
        json!({
            "grid": {"left": 8, "right": 76, "top": 8, "bottom": if legend { 44 } else { 8 }},
            "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "valueFormatter": format, "confine": true},
            "legend": {"show": legend, "bottom": 0, "itemHeight": 10},
            "xAxis": axis.option(),
            // Categories run upwards on ECharts' vertical axis; the first row is to be on top.
            "yAxis": {
                "type": "category", "inverse": true, "axisTick": {"show": false},
                "data": self.rows.iter().map(|row| row.typical().label()).collect::<Vec<_>>(),
                "axisLabel": {"fontSize": 13, "color": "#1d2733"},
            },
            "series": series,
        })
    }
}

/// Bytes over time, a line a row; ours is thick, on top and first in the legend, which takes as
/// many lines as it needs.
fn bytes_lines(rows: &[Row<'_>]) -> Value {
    let runs: Vec<&Run> = rows.iter().map(Row::typical).collect();
    let row_of_ours = ours(rows).map(Row::typical);
    let line = |(run, color): (&&Run, &str)| {
        let ours = is(run, row_of_ours);
        json!({
            "name": run.label(), "type": "line", "showSymbol": false, "data": run.timeline.bytes_read(),
            "color": color, "lineStyle": {"width": if ours { 3.5 } else { 1.8 }}, "z": if ours { 4 } else { 2 },
        })
    };
    let series: Vec<Value> = runs.iter().zip(colors(rows)).map(line).collect();
    let mut names: Vec<String> = runs.iter().map(|run| run.label()).collect();
    names.sort_by_key(|name| row_of_ours.is_none_or(|ours| ours.label() != *name));
    let (wide, narrow) = (legend_height(&names, 1080), legend_height(&names, 330));
    let most = runs.iter().map(|run| run.bytes_read).max().unwrap_or(0) as f64;
    let end = runs.iter().map(|run| run.wall_s).fold(0.0, f64::max);
    json!({
        "grid": {"left": 8, "right": 20, "top": 14, "bottom": wide + 10},
        "tooltip": {"trigger": "axis", "valueFormatter": "=bytes", "confine": true, "order": "valueDesc"},
        "legend": {"type": "plain", "bottom": 0, "itemHeight": 8, "itemWidth": 18, "data": names},
        "xAxis": Axis::of_seconds(end).option(),
        "yAxis": Axis::of_bytes(most).option(),
        "series": series,
        "media": [{"query": {"maxWidth": 560}, "option": {"grid": {"bottom": narrow + 10}}}],
    })
}

/// Pixels of the lines that a legend of `names` takes where it is `width` wide.
fn legend_height(names: &[String], width: usize) -> u32 {
    let (mut lines, mut used) = (1, 0);
    for name in names {
        // The sign, the text and the gap to the next one.
        let item = 18 + 5 + 7 * name.chars().count() + 10;
        if used > 0 && used + item > width {
            (lines, used) = (lines + 1, 0);
        }
        used += item;
    }
    lines * 24
}

/// For the in-order and the out-of-order run that stand for ours, how much of what is still to be
/// read several scans need.
fn sharing(page: &mut Page, rows: &[Row<'_>], end: &Axis) {
    let of = |delivery| {
        let runs = rows.iter().map(Row::typical).filter(move |run| run.delivery == delivery);
        runs.clone().find(|run| run.policy == "pbm").or_else(|| runs.clone().next())
    };
    let runs: Vec<&Run> = [Delivery::InOrder, Delivery::OutOfOrder].into_iter().filter_map(of).collect();
    let bytes = |run: &&Run| {
        let lines = run.timeline.sharing();
        let all = |sample: usize| lines.iter().filter_map(|line| line.get(sample)).map(|point| point.1).sum::<f64>();
        (0..lines[0].len()).map(all).fold(0.0, f64::max)
    };
    let most = Axis::of_bytes(runs.iter().map(bytes).fold(0.0, f64::max));
    for run in runs {
        page.chart(
            format!("Sharing potential: {}", run.label()),
            "Bytes that exactly so many of the running scans still need. What several need has to be read once, if \
             they come to it while it is in memory.",
            360,
            sharing_areas(run, end, &most),
        );
    }
}

/// `end` and `most` are the same for all runs, so that their pictures can be compared.
fn sharing_areas(run: &Run, end: &Axis, most: &Axis) -> Value {
    const SHADES: [&str; 5] = ["#d7dde4", "#f3cfb0", "#eda766", "#e0661a", "#8a3a08"];
    const NAMES: [&str; 5] = ["1 scan", "2 scans", "3", "4", "5 or more"];
    let lines = run.timeline.sharing().iter().zip(SHADES).zip(NAMES);
    let series: Vec<Value> = lines
        .map(|((points, color), name)| {
            json!({
                "name": name, "type": "line", "stack": "needed", "showSymbol": false, "color": color, "data": points,
                "lineStyle": {"width": 0}, "areaStyle": {"opacity": 1},
            })
        })
        .collect();
    json!({
        "grid": {"left": 8, "right": 20, "top": 14, "bottom": 34},
        "tooltip": {"trigger": "axis", "valueFormatter": "=bytes", "confine": true},
        "legend": {"bottom": 0, "itemHeight": 8, "itemWidth": 18},
        "xAxis": end.option(),
        "yAxis": most.option(),
        "series": series,
    })
}

/// `end` is the same for all runs, so that their pictures can be compared.
fn scan_lines(run: &Run, end: &Axis) -> Value {
    // Of a scan that was seen once only, a line would show nothing; and a scan that jumps has no
    // way between two places.
    let jumps = run.delivery == Delivery::OutOfOrder;
    let line = |points: &[(f64, f64)]| {
        let mut points = points.to_vec();
        // Where a scan waits, it was sent once.
        points.dedup_by(|next, last| jumps && next.1 == last.1);
        json!({
            "type": "line", "showSymbol": jumps || points.len() == 1, "symbolSize": 4, "data": points,
            "symbol": if jumps { "circle" } else { "emptyCircle" }, "lineStyle": {"width": if jumps { 0.0 } else { 1.6 }},
        })
    };
    let series: Vec<Value> = run.timeline.scans().into_iter().map(line).collect();
    json!({
        "grid": {"left": 8, "right": 20, "top": 14, "bottom": 8},
        "tooltip": {"show": false},
        "legend": {"show": false},
        "color": OTHERS,
        "xAxis": end.option(),
        "yAxis": {"type": "value", "min": 0, "max": 1, "axisLabel": {"formatter": "=percent"}, "interval": 0.25},
        "series": series,
    })
}

#[cfg(test)]
mod tests {
    use super::legend_height;

    #[test]
    fn a_legend_takes_the_lines_that_it_needs() {
        let names = ["in-order pbm", "no pool", "stock clock", "in-order lru"].map(String::from);
        assert_eq!(legend_height(&names, 1080), 24);
        assert_eq!(legend_height(&names, 330), 48);
    }
}
