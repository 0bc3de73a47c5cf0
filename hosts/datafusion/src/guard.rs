//! Decoders that fail or panic over a broken file: their query fails by the name of the file, and
//! nothing else does.
//!
//! Parquet's decoders check much of what a file says and trust the rest. What goes wrong then is a
//! panic inside a poll of the scan's stream, which ends the task that happens to poll it, be it a
//! whole shell. What they check fails with an error that names no file.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use parquet::errors::ParquetError;

use crate::HostError;

/// Runs `decode`; what it says if it panics.
pub(crate) fn catch<T>(decode: impl FnOnce() -> T) -> std::result::Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(decode)).map_err(|panic| message(panic.as_ref()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it does not say why".to_owned())
}

/// [`catch`] for every poll of a future.
pub(crate) async fn catch_in<F: Future>(decode: F) -> std::result::Result<F::Output, String> {
    let mut decode = pin!(decode);
    std::future::poll_fn(|context| match catch(|| decode.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Which files each partition of a scan reads now.
#[derive(Debug, Default)]
pub(crate) struct Reading(Mutex<HashMap<usize, Files>>);

/// The next file is opened while one is read.
#[derive(Clone, Debug, Default)]
struct Files {
    opened: PathBuf,
    read: PathBuf,
}

impl Reading {
    /// The partition opens the file.
    pub(crate) fn opens(&self, partition: usize, path: &Path) {
        become_path(&mut self.0.lock().entry(partition).or_default().opened, path);
    }

    /// The partition reads data of the file.
    pub(crate) fn reads(&self, partition: usize, path: &Path) {
        let mut reading = self.0.lock();
        let Files { opened, read } = reading.entry(partition).or_default();
        become_path(opened, path);
        become_path(read, path);
    }

    /// The error of a decoder that panicked in this partition.
    fn panicked(&self, partition: usize, what: String) -> HostError {
        let path = self.0.lock().get(&partition).cloned().unwrap_or_default().opened;
        HostError::Decoder { path, what }
    }

    /// The error of this partition, by the name of its file if a decoder did not name it.
    fn failed(&self, partition: usize, error: DataFusionError) -> DataFusionError {
        let path = self.0.lock().get(&partition).cloned().unwrap_or_default().read;
        let what = match &error {
            DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
                ArrowError::ParquetError(what) => what.clone(),
                _ => return error,
            },
            DataFusionError::ParquetError(inner) => match inner.as_ref() {
                // Not of a decoder: nobody could read, or has memory for it.
                ParquetError::External(_) => return error,
                inner => inner.to_string(),
            },
            _ => return error,
        };
        let is_named = path.file_name().is_none_or(|name| what.contains(&*name.to_string_lossy()));
        // Filters run in there, too.
        if is_named || what.contains("filter predicate") {
            return error;
        }
        HostError::Broken { path, what }.into()
    }
}

/// Most reads are of the file before, and copy nothing.
fn become_path(known: &mut PathBuf, path: &Path) {
    if known != path {
        path.clone_into(known);
    }
}

/// `stream` up to its first panic, which becomes an error that names what `partition` reads. So do
/// errors.
pub(crate) fn guarded<T: Send + 'static>(
    stream: impl Stream<Item = Result<T>> + Send + 'static,
    reading: Arc<Reading>,
    partition: usize,
) -> BoxStream<'static, Result<T>> {
    let mut decoding = Some(stream.boxed());
    stream::poll_fn(move |context| {
        let Some(stream) = &mut decoding else { return Poll::Ready(None) };
        let polled = catch(|| stream.poll_next_unpin(context)).unwrap_or_else(|panic| {
            let broken = decoding.take();
            // Its parts may be in no state to be dropped either. What they hold is lost then.
            _ = catch(|| drop(broken));
            Poll::Ready(Some(Err(reading.panicked(partition, panic).into())))
        });
        polled.map_err(|error| reading.failed(partition, error))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_stream_by_name() {
        let reading = Arc::<Reading>::default();
        reading.reads(3, Path::new("/data/one.parquet"));
        let items =
            stream::iter([1, 2, 3]).map(|item| if item == 2 { panic!("page {item} is too long") } else { Ok(item) });
        let items: Vec<_> = guarded(items, reading, 3).collect().await;
        assert_eq!(items.len(), 2);
        let error = items[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("/data/one.parquet") && error.contains("page 2 is too long"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[tokio::test]
    async fn an_error_of_a_decoder_names_the_file() {
        let reading = Arc::<Reading>::default();
        reading.reads(0, Path::new("/data/one.parquet"));
        reading.opens(0, Path::new("/data/two.parquet"));
        let broken = || DataFusionError::from(ArrowError::ParquetError("snappy: corrupt input".to_owned()));
        let others = ["cannot read one.parquet", "Error evaluating filter predicate"];
        let others = others.map(|text| DataFusionError::from(ArrowError::ParquetError(text.to_owned())));
        let unread = DataFusionError::from(ParquetError::External(Box::new(std::io::Error::other("no memory"))));
        let items = [broken()].into_iter().chain(others).chain([ArrowError::DivideByZero.into(), unread]);
        let items = stream::iter(items.map(Err::<(), _>).collect::<Vec<_>>());
        let errors: Vec<_> = guarded(items, reading, 0).collect().await;
        let named: Vec<bool> =
            errors.iter().map(|error| error.as_ref().unwrap_err().to_string().contains("/data/one.parquet")).collect();
        assert_eq!(named, [true, false, false, false, false]);
    }
}
