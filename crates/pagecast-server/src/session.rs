//! A connection of PostgreSQL's clients from its first byte: what it wants, who it is, and whether
//! it may stay.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage;
use pgwire::tokio::server::MaybeTls;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::Connection;
use super::problem::Problem;
use super::server::{Client, STARTUP, Server, WRONG_PASSWORD};
use super::startup::{Hello, Purpose, authenticate, negotiate, plain, welcome};
use super::stop::{Closing, of_both};
use super::wire::{self, Reader, Writer};

impl Server {
    /// Serves one connection to its end.
    pub(super) async fn serve(self: Arc<Self>, tcp: TcpStream) {
        let address = tcp.peer_addr().ok();
        let (mut stream, mut buffer) = (plain(tcp), BytesMut::new());
        let opened = timeout(STARTUP, negotiate(&mut stream, &mut buffer, self.tls.as_ref())).await;
        let problem = match opened {
            Ok(Ok(Some(Purpose::Session(hello)))) => match stream.take() {
                Some(stream) => return self.session(stream, buffer, hello, address).await,
                None => return,
            },
            Ok(Ok(Some(Purpose::Cancel { pid, key }))) => return self.cancel(pid, &key),
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(problem)) => problem,
        };
        if let Some(stream) = stream {
            let (mut read, write) = tokio::io::split(stream);
            say_last(&mut Writer::new(write), wire::drain(&mut read), &problem).await;
        }
    }

    /// Lets the client in, and answers it until it leaves.
    async fn session(self: Arc<Self>, stream: MaybeTls, buffer: BytesMut, hello: Hello, address: Option<SocketAddr>) {
        let (read, write) = tokio::io::split(stream);
        let mut reader = Reader::new(read, buffer, hello.version, self.limits.message);
        let mut writer = Writer::new(write);
        let user = match timeout(STARTUP, authenticate(&hello, self.users.as_ref(), &mut reader, &mut writer)).await {
            Ok(Ok(user)) => user,
            Ok(Err(problem)) => {
                if problem.code == "28P01" {
                    tokio::time::sleep(WRONG_PASSWORD).await;
                }
                return say_last(&mut writer, reader.drain(), &problem).await;
            }
            Err(_) => return,
        };
        match self.admit(&user, &hello, address) {
            Err(problem) => say_last(&mut writer, reader.drain(), &problem).await,
            Ok((registered, account, settings)) => {
                for message in welcome(registered.pid, registered.secret(hello.version), &settings) {
                    if writer.put(message).is_err() {
                        return;
                    }
                }
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
        }
    }
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

/// Turns a connection away, without waiting for what it wants.
pub(super) async fn turn_away(tcp: TcpStream, problem: Problem) {
    let (mut read, write) = tokio::io::split(tcp);
    say_last(&mut Writer::new(write), wire::drain(&mut read), &problem).await;
}
