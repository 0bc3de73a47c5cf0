//! One temporary file: rows that memory does not hold, written once and read in order.
//!
//! What was written a moment ago is mostly still in the system's cache. Whoever asks for it takes
//! it from there, and only what is not there is waited for in another thread. DataFusion's own
//! files change threads for each chunk, and write each part of a batch with a call of its own: this
//! goes when they read in place. No upstream issue is known.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter};
use futures::{Stream, stream};
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;

/// Bytes that are read at once: a sort merges many files.
const CHUNK: u64 = 128 << 10;
/// Bytes that wait to be written: a join has many files open.
const WAITING: usize = 32 << 10;

/// What is said where files would take more than they may, in the words of DataFusion's own files:
/// `SET datafusion.runtime` puts these in the place of ours.
pub(crate) const OVER_THE_LIMIT: &str = "exceeded the allowable limit";

/// Bytes that the files of a session take, and may take.
#[derive(Debug)]
pub(crate) struct Quota {
    most: u64,
    taken: AtomicU64,
}

impl Quota {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, taken: AtomicU64::new(0) }
    }

    /// Relaxed: the sum is all that counts, and nobody concludes from it what others have written.
    fn take(&self, bytes: u64) -> io::Result<()> {
        if self.taken.fetch_add(bytes, Relaxed) + bytes <= self.most {
            return Ok(());
        }
        self.give_back(bytes);
        Err(io::Error::new(ErrorKind::QuotaExceeded, OVER_THE_LIMIT))
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Relaxed);
    }
}

/// A file that goes when nobody has it any more.
pub(crate) struct TemporaryFile(Arc<Content>);

struct Content {
    file: NamedTempFile,
    /// So many have been written.
    bytes: AtomicU64,
    quota: Arc<Quota>,
}

impl TemporaryFile {
    pub(crate) fn new(file: NamedTempFile, quota: Arc<Quota>) -> Self {
        Self(Arc::new(Content { file, bytes: AtomicU64::new(0), quota }))
    }
}

impl SpillFile for TemporaryFile {
    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let chunks = stream::try_unfold((Arc::clone(&self.0), 0), async |(content, at)| {
            let chunk = content.chunk(at).await.map_err(DataFusionError::IoError)?;
            let next = at + chunk.len() as u64;
            Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), (content, next))))
        });
        Ok(Box::pin(chunks))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(BufWriter::with_capacity(WAITING, Append(Arc::clone(&self.0))))))
    }
}

impl Content {
    /// What is at this place; nothing at the end.
    async fn chunk(self: &Arc<Self>, at: u64) -> io::Result<Vec<u8>> {
        let left = self.bytes.load(Relaxed).saturating_sub(at);
        if left == 0 {
            return Ok(Vec::new());
        }
        let mut chunk = vec![0; left.min(CHUNK) as usize];
        if let Some(read) = cached(self.file.as_file(), &mut chunk, at) {
            chunk.truncate(read);
            return Ok(chunk);
        }
        let content = Arc::clone(self);
        let read = move || {
            let read = content.file.as_file().read_at(&mut chunk, at)?;
            if read == 0 {
                let what = format!("{} was cut at byte {at} while it was used", content.file.path().display());
                return Err(io::Error::new(ErrorKind::UnexpectedEof, what));
            }
            chunk.truncate(read);
            Ok(chunk)
        };
        spawn_blocking(read).await?
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.quota.give_back(self.bytes.load(Relaxed));
    }
}

/// Reads what the system can give at once, and says how many bytes that was.
#[cfg(target_os = "linux")]
fn cached(file: &File, into: &mut [u8], at: u64) -> Option<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};

    let read = preadv2(file, &mut [io::IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT);
    read.ok().filter(|read| *read > 0)
}

#[cfg(not(target_os = "linux"))]
fn cached(_: &File, _: &mut [u8], _: u64) -> Option<usize> {
    None
}

/// Writes to the end of a file.
struct Append(Arc<Content>);

impl Write for Append {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let content = &self.0;
        content.quota.take(bytes.len() as u64)?;
        let written = content.file.as_file().write(bytes);
        let count = *written.as_ref().unwrap_or(&0);
        content.quota.give_back((bytes.len() - count) as u64);
        content.bytes.fetch_add(count as u64, Relaxed);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Writer(BufWriter<Append>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        self.flush().map_err(DataFusionError::IoError)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::TryStreamExt;
    use rustix::fs::{Advice, fadvise};

    use super::*;

    fn file(most: u64) -> (TemporaryFile, Arc<Quota>) {
        let quota = Arc::new(Quota::new(most));
        (TemporaryFile::new(NamedTempFile::new().unwrap(), Arc::clone(&quota)), quota)
    }

    async fn content(file: &TemporaryFile) -> Vec<u8> {
        let chunks: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
        assert!(chunks.iter().all(|chunk| chunk.len() as u64 <= CHUNK));
        chunks.concat()
    }

    #[tokio::test]
    async fn what_was_written_is_read_in_the_cache_or_not() {
        let (file, _) = file(u64::MAX);
        let bytes: Vec<u8> = (0..3 * CHUNK + 7).map(|at| (at % 251) as u8).collect();
        let mut writer = file.open_writer().unwrap();
        assert!(content(&file).await.is_empty());
        for part in bytes.chunks(10_007) {
            writer.write_all(part).unwrap();
        }
        writer.flush().unwrap();
        assert_eq!(content(&file).await, bytes);
        writer.write_all(b"more").unwrap();
        writer.finish().unwrap();
        file.0.file.as_file().sync_all().unwrap();
        fadvise(file.0.file.as_file(), 0, None, Advice::DontNeed).unwrap();
        assert_eq!(content(&file).await, [bytes.as_slice(), b"more"].concat());
        assert_eq!(file.size(), Some(bytes.len() as u64 + 4));
    }

    #[tokio::test]
    async fn a_file_that_was_cut_is_no_shorter_one() {
        let (file, _) = file(u64::MAX);
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&[1; 1000]).unwrap();
        writer.finish().unwrap();
        file.0.file.as_file().set_len(600).unwrap();
        let read: Result<Vec<Bytes>> = file.read_stream().unwrap().try_collect().await;
        let said = read.unwrap_err().to_string();
        assert!(
            said.contains("was cut at byte 600") && said.contains(&*file.0.file.path().to_string_lossy()),
            "{said}"
        );
    }

    #[test]
    fn files_take_what_they_may_and_give_it_back() {
        let (file, quota) = file(100_000);
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&[1; 90_000]).unwrap();
        let refused = writer.write_all(&[1; 40_000]).unwrap_err();
        assert!(refused.kind() == ErrorKind::QuotaExceeded && refused.raw_os_error().is_none());
        assert_eq!(file.size(), Some(90_000));
        drop((file, writer));
        assert_eq!(quota.taken.load(Relaxed), 0);
    }
}
