//! Local files behind foyer's hybrid cache, as a store for DataFusion.

use std::fmt;
use std::ops::Range;
use std::path::Path as Folder;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, PsyncIoEngineConfig,
    RecoverMode,
};
use futures::future::try_join_all;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

/// Bytes of a block, which is read whole. A column of a row group of the reports' files has 20 to
/// 800 KiB: larger blocks read along what no report wants, smaller ones cost more requests.
const BLOCK: u64 = 256 << 10;
/// Disk for each byte of memory.
const DISK: usize = 4;
/// What foyer gives up at once on disk is no more than such a part: its 16 MiB are much of a small
/// disk.
const PARTS: usize = 16;

/// The files do not change while they are read, so blocks have no versions.
#[derive(Debug)]
pub struct Blocks {
    files: Arc<LocalFileSystem>,
    /// By file and number.
    cached: HybridCache<String, Bytes>,
}

impl Blocks {
    /// With `memory` bytes of blocks in memory, and as many times more in `folder`.
    pub async fn open(memory: usize, folder: &Folder) -> Result<Self> {
        let disk = memory * DISK;
        let device = FsDeviceBuilder::new(folder).with_capacity(disk).build()?;
        let cached = HybridCacheBuilder::new()
            .with_flush_on_close(false)
            .memory(memory)
            .with_weighter(|key: &String, block: &Bytes| key.len() + block.len())
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(BlockEngineConfig::new(device).with_block_size((disk / PARTS).min(16 << 20)))
            .with_recover_mode(RecoverMode::None)
            .build()
            .await?;
        Ok(Self { files: Arc::new(LocalFileSystem::new()), cached })
    }

    /// The bytes of `range`, which lies inside the file. Blocks that are not cached are read side
    /// by side, and once for all who want them.
    async fn read(&self, location: &Path, range: Range<u64>) -> object_store::Result<Bytes> {
        let numbers = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let blocks = try_join_all(numbers.clone().map(|number| self.block(location, number))).await?;
        let parts = numbers.zip(blocks).map(|(number, block)| {
            let first = number * BLOCK;
            let inside = range.start.max(first) - first..range.end.min(first + BLOCK) - first;
            block.slice(inside.start as usize..inside.end as usize)
        });
        let mut parts: Vec<Bytes> = parts.collect();
        // What lies in one block is not copied.
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { parts.concat().into() })
    }

    async fn block(&self, location: &Path, number: u64) -> object_store::Result<Bytes> {
        let (files, file) = (Arc::clone(&self.files), location.clone());
        let fetch = move || async move { files.get_range(&file, number * BLOCK..(number + 1) * BLOCK).await };
        let found = self.cached.get_or_fetch(&format!("{location}#{number}"), fetch).await;
        found
            .map(|entry| entry.value().clone())
            .map_err(|error| Error::Generic { store: "foyer", source: error.into() })
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "foyer over {}", self.files)
    }
}

fn read_only<T>(operation: &str) -> object_store::Result<T> {
    Err(Error::NotImplemented { operation: operation.to_owned(), implementer: "Blocks".to_owned() })
}

#[async_trait]
impl ObjectStore for Blocks {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let head = options.head;
        // The file alone knows its length, and whether the conditions hold. It is opened and not
        // read.
        let mut found = self.files.get_opts(location, GetOptions { head: true, ..options }).await?;
        if !head {
            let bytes = self.read(location, found.range.clone()).await;
            found.payload = GetResultPayload::Stream(stream::once(async move { bytes }).boxed());
        }
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        try_join_all(ranges.iter().map(|range| self.read(location, range.clone()))).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        read_only("put")
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        read_only("put in parts")
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        stream::once(async { read_only("delete") }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        read_only("copy")
    }
}

#[cfg(test)]
mod tests {
    use object_store::GetRange;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn blocks_give_what_the_file_has() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let bytes: Vec<u8> = (0..40 * BLOCK + 7).map(|place| (place % 251) as u8).collect();
        std::fs::write(folder.path().join("file"), &bytes)?;
        let location = Path::from_filesystem_path(folder.path().join("file"))?;
        // More than memory holds, and less than disk.
        let blocks = Blocks::open(4 << 20, &folder.path().join("cache")).await?;
        let len = bytes.len() as u64;
        for round in 0..3 {
            let ranges =
                [0..1, BLOCK - 1..BLOCK + 1, BLOCK..2 * BLOCK, 3 * BLOCK + 5..39 * BLOCK + 1, len - 9 - round..len];
            let found = blocks.get_ranges(&location, &ranges).await?;
            for (range, found) in ranges.iter().zip(found) {
                assert!(found == bytes[range.start as usize..range.end as usize], "{range:?}");
            }
        }
        let end = blocks.get_opts(&location, GetOptions::new().with_range(Some(GetRange::Suffix(9)))).await?;
        assert_eq!(end.bytes().await?, bytes[bytes.len() - 9..]);
        assert_eq!(blocks.get(&location).await?.bytes().await?, bytes);
        assert_eq!(blocks.head(&location).await?.size, len);
        Ok(())
    }
}
