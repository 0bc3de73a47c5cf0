//! Connections are taken until the server is to end, and those that are there may end first.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

#[cfg(feature = "flight")]
use super::flight::Flight;
use super::notices::About;
use super::server::Server;
use super::stop::Closing;

/// How long the network may not hear of a client before it counts as gone.
const UNHEARD: Duration = Duration::from_secs(120);

/// How long clients may take to read the last words of a server that ends.
const UNREAD: Duration = Duration::from_millis(300);

/// Bytes that wait in the network for a client to read, beside those that are on their way: whoever
/// does not read is noticed early.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 128 << 10;

/// Where clients connect.
pub struct Listeners {
    /// Those of PostgreSQL.
    pub postgresql: TcpListener,
    /// Those of Flight SQL, if they may.
    #[cfg(feature = "flight")]
    pub flight: Option<(TcpListener, Flight)>,
}

/// What a client speaks.
enum Protocol {
    PostgreSql,
    #[cfg(feature = "flight")]
    Flight(Flight),
}

impl Listeners {
    async fn accept(&self) -> io::Result<(TcpStream, IpAddr, Protocol)> {
        #[cfg(feature = "flight")]
        if let Some((listener, flight)) = &self.flight {
            return tokio::select! {
                accepted = self.postgresql.accept() => accepted.map(|(tcp, at)| (tcp, at.ip(), Protocol::PostgreSql)),
                accepted = listener.accept() => {
                    accepted.map(|(tcp, at)| (tcp, at.ip(), Protocol::Flight(flight.clone())))
                }
            };
        }
        self.postgresql.accept().await.map(|(tcp, at)| (tcp, at.ip(), Protocol::PostgreSql))
    }

    /// Serves until Ctrl-C or SIGTERM, and then until what runs has ended, for `grace` at most.
    ///
    /// # Errors
    ///
    /// The system gives no signals.
    pub async fn serve(self, server: &Arc<Server>, grace: Duration) -> anyhow::Result<()> {
        let mut signals = Signals::new()?;
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = signals.next() => break,
                // Each that ends is forgotten here.
                Some(_) = connections.join_next() => {}
                accepted = self.accept() => match accepted {
                    Ok((tcp, address, protocol)) => take(server, tcp, address, protocol, &mut connections).await,
                    Err(error) => {
                        // Of the machine, mostly: too many files are open. It passes.
                        (server.notices.say)(&anyhow!("no connection can be taken: {error}"));
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        server.closing.send_replace(Closing::Soon);
        tokio::select! {
            _ = timeout(grace, self.ended(&mut connections)) => {}
            () = signals.next() => {}
        }
        server.closing.send_replace(Closing::Now);
        // What is left waits for its client to read.
        let _ = timeout(UNREAD, self.ended(&mut connections)).await;
        Ok(())
    }

    /// Waits until no connection is left.
    async fn ended(&self, connections: &mut JoinSet<()>) {
        while connections.join_next().await.is_some() {}
        #[cfg(feature = "flight")]
        if let Some((_, flight)) = &self.flight {
            flight.ended().await;
        }
    }
}

async fn take(
    server: &Arc<Server>,
    tcp: TcpStream,
    address: IpAddr,
    protocol: Protocol,
    connections: &mut JoinSet<()>,
) {
    if let Err(error) = prepare(&tcp) {
        (server.notices.say)(&anyhow!("a connection cannot be set up: {error}"));
        return;
    }
    let (guest, gone) = server.lobby.enter(address).await;
    if let Some(gone) = gone {
        server.notices.of(About::Refused, || {
            format!("too many clients have not logged in: the oldest connection from {gone} is closed for another")
        });
    }
    match protocol {
        Protocol::PostgreSql => connections.spawn(Arc::clone(server).serve(tcp, guest)),
        #[cfg(feature = "flight")]
        Protocol::Flight(flight) => connections.spawn(async move { flight.open(tcp, guest).await }),
    };
}

/// A client that vanished without a word is noticed by the network.
fn prepare(tcp: &TcpStream) -> std::io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(tcp);
    let alive = TcpKeepalive::new().with_time(UNHEARD / 2).with_interval(UNHEARD / 8).with_retries(4);
    socket.set_tcp_keepalive(&alive)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(UNHEARD))?;
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    }
    Ok(())
}

/// Ctrl-C and SIGTERM.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let open = |kind| signal(kind).context("no signals");
        Ok(Self { terminate: open(SignalKind::terminate())?, interrupt: open(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
