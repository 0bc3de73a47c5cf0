//! Generated data: made once and kept in the user's cache folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use pagecast::files::Owned;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

/// Rows of a row group: 128 Ki, about 5 MiB of compressed lineitem.
const ROW_GROUP_ROWS: usize = 128 << 10;

/// The folder `name` of the cache, filled now by `fill` if it is not there. `fill` may be given a
/// folder that another process fills too.
pub(super) fn folder(name: &str, fill: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<PathBuf> {
    let cache = crate::cache::folder()?.join("data");
    let folder = cache.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let make = || -> anyhow::Result<()> {
        fs::create_dir_all(&cache)?;
        // Renamed only when complete, so that a run that is killed leaves nothing that looks like
        // data.
        let unfinished = Owned::folder(&cache, "unfinished-")?;
        let filled = unfinished.path().join(name);
        fs::create_dir(&filled)?;
        fill(&filled)?;
        match fs::rename(&filled, &folder) {
            // Another process was faster; its files are equal to ours.
            Err(_) if folder.is_dir() => Ok(()),
            renamed => Ok(renamed?),
        }
    };
    make().with_context(|| format!("cannot generate {}", folder.display()))?;
    Ok(folder)
}

/// How the files are written.
pub(super) fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Page)
        .build()
}

/// Shows how many of `rows` are done.
pub(super) fn bar(rows: u64) -> ProgressBar {
    ProgressBar::new(rows).with_style(
        ProgressStyle::with_template("{msg:<24} {bar:40} {percent:>3} %  {elapsed}").expect("the template is constant"),
    )
}
