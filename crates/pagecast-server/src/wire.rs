//! Messages of one connection: read within limits, and written with backpressure.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pagecast_sql::query::quietly;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;

use super::frames::{self, HEADER_BYTES, MOST_STARTUP_BYTES};
use super::keeping::{Keeper, Kept};
use super::problem::Problem;

/// Messages that wait for the ones before them.
const AHEAD: usize = 64;
/// Output that waits before it is sent.
const OUTPUT_BYTES: usize = 64 << 10;
/// What a buffer grows by at least, and what is kept of one whose message was large.
const BUFFER_BYTES: usize = 8 << 10;
/// Messages that are larger count against the memory of their user.
const LARGE_BYTES: usize = 64 << 10;
/// What becomes of each word of a large text, about.
const OF_WORD: usize = 100;

/// A message, with its part of the bytes that may wait.
pub(super) struct Incoming {
    pub(super) message: PgWireFrontendMessage,
    _room: OwnedSemaphorePermit,
    _kept: Option<Kept>,
}

/// Cuts messages out of what comes.
pub(super) struct Reader<R> {
    io: R,
    buffer: BytesMut,
    context: DecodeContext,
    most_bytes: usize,
    /// Counts large messages, once it is known whose they are.
    keeper: Option<Arc<Keeper>>,
    kept: Option<Kept>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// For a client that is not known: its messages are short.
    pub(super) fn new(io: R, buffer: BytesMut, version: ProtocolVersion) -> Self {
        let context = frames::context(version);
        Self { io, buffer, context, most_bytes: MOST_STARTUP_BYTES, keeper: None, kept: None }
    }

    /// The client is known: its messages may be that large, and count as its user's.
    pub(super) fn known(&mut self, most_bytes: usize, keeper: &Arc<Keeper>) {
        (self.most_bytes, self.keeper) = (most_bytes, Some(Arc::clone(keeper)));
    }

    /// Reads nothing more into messages.
    pub(super) async fn drain(&mut self) {
        drain(&mut self.io).await;
    }

    /// The next message; `None` if the client has gone.
    pub(super) async fn next(&mut self) -> Result<Option<PgWireFrontendMessage>, Problem> {
        match self.header().await? {
            Some(bytes) => self.body(bytes).await,
            None => Ok(None),
        }
    }

    /// Waits until a message begins; how long it is, its type included.
    async fn header(&mut self) -> Result<Option<usize>, Problem> {
        if !self.fill(HEADER_BYTES).await? {
            return Ok(None);
        }
        let limit = if self.keeper.is_some() { "--max-message" } else { "before login" };
        let bytes = frames::message_bytes(&self.buffer, self.most_bytes, limit);
        bytes.map(Some).map_err(|what| Problem::fatal("08P01", what))
    }

