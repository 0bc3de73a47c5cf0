//! What a victim costs with 10 samples, by the number of active scans on the relation: time, and instructions where
//! valgrind is installed.
//!
//! Instructions are those of a run with evictions less those of the same run without, both under callgrind, so that the
//! setting up drops out; unlike time they do not depend on who else uses the machine.

use std::process::Command;

use pagecast_bench::eviction::{Bench, running_scans};

const SCANS: [u32; 4] = [8, 16, 32, 64];
const EVICTIONS: u32 = 20_000;
/// Under callgrind everything takes some fifty times as long.
const COUNTED_EVICTIONS: u32 = 1_000;
/// The flag by which this program calls itself.
pub(crate) const COUNTED: &str = "--counted-evictions";

pub(crate) struct Cost {
    pub(crate) scans: u32,
    pub(crate) ns: f64,
    pub(crate) instructions: Option<u64>,
}

/// Evicts, for whoever counts.
pub(crate) fn work(scans: u32, evictions: u32) -> f64 {
    Bench::new("pbm(samples=10,frequency=auto)").evictions(evictions, &running_scans(scans))
}

pub(crate) fn measure() -> Result<Vec<Cost>, String> {
    println!("\n{:>5} {:>15} {:>25}", "scans", "ns per eviction", "instructions per eviction");
    let mut costs = Vec::new();
    for scans in SCANS {
        let ns = work(scans, EVICTIONS);
        let instructions = match (counted(scans, 0)?, counted(scans, COUNTED_EVICTIONS)?) {
            (Some(without), Some(with)) => Some(with.saturating_sub(without) / u64::from(COUNTED_EVICTIONS)),
            _ => None,
        };
        let shown = instructions.map_or("valgrind is not installed".into(), |count| count.to_string());
        println!("{scans:>5} {ns:>15.0} {shown:>25}");
        costs.push(Cost { scans, ns, instructions });
    }
    Ok(costs)
}

/// The instructions of a run of this program with so many evictions; `None` without valgrind.
fn counted(scans: u32, evictions: u32) -> Result<Option<u64>, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([COUNTED, &scans.to_string(), &evictions.to_string()])
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| format!("valgrind: {e}"))?,
    };
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    collected.map(Some).ok_or_else(|| format!("valgrind counted nothing: {}", text.trim()))
}
