//! The tier on flash as flags ask for it, and as lines tell of it.

use std::path::PathBuf;
use std::str::FromStr;

use pagecast::{FlashOptions, Pool, PoolStats};

use crate::failure::usage;
use crate::units::{self, Size, bytes_text};

/// The flags of a tier.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct FlashArgs {
    /// Copies of pages of object stores on a local device, in a file of at most this size in this
    /// folder: /mnt/nvme:100GiB. It stays for the next run
    #[arg(long = "flash", value_name = "DIR:SIZE")]
    pub(crate) place: Option<Place>,
    /// With --flash: bytes per second that are written there at most, on average, once it is full
    /// [default: no bound]
    #[arg(long = "flash-writes", value_name = "RATE", value_parser = units::rate, requires = "place")]
    pub(crate) writes: Option<u64>,
}

/// A folder, and how much of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) size: Size,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (folder, size) = text.rsplit_once(':').unwrap_or_default();
        let size = size.parse().ok().filter(|size| !matches!(size, Size::Plain(_)));
        let size = size.filter(|_| !folder.is_empty());
        let place = size.map(|size| Self { folder: folder.into(), size });
        place.ok_or_else(|| format!("`{text}` is no folder and size; write /mnt/nvme:100GiB"))
    }
}

impl FlashArgs {
    /// What a pool is made with.
    pub(crate) fn options(&self) -> anyhow::Result<Option<FlashOptions>> {
        let Some(Place { folder, size }) = &self.place else { return Ok(None) };
        match size {
            Size::Bytes(bytes) => Ok(Some(FlashOptions::new(folder, *bytes).writes(self.writes))),
            size => Err(usage(format!("--flash: `{size}` is no amount of storage; write DIR:100GiB"))),
        }
    }
}

/// What a statement read from flash and wrote there, if a pool has some.
pub(crate) fn figures(pool: &Pool, before: &PoolStats, after: &PoolStats) -> String {
    if pool.flash().is_none() {
        return String::new();
    }
    let read = bytes_text(after.flash_bytes_read - before.flash_bytes_read);
    let written = bytes_text(after.flash_bytes_written - before.flash_bytes_written);
    format!(", {read} of it from flash, {written} written there")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_place_is_a_folder_and_a_size() {
        let place: Place = "/mnt/a:b:30%".parse().unwrap();
        assert_eq!((place.folder.to_str(), place.size), (Some("/mnt/a:b"), Size::Share(0.3)));
        for wrong in ["", "/mnt", "/mnt:", ":1GiB", "/mnt:12", "/mnt:much"] {
            let error = wrong.parse::<Place>().unwrap_err();
            assert!(error.contains("/mnt/nvme:100GiB"), "{wrong}: {error}");
        }
    }
}
