//! `pagecast top`: what the page shows, in a terminal.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use console::{Term, measure_text_width, truncate_str};
use serde_json::Value;

use crate::output::printable;
use crate::units::{bytes_text, seconds_text};

/// A server that says nothing for so long is not one.
const SILENCE: Duration = Duration::from_secs(10);
/// The narrowest and the widest screen that lines are made for.
const WIDTHS: (usize, usize) = (40, 160);
/// Lines of a screen that is no terminal.
const LINES: usize = 40;

/// Shows the pool of `pagecast bench --watch` or `serve --ui` at work, three times a second, until
/// Ctrl-C.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Where the page is
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:8432")]
    address: SocketAddr,
    /// Show so many samples and end [default: one into a pipe, else all]
    #[arg(short = 'n', long, value_name = "N")]
    samples: Option<u64>,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let address = args.address;
    let silent =
        || format!("{address} sends no samples; is it the address of `pagecast bench --watch` or `serve --ui`?");
    let events = connect(address).with_context(silent)?;
    let terminal = io::stdout().is_terminal();
    let most = args.samples.unwrap_or(if terminal { u64::MAX } else { 1 });
    let mut shown = 0;
    for line in events.lines() {
        let line = line.with_context(silent)?;
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let sample: Value = serde_json::from_str(data).with_context(silent)?;
        show(&sample, terminal)?;
        shown += 1;
        if shown == most {
            return Ok(());
        }
    }
    Err(anyhow!("{address} has ended"))
}

fn connect(address: SocketAddr) -> anyhow::Result<BufReader<TcpStream>> {
    let mut tcp = TcpStream::connect_timeout(&address, SILENCE)?;
    tcp.set_read_timeout(Some(SILENCE))?;
    write!(tcp, "GET /events HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n")?;
    let mut events = BufReader::new(tcp);
    let mut status = String::new();
    events.read_line(&mut status)?;
    if !status.starts_with("HTTP/1.1 200") {
        bail!("it answers {}", status.trim());
    }
    Ok(events)
}

