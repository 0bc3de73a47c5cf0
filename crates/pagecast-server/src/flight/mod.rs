//! The same server for clients of Flight SQL: ADBC, JDBC, and whoever reads Arrow over gRPC.
//!
//! Users, limits, statements, admission and the end are those of the PostgreSQL side. gRPC and
//! Flight's messages are tonic's and arrow-flight's; which bytes reach them is decided in
//! [`line`](self::line) (who stays connected) and [`door`](self::door) (who may ask).

mod body;
mod door;
mod gate;
mod information;
mod line;
mod metadata;
mod parameters;
mod rows;
mod service;
mod session;
mod tokens;
mod words;

use std::io;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::StreamExt;
use pagecast_sim::report::text::one_line;
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::MaybeTls;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tonic::{Code, Status};

use super::lobby::Guest;
use super::problem::Problem;
use super::server::{STARTUP, Server};
use super::stop::{Closing, happens};
use door::Door;
use gate::Gate;
use line::Line;
use tokens::Tokens;

/// Where clients find it, unless somebody says otherwise.
pub const USUAL: &str = "127.0.0.1:31337";
/// Requests of one connection that are answered at once, each with a message of up to
/// `--max-message`.
const REQUESTS: u32 = 16;
/// Bytes of a request, and of all of a connection, that may come before somebody reads them.
const WINDOWS: (u32, u32) = (64 << 10, 256 << 10);
/// Most bytes of the words before a request.
const HEADER_BYTES: u32 = 16 << 10;

/// Serves connections of Flight SQL.
#[derive(Clone)]
pub struct Flight {
    server: Arc<Server>,
    tls: Option<TlsAcceptor>,
    lines: mpsc::Sender<Line>,
    ended: watch::Receiver<bool>,
}

impl Flight {
    /// Begins to serve; connections come by [`Listeners`](crate::Listeners).
    ///
    /// # Errors
    ///
    /// The system gives no randomness for tickets.
    pub fn start(server: &Arc<Server>, tls: Option<TlsAcceptor>) -> anyhow::Result<Self> {
        let (lines, mut opened) = mpsc::channel(1);
        let opened = futures::stream::poll_fn(move |context| opened.poll_recv(context)).map(Ok::<Line, io::Error>);
        let mut closing = server.closing.subscribe();
        let closes = async move { happens(&mut closing, |closing| *closing != Closing::No).await };
        let tokens = Arc::new(Tokens::default());
        let service = FlightServiceServer::new(Door::new(server, &tokens)?);
        let service = service.max_decoding_message_size(server.limits.message).max_encoding_message_size(usize::MAX);
        let serving = tonic::transport::Server::builder()
            .max_concurrent_streams(REQUESTS)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .http2_max_header_list_size(HEADER_BYTES)
            .add_service(Gate::new(service, server, &tokens))
            .serve_with_incoming_shutdown(opened, closes);
        let (ends, ended) = watch::channel(false);
        let say = server.notices.say;
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                say(&anyhow::Error::new(error).context("--flight"));
            }
            ends.send_replace(true);
        });
        Ok(Self { server: Arc::clone(server), tls, lines, ended })
    }

    /// Hands a connection on as soon as it is ready.
    pub(super) async fn open(&self, tcp: TcpStream, mut guest: Guest) {
        let io = match &self.tls {
            None => MaybeTls::Plain(tcp),
            Some(tls) => tokio::select! {
                biased;
                () = &mut guest => return,
                accepted = timeout(STARTUP, tls.accept(tcp)) => match accepted {
                    Ok(Ok(stream)) => MaybeTls::Tls(Box::new(stream)),
                    Ok(Err(_)) | Err(_) => return,
                },
            },
        };
        // Nobody takes it any more when the server ends.
        let _ = self.lines.send(Line::new(io, guest, self.server.limits.idle_timeout)).await;
    }

    /// Waits until the last connection has ended, once the server is closing.
    pub(super) async fn ended(&self) {
        happens(&mut self.ended.clone(), |ended| *ended).await;
    }
}

/// An error as gRPC has them, with PostgreSQL's class behind its words.
impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let code = match problem.code {
            "57014" if problem.message.contains("timeout") => Code::DeadlineExceeded,
            "57014" => Code::Cancelled,
            "25006" | "42501" => Code::PermissionDenied,
            "42P01" | "26000" => Code::NotFound,
            "0A000" => Code::Unimplemented,
            code => match &code[..2] {
                "28" => Code::Unauthenticated,
                "53" => Code::ResourceExhausted,
                "08" | "57" => Code::Unavailable,
                "22" | "42" => Code::InvalidArgument,
                _ => Code::Internal,
            },
        };
        Self::new(code, format!("{} ({})", one_line(&problem.message), problem.code))
    }
}
