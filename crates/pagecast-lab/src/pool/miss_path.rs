//! The miss path: how much of the device's bandwidth readers get who find nothing in the pool.
//!
//! Eight readers each pin the pages of their eighth of a file in order, through a pool far smaller
//! than the file; against them eight `dd` with O_DIRECT and the same request size on the same
//! parts, in turns. Neither reads through the system's page cache, if the pool could open the file
//! with O_DIRECT.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use pagecast::storage::DirectIo;
use pagecast::{Pool, PoolOptions};
use pagecast_core::policy::PolicySpec;

use crate::rounds::{Figure, pairs};

const READERS: u32 = 8;
const PAGE_SIZE: u32 = 256 << 10;
const PAGES_EACH: u32 = 256;

/// What a row says: MiB/s of ours and of `dd`, and the ratio of them.
pub(crate) struct Row {
    pub(crate) figure: Figure,
    /// Whether our reads went past the system's page cache.
    pub(crate) direct: bool,
}

/// Medians of `rounds`. `None` where there is no `dd`, or none that can read so.
pub(crate) fn measure(rounds: usize) -> Result<Option<Row>, String> {
    // Beside the build, not in a temporary folder: those are often in memory.
    let folder = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = folder.parent().ok_or("this program is in no folder")?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|e| e.to_string())?;
    let chunk: Vec<u8> = (0..PAGE_SIZE).map(|i| (i % 251) as u8).collect();
    for _ in 0..READERS * PAGES_EACH {
        file.write_all(&chunk).map_err(|e| format!("512 MiB beside this program: {e}"))?;
    }
    file.as_file().sync_all().map_err(|e| e.to_string())?;
    let path = file.path().to_owned();
    if dd(&path).is_none() {
        return Ok(None);
    }
    let options = PoolOptions::default()
        .memory(32 << 20)
        .page_size(PAGE_SIZE)
        .policy(PolicySpec::parse("clock").map_err(|e| e.to_string())?);
    let pool = Pool::new(options).map_err(|e| e.to_string())?;
    let direct = pool.open(&path).map_err(|e| e.to_string())?.storage().direct() == DirectIo::Direct;
    let figure = pairs(rounds, || ours(&pool, &path), || dd(&path).expect("it worked a moment ago"));
    Ok(Some(Row { figure, direct }))
}

const MIB_READ: f64 = ((READERS as u64 * PAGES_EACH as u64 * PAGE_SIZE as u64) >> 20) as f64;

fn ours(pool: &Pool, path: &std::path::Path) -> f64 {
    let relation = pool.open(path).expect("the file was open a moment ago");
    let before = pool.stats();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (pool, relation) = (pool, &relation);
            scope.spawn(move || {
                let mut session = pool.session();
                for block in reader * PAGES_EACH..(reader + 1) * PAGES_EACH {
                    let page = session.pin(relation, block, None).expect("more frames than readers");
                    assert_eq!(page[1], 1);
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let read = pool.stats().bytes_read - before.bytes_read;
    assert_eq!((read >> 20) as f64, MIB_READ, "every page was read from the device");
    MIB_READ / seconds
}

fn dd(path: &std::path::Path) -> Option<f64> {
    let start = Instant::now();
    let children: Vec<_> = (0..READERS)
        .map(|reader| {
            Command::new("dd")
                .arg(format!("if={}", path.display()))
                .args(["of=/dev/null", "iflag=direct", &format!("bs={PAGE_SIZE}"), &format!("count={PAGES_EACH}")])
                .arg(format!("skip={}", reader * PAGES_EACH))
                .stderr(Stdio::null())
                .spawn()
        })
        .collect();
    let mut all = true;
    for child in children {
        all &= child.and_then(|mut child| child.wait()).is_ok_and(|status| status.success());
    }
    all.then(|| MIB_READ / start.elapsed().as_secs_f64())
}
