//! The HTML report of `pagecast closed-loop`.

use pagecast_sim::closed::{Figures, pictures};
use pagecast_sim::report::{Page, Table};

use super::Plan;
use super::rows::{Results, Row, cells, machine_text, seeds_text, types_cells, volume_text};

/// The page.
pub(super) fn render(plan: &Plan, results: &Results) -> String {
    let lead = "Streams of scans on a simulated device. What a stream asks for next depends on what has come, so that \
                deliveries can be compared that choose the order themselves.";
    let mut page = Page::new("Scans in a closed loop", lead);
    page.fact("Machine", machine_text(&plan.machine));
    page.fact("Seeds", seeds_text(plan));
    page.fact("pagecast", env!("CARGO_PKG_VERSION"));
    if results.partial {
        page.fact("Interrupted", "the results are partial".to_owned());
    }
    let mut workloads: Vec<&str> = results.rows.iter().map(|row| row.workload.as_str()).collect();
    workloads.dedup();
    for workload in workloads {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.workload == workload).collect();
        if plan.sizes.len() > 1 {
            add_sizes(&mut page, workload, &rows);
        }
        add_pictures(&mut page, workload, &rows);
    }
    let table =
        |(heads, cells): (Vec<&str>, Vec<Vec<String>>)| cells.into_iter().fold(Table::new(&heads, 3), Table::row);
    page.table("All figures", table(cells(results)));
    page.explain("read MB", "the mean over the seeds of what the device read, with the least and the most.");
    page.explain("stream s", "the mean time until a stream was done; total s, until all were.");
    page.explain("latency", "the mean over the types of queries of their latency over that of the query alone.");
    page.explain("cores", "the work of the processor over the total time.");
    if plan.workloads.len() == 1 && plan.sizes.len() == 1 {
        page.table("By type of query", table(types_cells(results)));
    }
    page.to_string()
}

/// One of a run's figures.
type Figure = fn(&Figures) -> f64;

/// Figures over the pool's size.
fn add_sizes(page: &mut Page, workload: &str, rows: &[&Row]) {
    let of = |figure: Figure| {
        let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for row in rows {
            let point = (row.pool_share(), row.spread(figure).mean);
            match lines.iter_mut().find(|line| line.0 == row.name()) {
                Some(line) => line.1.push(point),
                None => lines.push((row.name(), vec![point])),
            }
        }
        lines.iter_mut().for_each(|line| line.1.sort_by(|one, other| one.0.total_cmp(&other.0)));
        lines
    };
    let charts: [(&str, Figure, &str); 3] = [
        ("Bytes read", |run| run.bytes_read / 1e6, "MB"),
        ("Mean stream time", |run| run.stream_seconds, "seconds"),
        ("Mean normalized latency", |run| run.normalized, "times alone"),
    ];
    for (title, figure, unit) in charts {
        let option = pictures::over_sizes(&of(figure), unit);
        page.chart(format!("{title} of {workload}"), "By the size of the pool. Lower is better.", 360, option);
    }
}

/// What happened in the first seed at the first size.
fn add_pictures(page: &mut Page, workload: &str, rows: &[&Row]) {
    let end = |row: &&&Row| row.runs.first().map_or(0.0, |run| run.total_seconds);
    let end = rows.iter().filter(|row| row.pictures.is_some()).map(|row| end(&row)).fold(0.0, f64::max).ceil();
    for row in rows {
        let Some(shown) = &row.pictures else { continue };
        let of = format!("{} ({})", row.name(), volume_text(row));
        page.chart(
            format!("What scans share: {of}"),
            format!(
                "{workload}. How much of the tables exactly so many running scans still need. What several need can be read \
                 once for all of them."
            ),
            280,
            pictures::sharing(shown, end),
        );
        page.chart(
            format!("The scans' ways through the tables: {of}"),
            "A dot where a scan comes to a unit, a color for each stream. Scans in order draw lines; in any order they \
             meet where something is in the pool.",
            360,
            pictures::ways(shown, end),
        );
        if !shown.loads.is_empty() {
            page.chart(
                format!("Loads, and who used them: {of}"),
                "A line from each load of a unit to its last use before the next load. Orange uses cost no read.",
                360,
                pictures::loads(shown, end),
            );
        }
    }
}
