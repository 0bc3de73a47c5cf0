//! The machine that a bench ran on, and how much memory the process takes.

use std::fmt;
use std::fs;
use std::time::Duration;

use serde::Serialize;

use crate::units::bytes_text;

/// Whose figures these are.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) os: &'static str,
    pub(super) arch: &'static str,
    pub(super) cpus: usize,
    /// The processor's own name, where the system tells.
    pub(super) cpu: Option<String>,
    pub(super) memory_bytes: Option<u64>,
    /// Whether the command was built with optimizations; figures of a debug build mean little.
    pub(super) optimized: bool,
}

impl Machine {
    /// This one.
    pub(super) fn current() -> Self {
        let cpu = line_of("/proc/cpuinfo", "model name").map(|name| name.trim_start_matches(':').trim().to_owned());
        Self {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: processors(),
            cpu,
            memory_bytes: line_of("/proc/meminfo", "MemTotal:").and_then(|value| kibibytes(&value)),
            optimized: !cfg!(debug_assertions),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {} x {}", self.os, self.arch, self.cpus, self.cpu.as_deref().unwrap_or("CPU"))?;
        if let Some(memory) = self.memory_bytes {
            write!(f, ", {}", bytes_text(memory))?;
        }
        f.write_str(if self.optimized { "" } else { ", debug build" })
    }
}

/// Processors that this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Starts the peak of [`peak_rss`] anew, where the system can (Linux 4.0 on, with the right to).
pub(super) fn reset_peak_rss() {
    // Refused in some containers; the peak is then that of the process so far, which is an upper
    // bound still.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that the process held since the last reset.
pub(super) fn peak_rss() -> Option<u64> {
    line_of("/proc/self/status", "VmHWM:").and_then(|value| kibibytes(&value))
}

/// Processor time that the process has taken so far, all threads together.
pub(super) fn cpu_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the command, in parentheses, may hold blanks; `utime` and `stime` are the 12th
    // and 13th after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = fields.next()?.ok()? + fields.next()?.ok()?;
    // Linux tells processes of 100 ticks a second, whatever it counts itself.
    Some(Duration::from_millis(ticks * 10))
}

/// What follows `key` on its first line in `path`.
fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
}

fn kibibytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_time().expect("Linux tells it");
        let mut sum = 0u64;
        while cpu_time().expect("Linux tells it") < before + Duration::from_millis(50) {
            sum = std::hint::black_box((0..1_000_000u64).fold(sum, u64::wrapping_add));
        }
    }

    #[test]
    fn a_peak_is_seen() {
        reset_peak_rss();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let peak = peak_rss().unwrap_or(0);
        assert!(peak > block.len() as u64, "{peak}");
    }
}
