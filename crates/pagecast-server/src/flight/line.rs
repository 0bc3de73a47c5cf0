//! A connection that carries requests, and who has it.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use pgwire::tokio::server::MaybeTls;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::transport::server::Connected;

use super::session::Session;
use crate::lobby::Guest;
use crate::problem::Problem;
use crate::room::Seat;
use crate::server::{STARTUP, Server};

/// A connection. It ends when its client does not say in time who it is, asks nothing for too long,
/// or does not read what it asked for.
pub(super) struct Line {
    io: MaybeTls,
    peer: Arc<Peer>,
    hung_up: oneshot::Receiver<()>,
    timer: Pin<Box<Sleep>>,
}

/// Who is at the other end.
pub(super) struct Peer {
    opened: Instant,
    pub(super) address: IpAddr,
    idle_timeout: Option<Duration>,
    state: Mutex<State>,
}

struct State {
    session: Option<Arc<Session>>,
    /// Until somebody is logged in, and then the place among those who are.
    guest: Option<Guest>,
    seat: Option<Seat>,
    /// Requests that are being answered.
    busy: usize,
    /// When the last of them ended.
    since: Instant,
    /// Until somebody hangs up.
    hang_up: Option<oneshot::Sender<()>>,
}

/// A request while it is answered.
pub(super) struct Busy(Arc<Peer>);

impl Line {
    pub(super) fn new(io: MaybeTls, guest: Guest, idle_timeout: Option<Duration>) -> Self {
        let (opened, address) = (Instant::now(), guest.address);
        let (hang_up, hung_up) = oneshot::channel();
        let (guest, hang_up) = (Some(guest), Some(hang_up));
        let state = Mutex::new(State { session: None, guest, seat: None, busy: 0, since: opened, hang_up });
        let peer = Arc::new(Peer { opened, address, idle_timeout, state });
        Self { io, peer, hung_up, timer: Box::pin(sleep_until(opened + STARTUP)) }
    }

    /// Ready when the client has been silent for too long, others come who may log in, or somebody
    /// has hung up.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(guest) = &mut self.peer.state.lock().guest
            && guest.poll_unpin(context).is_ready()
        {
            return Poll::Ready(());
        }
        if self.hung_up.poll_unpin(context).is_ready() {
            return Poll::Ready(());
        }
        let Some(due) = self.peer.due() else { return Poll::Pending };
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(context)
    }
}

impl Peer {
    /// When the connection ends if nothing happens.
    fn due(&self) -> Option<Instant> {
        let state = self.state.lock();
        match (&state.session, state.busy) {
            (None, _) => Some(self.opened + STARTUP),
            (Some(_), 0) => self.idle_timeout.map(|limit| state.since + limit),
            (Some(_), _) => None,
        }
    }

    /// The session of a user on this connection, which belongs to whoever comes first.
    pub(super) fn session(&self, server: &Arc<Server>, user: &str) -> Result<Arc<Session>, Problem> {
        let mut state = self.state.lock();
        if let Some(session) = &state.session {
            return match session.user == user {
                true => Ok(Arc::clone(session)),
                false => Err(Problem::error("28000", format!("this connection is of the user \"{}\"", session.user))),
            };
        }
        let session = Arc::new(Session::new(server, user)?);
        state.seat = Some(server.seat(user, &session.account, self.address)?);
        state.guest = None;
        state.session = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Says that a request is being answered.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.state.lock().busy += 1;
        Busy(Arc::clone(self))
    }
}

impl Busy {
    /// Ends the connection.
    pub(super) fn hang_up(&self) {
        if let Some(hang_up) = self.0.state.lock().hang_up.take() {
            let _ = hang_up.send(());
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.busy -= 1;
        state.since = Instant::now();
    }
}

impl Connected for Line {
    type ConnectInfo = Arc<Peer>;

    fn connect_info(&self) -> Self::ConnectInfo {
        Arc::clone(&self.peer)
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_read(context, bytes) {
            Poll::Pending => {
                ready!(self.poll_late(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            read => read,
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