    async fn body(&mut self, bytes: usize) -> Result<Option<PgWireFrontendMessage>, Problem> {
        if !self.fill(bytes).await? {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(bytes);
        if bytes > LARGE_BYTES {
            // Else the next message would be read into the memory of this one, and keep it.
            self.buffer = BytesMut::from(&self.buffer[..]);
            if let Some(kept) = &mut self.kept {
                let grown = kept.grow(OF_WORD * frames::words(&frame), "a message with so many words");
                grown.map_err(|problem| Problem { fatal: true, ..problem })?;
            }
        }
        let wrong = || Problem::fatal("08P01", "a message's contents do not fit its length");
        quietly(|| frames::decoded(&mut frame, &self.context)).map(Some).ok_or_else(wrong)
    }

    /// Reads until `bytes` are there; `false` if the client has gone before. The buffer grows with
    /// what has come, whatever was announced.
    async fn fill(&mut self, bytes: usize) -> Result<bool, Problem> {
        while self.buffer.len() < bytes {
            let here = self.buffer.len();
            let more = (bytes - here).min(here.max(BUFFER_BYTES));
            if here + more > LARGE_BYTES {
                self.count(here + more)?;
            }
            self.buffer.reserve(more);
            if !matches!(self.io.read_buf(&mut self.buffer).await, Ok(1..)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts a buffer of so many bytes, and what is made of it.
    fn count(&mut self, bytes: usize) -> Result<(), Problem> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let kept = self.kept.get_or_insert_with(|| keeper.nothing());
        let more = (2 * bytes).saturating_sub(kept.bytes());
        kept.grow(more, "a message").map_err(|problem| Problem { fatal: true, ..problem })
    }

    /// What `waits` gives; `None` if the client goes meanwhile. It is seen behind a few bytes that
    /// it has sent before.
    async fn unless_gone<T>(&mut self, waits: impl Future<Output = T>) -> Option<T> {
        let mut waits = pin!(waits);
        loop {
            let may_read = self.buffer.len() < LARGE_BYTES;
            // Only who has to wait needs room for more.
            let more = async {
                self.buffer.reserve(BUFFER_BYTES);
                self.io.read_buf(&mut self.buffer).await
            };
            tokio::select! {
                biased;
                done = &mut waits => return Some(done),
                read = more, if may_read => match read {
                    Ok(1..) => {}
                    _ => return None,
                },
            }
        }
    }

    /// Reads on while messages are worked on, so that it is seen when the client goes. What waits
    /// has at most as many bytes as one message may have.
    pub(super) async fn read_all(mut self, messages: mpsc::Sender<Received>, gone: watch::Sender<bool>) {
        let room = Arc::new(Semaphore::new(self.most_bytes + 1));
        let ended = loop {
            let bytes = match self.header().await {
                Ok(Some(bytes)) => bytes,
                ended => break ended.err(),
            };
            let room = Arc::clone(&room).acquire_many_owned(bytes as u32);
            let Some(Ok(_room)) = self.unless_gone(room).await else { break None };
            let body = self.body(bytes).await;
            let message = match body {
                Ok(Some(PgWireFrontendMessage::Terminate(_))) | Ok(None) => break None,
                Ok(Some(message)) => message,
                Err(problem) => break Some(problem),
            };
            let _kept = self.kept.take();
            let sent = self.unless_gone(messages.send(Ok(Incoming { message, _room, _kept }))).await;
            if !matches!(sent, Some(Ok(()))) {
                break None;
            }
        };
        if let Some(problem) = ended {
            let _ = messages.send(Err(problem)).await;
            drop(messages);
            (self.buffer, self.kept) = (BytesMut::new(), None);
            drain(&mut self.io).await;
        }
        gone.send_replace(true);
    }
}

/// Reads on until the client hangs up. A connection that is closed with bytes unread is torn down,
/// and the client may never see what it was told last.
pub(super) async fn drain<R: AsyncRead + Unpin>(io: &mut R) {
    let mut waste = BytesMut::with_capacity(4096);
    while matches!(io.read_buf(&mut waste).await, Ok(1..)) {
        waste.clear();
    }
}

/// What a client has sent, or what is wrong with it.
pub(super) type Received = Result<Incoming, Problem>;

/// A channel for [`Reader::read_all`].
pub(super) fn channel() -> (mpsc::Sender<Received>, mpsc::Receiver<Received>) {
    mpsc::channel(AHEAD)
}

/// The first bytes of a connection: a message without a type. `None` if the client has gone.
pub(super) async fn startup_frame<R: AsyncRead + Unpin>(
    io: &mut R,
    buffer: &mut BytesMut,
) -> Result<Option<BytesMut>, Problem> {
    let mut needed = 4;
    loop {
        while buffer.len() < needed {
            buffer.reserve(needed - buffer.len());
            if !matches!(io.read_buf(buffer).await, Ok(1..)) {
                return Ok(None);
            }
        }
        let wrong = || Problem::fatal("08P01", "this is no client of the PostgreSQL protocol");
        let bytes = frames::startup_bytes(buffer).ok_or_else(wrong)?;
        if buffer.len() >= bytes {
            return Ok(Some(buffer.split_to(bytes)));
        }
        needed = bytes;
    }
}

/// Writes messages.
pub(super) struct Writer<W> {
    io: W,
    pub(super) buffer: BytesMut,
    /// Longest that the client may take none of it.
    patience: Option<Duration>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(io: W) -> Self {
        Self { io, buffer: BytesMut::new(), patience: None }
    }

    /// From now on a client that reads nothing for so long counts as gone.
    pub(super) fn wait_at_most(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// Adds a message.
    pub(super) fn put(&mut self, message: PgWireBackendMessage) -> io::Result<()> {
        let before = self.buffer.len();
        message.encode(&mut self.buffer).map_err(|error| {
            self.buffer.truncate(before);
            io::Error::other(error)
        })
    }

    /// Sends what waits. Whoever is dropped in here loses nothing: what was sent is no longer in
    /// the buffer.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while !self.buffer.is_empty() {
            if within(self.patience, self.io.write_buf(&mut self.buffer)).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        within(self.patience, self.io.flush()).await
    }

    /// Whether so much waits that it should be sent.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() >= OUTPUT_BYTES
    }

    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.io.shutdown().await
    }
}

/// What `write` gives, if it does so in time.
async fn within<T>(patience: Option<Duration>, write: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match patience {
        Some(patience) => timeout(patience, write).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        None => write.await,
    }
}
