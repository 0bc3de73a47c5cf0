//! What follows the headers of a request: its bytes count as memory of whoever asks, from the first
//! one until the request is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

use crate::keeping::{Keeper, Kept};

/// Bytes that need not be counted: most requests have fewer.
const FREE: usize = 64 << 10;

/// A body whose bytes are counted.
struct Counted {
    inner: Body,
    came: usize,
    kept: Arc<Mutex<Kept>>,
}

/// The same request with its body counted. What is counted is held by the request, too, as its
/// message outlives the body.
pub(super) fn counted(request: http::Request<Body>, keeper: &Arc<Keeper>) -> http::Request<Body> {
    let kept = Arc::new(Mutex::new(keeper.nothing()));
    let (mut parts, inner) = request.into_parts();
    parts.extensions.insert(Arc::clone(&kept));
    http::Request::from_parts(parts, Body::new(Counted { inner, came: 0, kept }))
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.came += data.len();
            let mut kept = self.kept.lock();
            // The bytes, and what is made of them.
            let more = (2 * self.came).saturating_sub(2 * FREE).saturating_sub(kept.bytes());
            if more > 0 {
                kept.grow(more, "a request").map_err(Status::from)?;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::keeping::Part;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use futures::executor::block_on;
    use futures::future::poll_fn;
    use http_body::Body as _;

    /// Frames of 64 KiB without an end.
    struct Endless;

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; FREE])))))
        }
    }

    #[test]
    fn bytes_count_until_the_request_is_answered() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(16 << 20));
        let keeper = Arc::new(Keeper::new(&Part::of_all(pool.as_ref()), &pool));
        let request = counted(http::Request::new(Body::new(Endless)), &keeper);
        let (parts, mut body) = request.into_parts();
        let (mut came, error) = block_on(async {
            let mut came = 0;
            loop {
                match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.unwrap() {
                    Ok(frame) => came += frame.data_ref().unwrap().len(),
                    Err(error) => break (came, error),
                }
            }
        });
        // A user may keep 4 MiB of these 16, and each byte counts twice.
        came -= FREE;
        assert!(((2 << 20) - FREE..=2 << 20).contains(&came), "{came}");
        assert!(error.message().starts_with("a request would keep "), "{error}");
        drop(body);
        assert_eq!(pool.reserved(), 2 * came);
        drop(parts);
        assert_eq!(pool.reserved(), 0);
    }
}
