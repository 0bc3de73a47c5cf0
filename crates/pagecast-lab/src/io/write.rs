//! Checkpoints: how fast dirty pages come to a file, beside `dd` with direct requests of the same
//! size in the same round.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pagecast::storage::Device;
use pagecast::{DoubleWriteOptions, Pool, PoolOptions, WriteOptions, WriterOptions};

const PAGE: u32 = 16 << 10;
/// Dirty pages of a checkpoint.
const PAGES: u32 = 8 << 10;

/// Which pages are dirty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// All of the file: runs of neighbours.
    Whole,
    /// Every other page of a file twice as long: each a request of its own.
    Scattered,
}

/// Bytes that a checkpoint writes in place.
pub(crate) const BYTES: u64 = PAGES as u64 * PAGE as u64;

/// How long a checkpoint takes, the sync at its end included.
pub(crate) fn checkpoint(
    device: Device,
    folder: &Path,
    pattern: Pattern,
    double_write: bool,
) -> Result<Duration, String> {
    // Its own, since the threads of the pool before may still have theirs.
    let folder = tempfile::tempdir_in(folder).map_err(|e| e.to_string())?;
    let (file, area) = (folder.path().join("table"), folder.path().join("area"));
    let options = PoolOptions::default()
        .memory(2 * BYTES)
        .page_size(PAGE)
        .device(device)
        .double_write(double_write.then(|| DoubleWriteOptions::new(area)))
        .writer(WriterOptions::default().rate(0));
    let run = || -> Result<Duration, pagecast::PoolError> {
        let pool = Pool::new(options)?;
        let table = pool.open_to_write(&file, &WriteOptions::default().create(true))?;
        let step = if pattern == Pattern::Whole { 1 } else { 2 };
        table.grow((PAGES * step).saturating_sub(table.pages()))?;
        // Once to give the file its blocks, once to be measured.
        let mut taken = Duration::ZERO;
        for round in 0..2 {
            for block in (0..PAGES * step).step_by(step as usize) {
                table.pin_mut(block, None)?.fill((block as u8).wrapping_add(round));
            }
            let begin = Instant::now();
            pool.flush()?;
            taken = begin.elapsed();
        }
        pool.close()?;
        Ok(taken)
    };
    run().map_err(|e| e.to_string())
}

/// How long `dd` takes for as many bytes, in requests of 4 MiB into blocks that are there.
pub(crate) fn dd(folder: &Path) -> Result<Duration, String> {
    let target = folder.join("dd");
    let write = |flags: &str| {
        let begin = Instant::now();
        let status = Command::new("dd")
            .args(["if=/dev/zero", "bs=4M", "conv=notrunc,fdatasync", flags])
            .arg(format!("of={}", target.display()))
            .arg(format!("count={}", BYTES >> 22))
            .stderr(Stdio::null())
            .status();
        status.map_err(|e| format!("dd: {e}"))?.success().then(|| begin.elapsed()).ok_or("dd: it failed".to_owned())
    };
    write("oflag=direct")?;
    let taken = write("oflag=direct")?;
    std::fs::remove_file(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    Ok(taken)
}