fn show(sample: &Value, terminal: bool) -> anyhow::Result<()> {
    let term = Term::stdout();
    let (height, width) = if terminal { term.size() } else { (LINES as u16, 100) };
    let width = usize::from(width).clamp(WIDTHS.0, WIDTHS.1);
    let mut text = String::new();
    for line in lines(sample, width).into_iter().take(usize::from(height).saturating_sub(1)) {
        writeln!(text, "{}", truncate_str(&line, width, "…"))?;
    }
    if terminal {
        term.clear_screen()?;
    }
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// The screen.
fn lines(sample: &Value, width: usize) -> Vec<String> {
    let number = |name: &str| sample[name].as_f64().unwrap_or(0.0);
    let bytes = |name: &str| bytes_text(number(name) as u64);
    let hit_rate = if number("requests") > 0.0 { 100.0 * number("hits") / number("requests") } else { 0.0 };
    let mut lines = vec![
        format!(
            "pagecast, up {}, {} connections, pool {}, {}",
            seconds_text(number("seconds")),
            number("connections"),
            bytes("pool_bytes"),
            [text(&sample["doing"]), text(&sample["policy"])].join(" ").trim_start()
        ),
        format!(
            "requested {} ({}/s), read {} ({}/s), hit rate {hit_rate:.1} %, {} evictions",
            bytes("bytes_requested"),
            bytes("requested_rate"),
            bytes("bytes_read"),
            bytes("read_rate"),
            number("evictions"),
        ),
        against(sample),
        format!("chunks {}, of which others' loads brought {}", number("chunks"), number("chunks_shared")),
        frames(sample["frames"].as_str().unwrap_or_default()),
        String::new(),
        format!("{} scans", number("scan_count")),
    ];
    let (scans, queries) = (sample["scans"].as_array(), sample["queries"].as_array());
    lines.extend(scans.into_iter().flatten().take(20).map(|scan| bar(scan, width)));
    lines.extend([String::new(), format!("{} queries", queries.map_or(0, Vec::len))]);
    lines.extend(queries.into_iter().flatten().map(|query| {
        let seconds = seconds_text(query["seconds"].as_f64().unwrap_or(0.0));
        let sql = text(&query["sql"]).split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{seconds:>8} {:>10} rows  {}  {sql}", query["rows"].as_u64().unwrap_or(0), text(&query["user"]))
    }));
    lines
}

/// What a clock of the same size would have read for the same requests.
fn against(sample: &Value) -> String {
    let (Some(clock), Some(saved), Some(sampled)) =
        (sample["clock_bytes"].as_u64(), sample["clock_saved"].as_i64(), sample["clock_sampled"].as_f64())
    else {
        return "no clock beside it".to_owned();
    };
    let word = if saved < 0 { "more read than by" } else { "saved against" };
    let share = 100.0 * saved.unsigned_abs() as f64 / clock.max(1) as f64;
    let from = if sampled < 1.0 { format!(", from 1 page in {:.0}", 1.0 / sampled) } else { String::new() };
    let (saved, clock) = (bytes_text(saved.unsigned_abs()), bytes_text(clock));
    format!("{word} a clock {saved} ({share:.1} % of its {clock}{from})")
}

/// Which pages are in the pool, by when they are wanted.
fn frames(letters: &str) -> String {
    let share = |of: &dyn Fn(char) -> bool| {
        100.0 * letters.chars().filter(|&letter| of(letter.to_ascii_lowercase())).count() as f64
            / letters.len().max(1) as f64
    };
    format!(
        "frames: {:.0} % wanted within a second, {:.0} % later, {:.0} % by no scan, {:.0} % empty",
        share(&|letter| ('a'..='f').contains(&letter)),
        share(&|letter| ('g'..='j').contains(&letter)),
        share(&|letter| letter == 'z'),
        share(&|letter| letter == '.'),
    )
}

/// A scan as a bar on its axis.
fn bar(scan: &Value, width: usize) -> String {
    let number = |name: &str| scan[name].as_f64().unwrap_or(0.0);
    let share = if number("length") > 0.0 { (number("position") / number("length")).clamp(0.0, 1.0) } else { 0.0 };
    let cells = width.saturating_sub(62).max(10);
    let done = (share * cells as f64).round() as usize;
    let name = text(&scan["name"]);
    let name = truncate_str(&name, 24, "…");
    let pad = " ".repeat(24 - measure_text_width(&name));
    let unit = if scan["unordered"] == true { "chunks" } else { "rows" };
    let left = match scan["left"].as_f64() {
        Some(left) => seconds_text(left),
        None => "-".to_owned(),
    };
    let (full, empty) = ("█".repeat(done), "░".repeat(cells - done));
    format!("{name}{pad} {full}{empty} {:>3.0} % {:>9.0} {unit}/s, {left} left", share * 100.0, number("speed"))
}

/// A text of the sample with nothing in it that a terminal would obey.
fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_screen() {
        let sample = serde_json::json!({
            "seconds": 61.0, "connections": 3, "frames": "aAz.", "scan_count": 1, "requests": 4, "hits": 1,
            "clock_bytes": 4096, "clock_saved": 1024, "clock_sampled": 0.25,
            "scans": [{"name": "t/\u{1b}[2J.parquet", "position": 5, "length": 10, "speed": 2.0, "left": 2.5}],
            "queries": [{"user": "ada", "sql": "SELECT\n 1", "seconds": 1.0, "rows": 7}],
        });
        let lines = lines(&sample, 80).join("\n");
        for part in
            ["hit rate 25.0 %", "50 % wanted within a second", " 50 %", "SELECT 1", "7 rows", "a clock 1.0 KiB (25.0 %"]
        {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        assert!(!lines.contains('\u{1b}'));
    }
}
