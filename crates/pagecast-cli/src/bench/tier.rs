//! The tier on flash of a row: a file of its own, empty at first, in the folder of `--flash`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pagecast::{FlashAdmission, FlashOptions, Pool};
use serde::Serialize;

use crate::failure::usage;
use crate::flash::Place;
use crate::units::Size;

/// Where tiers are, and how large.
pub(super) struct Tier {
    folder: PathBuf,
    bytes: u64,
    writes: Option<u64>,
}

/// A folder that is removed with all that is in it.
pub(super) struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is told apart by its name, and hurts nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Tier {
    /// At `place`, whose size may be a share of `touched_bytes`.
    pub(super) fn of(place: &Place, writes: Option<u64>, touched_bytes: u64) -> Self {
        let bytes = match place.size {
            Size::Bytes(bytes) | Size::Plain(bytes) => bytes,
            Size::Share(share) => (touched_bytes as f64 * share) as u64,
        };
        Self { folder: place.folder.clone(), bytes, writes }
    }

    /// A folder, and what a pool is told of it; nothing for a row without a tier.
    pub(super) fn begin(
        tier: Option<&Self>,
        filling: Option<Filling>,
    ) -> anyhow::Result<Option<(Scratch, FlashOptions)>> {
        let Some((tier, admission)) = tier.zip(filling.and_then(Filling::admission)) else { return Ok(None) };
        let scratch = Scratch::within(&tier.folder)?;
        let options = FlashOptions::new(&scratch.0, tier.bytes).writes(tier.writes).admission(admission);
        Ok(Some((scratch, options)))
    }
}

impl Scratch {
    fn within(folder: &Path) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pagecast-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = folder.join(name);
        std::fs::create_dir(&path).map_err(|error| usage(format!("--flash: {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

/// What fills a tier on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Filling {
    /// No tier
    None,
    /// What is expected to be read before it leaves
    Predicted,
    /// What memory gives up for the second time
    SecondTouch,
}

impl Filling {
    /// As in the JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Predicted => "predicted",
            Self::SecondTouch => "second-touch",
        }
    }

    /// As the pool has it; nothing without a tier.
    pub(super) fn admission(self) -> Option<FlashAdmission> {
        match self {
            Self::None => None,
            Self::Predicted => Some(FlashAdmission::Predicted),
            Self::SecondTouch => Some(FlashAdmission::SecondTouch),
        }
    }
}

/// What a tier on flash did.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FlashRun {
    filling: Filling,
    /// Pages that it has room for, and those that it has at the end.
    slots: u32,
    pages: u32,
    /// Pages that came from it, and their bytes, for which the store was not asked.
    hits: u64,
    pub(super) bytes_read: u64,
    /// Pages that were written, and bytes, headers and index included.
    pages_written: u64,
    pub(super) bytes_written: u64,
    /// Pages that were not considered because too many were on their way.
    skipped: u64,
    broken: u64,
    /// Why it was turned off.
    pub(super) off: Option<String>,
}

impl FlashRun {
    pub(super) fn of(pool: &Pool, filling: Option<Filling>) -> Option<Self> {
        // What was admitted counts, be it written at the end or a moment later.
        pool.settle_flash();
        let (flash, filling, stats) = (pool.flash()?, filling?, pool.stats());
        Some(Self {
            filling,
            slots: flash.slots,
            pages: flash.pages,
            hits: stats.flash_hits,
            bytes_read: stats.flash_bytes_read,
            pages_written: stats.flash_pages_written,
            bytes_written: stats.flash_bytes_written,
            skipped: flash.skipped,
            broken: flash.broken,
            off: flash.off,
        })
    }

    /// What filled it.
    pub(super) fn filling(&self) -> &'static str {
        self.filling.name()
    }
}
