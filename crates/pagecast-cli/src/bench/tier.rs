//! The tier on flash of a row: a file of its own, empty at first, in the folder of `--flash`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pagecast::FlashOptions;

use super::results::Filling;
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
