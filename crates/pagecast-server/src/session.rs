//! A connection of PostgreSQL's clients from its first byte: what it wants, who it is, and whether
//! it may stay.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage;
use pgwire::tokio::server::MaybeTls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::Connection;
use super::frames::{Hello, Purpose};
use super::lobby::Guest;
use super::problem::Problem;
use super::room::Seat;
use super::server::{Account, Client, STARTUP, Server};
use super::startup::{accept, authenticate, negotiate, plain, welcome};
use super::stop::{Closing, of_both};
use super::wire::{self, Reader, Writer};

/// A client that has said who it is, and where it sits.
struct Known {
    user: String,
    account: Arc<Account>,
    seat: Seat,
}

impl Server {
    /// Serves one connection to its end.
    pub(super) async fn serve(self: Arc<Self>, tcp: TcpStream, mut guest: Guest) {
        let address = tcp.peer_addr().ok();
        let (mut stream, mut buffer) = (plain(tcp), BytesMut::new());
        let negotiated = timeout(STARTUP, negotiate(&mut stream, &mut buffer, self.tls.as_ref()));
        let opened = tokio::select! {
            biased;
            () = &mut guest => Ok(Err(shown_out())),
            opened = negotiated => opened,
        };
        let problem = match opened {
            Ok(Ok(Some(Purpose::Session(hello)))) => match stream.take() {
                Some(stream) => return self.session(stream, buffer, hello, guest, address).await,
                None => return,
            },
            Ok(Ok(Some(Purpose::Cancel { pid, key }))) => return self.cancel(pid, &key),
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(problem)) => problem,
        };
        drop(guest);
        if let Some(stream) = stream {
            let (mut read, write) = tokio::io::split(stream);
            say_last(&mut Writer::new(write), wire::drain(&mut read), &problem).await;
        }
    }

    /// Lets the client in, and answers it until it leaves.
    async fn session(
        self: Arc<Self>,
        stream: MaybeTls,
        buffer: BytesMut,
        hello: Hello,
        mut guest: Guest,
        socket: Option<SocketAddr>,
    ) {
        let (read, write) = tokio::io::split(stream);
        let (mut reader, mut writer) = (Reader::new(read, buffer, hello.version), Writer::new(write));
        let address = guest.address;
        let known = tokio::select! {
            biased;
            () = &mut guest => Ok(Err(shown_out())),
            known = timeout(STARTUP, self.let_in(&hello, address, &mut reader, &mut writer)) => known,
        };
        let Known { user, account, seat: _seat } = match known {
            Ok(Ok(known)) => known,
            Ok(Err(problem)) => {
                drop(guest);
                return say_last(&mut writer, reader.drain(), &problem).await;
            }
            Err(_) => return,
        };
        drop(guest);
        let (registered, account, settings) = match self.admit(&user, &account, &hello, socket) {
            Ok(admitted) => admitted,
            Err(problem) => return say_last(&mut writer, reader.drain(), &problem).await,
        };
        for message in welcome(registered.pid, registered.secret(hello.version), &settings.lock()) {
            if writer.put(message).is_err() {
                return;
            }
        }
        reader.known(self.limits.message, &account.keeper);
        writer.wait_at_most(self.limits.write_timeout);
        let (sender, messages) = wire::channel();
        let (gone, is_gone) = watch::channel(false);
        // Ends with the connection, and so does what it reads for.
        let mut reading = JoinSet::new();
        reading.spawn(reader.read_all(sender, gone));
        let (both, closing) = watch::channel(Closing::No);
        reading.spawn(of_both(self.closing.subscribe(), registered.entry.ended.subscribe(), both));
        let client = Client { server: Arc::clone(&self), account, entry: Arc::clone(&registered.entry) };
        Connection::new(client, settings, writer, messages, is_gone, closing).run().await;
    }

    /// Finds out who it is, and a place for it.
    async fn let_in<R, W>(
        &self,
        hello: &Hello,
        address: IpAddr,
        reader: &mut Reader<R>,
        writer: &mut Writer<W>,
    ) -> Result<Known, Problem>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let user = hello.user()?.to_owned();
        if self.users.is_some() {
            self.guesses.turn(&user, address).await?;
        }
        if let Err(problem) = authenticate(hello, self.users.as_ref(), reader, writer).await {
            if problem.code == "28P01" {
                self.guesses.wrong(&user, address, &self.notices).await;
            }
            return Err(problem);
        }
        if self.users.is_some() {
            self.guesses.right(&user, address);
        }
        let account = self.shared(&user)?;
        let seat = self.seat(&user, &account, address)?;
        accept(writer).await?;
        Ok(Known { user, account, seat })
    }
}

/// What a client hears that says nothing while others come.
fn shown_out() -> Problem {
    Problem::fatal("53300", "too many clients have not logged in: others come, and the oldest goes")
}

/// Tells a client why it is not served, and waits a moment for it to hang up, which is what `rest`
/// ends with.
async fn say_last<W: AsyncWrite + Unpin>(writer: &mut Writer<W>, rest: impl Future<Output = ()>, problem: &Problem) {
    let said = async {
        writer.put(PgWireBackendMessage::ErrorResponse(problem.response()))?;
        writer.shutdown().await?;
        rest.await;
        std::io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(1), said).await;
}
