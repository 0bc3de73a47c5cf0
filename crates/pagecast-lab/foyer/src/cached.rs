//! A file that is far away, behind foyer's hybrid cache.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use foyer::{BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, PsyncIoEngineConfig};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

/// Bytes.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub memory: usize,
    pub flash: usize,
    pub page: u64,
}

pub struct Cached {
    pages: HybridCache<u64, Vec<u8>>,
    far: Arc<Far>,
    page: u64,
    flash: usize,
}

/// What foyer gives up at once on flash: by default 16 MiB, which is much of a small tier.
const BLOCKS: usize = 16;

impl Cached {
    /// `file`, of which each request takes milliseconds and all together bytes a second, with
    /// pages kept in `folder`.
    pub async fn open(file: &Path, sizes: Sizes, (latency_ms, bandwidth): (u64, u64), folder: &Path) -> Result<Self> {
        let device = FsDeviceBuilder::new(folder).with_capacity(sizes.flash).build()?;
        let block = (sizes.flash / BLOCKS).min(16 << 20) & !4095;
        let pages = HybridCacheBuilder::new()
            .with_flush_on_close(false)
            .memory(sizes.memory)
            .with_weighter(|_, page: &Vec<u8>| page.len())
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(BlockEngineConfig::new(device).with_block_size(block))
            .build()
            .await?;
        let file = File::open(file)?;
        let far = Far {
            len: file.metadata()?.len(),
            file,
            latency: Duration::from_millis(latency_ms),
            bandwidth,
            free: Mutex::new(Instant::now()),
            asked: AtomicU64::new(0),
            read: AtomicU64::new(0),
        };
        Ok(Self { pages, far: Arc::new(far), page: sizes.page, flash: block * (sizes.flash / block.max(1)) })
    }

    pub fn len(&self) -> u64 {
        self.far.len
    }

    /// The bytes of `range`, which lies inside the file. What the cache lacks is asked for side by
    /// side, and once for all who want it.
    pub async fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.far.asked.fetch_add(range.end - range.start, Relaxed);
        let numbers = range.start / self.page..range.end.div_ceil(self.page);
        let fetch = |number: u64| {
            let (far, page) = (Arc::clone(&self.far), self.page);
            self.pages.get_or_fetch(&number, move || async move { far.read(number * page, page).await })
        };
        let pages = try_join_all(numbers.clone().map(fetch)).await?;
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        for (number, page) in numbers.zip(&pages) {
            let first = number * self.page;
            let inside = range.start.max(first) - first..range.end.min(first + self.page) - first;
            bytes.extend_from_slice(&page.value()[inside.start as usize..inside.end as usize]);
        }
        Ok(bytes)
    }

    /// Waits for what is on its way to flash, and says what was counted.
    pub async fn close(&self) -> Result<Value> {
        let statistics = Arc::clone(self.pages.statistics());
        self.pages.close().await?;
        Ok(json!({
            "bytes_requested": self.far.asked.load(Relaxed), "bytes_read": self.far.read.load(Relaxed),
            "flash_bytes": self.flash, "flash_bytes_read": statistics.disk_read_bytes(),
            "flash_bytes_written": statistics.disk_write_bytes(),
        }))
    }
}

/// A file at the speed of a store.
struct Far {
    file: File,
    len: u64,
    latency: Duration,
    bandwidth: u64,
    /// When the bodies that are on their way have come.
    free: Mutex<Instant>,
    asked: AtomicU64,
    read: AtomicU64,
}

impl Far {
    async fn read(&self, offset: u64, len: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; len.min(self.len - offset) as usize];
        let asked = Instant::now() + self.latency;
        let takes = Duration::from_secs_f64(bytes.len() as f64 / self.bandwidth as f64);
        let come = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = asked.max(*free) + takes;
            *free
        };
        sleep_until(come).await;
        self.file.read_exact_at(&mut bytes, offset)?;
        self.read.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes)
    }
}
