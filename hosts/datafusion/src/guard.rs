//! Decoders that panic over a broken file: their query fails by the name of the file, and nothing
//! else does.
//!
//! Parquet's decoders check much of what a file says and trust the rest. What goes wrong then is a
//! panic inside a poll of the scan's stream, which ends the task that happens to poll it, be it a
//! whole shell.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;

use datafusion::common::Result;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

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

/// Which file each partition of a scan reads now.
#[derive(Debug, Default)]
pub(crate) struct Reading(Mutex<HashMap<usize, PathBuf>>);

impl Reading {
    pub(crate) fn begins(&self, partition: usize, path: &Path) {
        let mut reading = self.0.lock();
        if reading.get(&partition).is_none_or(|before| before != path) {
            reading.insert(partition, path.to_owned());
        }
    }

    /// The error of a decoder that panicked in this partition.
    pub(crate) fn panicked(&self, partition: usize, what: String) -> HostError {
        let path = self.0.lock().get(&partition).cloned().unwrap_or_default();
        HostError::Decoder { path, what }
    }
}

/// `stream` up to its first panic, which becomes the error that `named` makes of it.
pub(crate) fn guarded<T: Send + 'static>(
    stream: impl Stream<Item = Result<T>> + Send + 'static,
    named: impl Fn(String) -> HostError + Send + 'static,
) -> BoxStream<'static, Result<T>> {
    let mut decoding = Some(stream.boxed());
    stream::poll_fn(move |context| {
        let Some(stream) = &mut decoding else { return Poll::Ready(None) };
        catch(|| stream.poll_next_unpin(context)).unwrap_or_else(|panic| {
            let broken = decoding.take();
            // Its parts may be in no state to be dropped either. What they hold is lost then.
            _ = catch(|| drop(broken));
            Poll::Ready(Some(Err(named(panic).into())))
        })
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_stream_by_name() {
        let reading = Reading::default();
        reading.begins(3, Path::new("/data/one.parquet"));
        let items =
            stream::iter([1, 2, 3]).map(|item| if item == 2 { panic!("page {item} is too long") } else { Ok(item) });
        let items: Vec<_> = guarded(items, move |what| reading.panicked(3, what)).collect().await;
        assert_eq!(items.len(), 2);
        let error = items[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("/data/one.parquet") && error.contains("page 2 is too long"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
