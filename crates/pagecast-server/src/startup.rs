//! The first words of a connection: TLS, who it is, and whether it only cancels another.

use std::io;

use bytes::{Bytes, BytesMut};
use pagecast_sql::query::quietly;
use pgwire::api::auth::sasl::scram::ScramServerAuth;
use pgwire::messages::startup::{
    Authentication, BackendKeyData, GssEncRequest, NegotiateProtocolVersion, ParameterStatus, SecretKey, SslRequest,
};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::server::MaybeTls;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::frames::{Hello, Purpose, purpose};
use super::problem::Problem;
use super::settings::Settings;
use super::users::Users;
use super::wire::{Reader, Writer, startup_frame};

const SCRAM: &str = "SCRAM-SHA-256";
/// The first byte of a TLS client that asks for TLS without asking PostgreSQL's way.
const TLS_HANDSHAKE: u8 = 0x16;
/// What such a client must say that it wants to speak.
pub(super) const ALPN: &[u8] = b"postgresql";

impl Hello {
    pub(super) fn user(&self) -> Result<&str, Problem> {
        let name = self.parameters.get("user").filter(|name| !name.is_empty());
        Ok(name.ok_or_else(|| Problem::fatal("28000", "the client names no user"))?)
    }
}

/// Reads up to the client's own message, over TLS if it wants that. `stream` is there in the end
/// but after an error of TLS; `None` if the client has gone.
pub(super) async fn negotiate(
    stream: &mut Option<MaybeTls>,
    buffer: &mut BytesMut,
    tls: Option<&TlsAcceptor>,
) -> Result<Option<Purpose>, Problem> {
    if let Some(tls) = tls
        && asks_tls_at_once(stream.as_ref()).await
    {
        secure(stream, tls).await?;
        if !speaks_postgresql(stream.as_ref()) {
            return Err(Problem::fatal("08P01", "a client that begins with TLS names the protocol postgresql"));
        }
    }
    loop {
        let Some(io) = stream.as_mut() else { return Ok(None) };
        let Some(frame) = startup_frame(io, buffer).await? else { return Ok(None) };
        let secured = matches!(io, MaybeTls::Tls(_));
        let asks_tls = SslRequest::is_ssl_request_packet(&frame);
        if asks_tls || GssEncRequest::is_gss_enc_request_packet(&frame) {
            let accepted = tls.filter(|_| asks_tls && !secured);
            let answer = if accepted.is_some() { b"S" } else { b"N" };
            if io.write_all(answer).await.is_err() {
                return Ok(None);
            }
            if let Some(tls) = accepted {
                if !buffer.is_empty() {
                    return Err(Problem::fatal("08P01", "unencrypted bytes came after the request for TLS"));
                }
                secure(stream, tls).await?;
            }
            continue;
        }
        let purpose = quietly(|| purpose(frame)).map_err(|(major, minor)| {
            Problem::fatal("0A000", format!("protocol {major}.{minor} is not spoken here; 3.0 and 3.2 are"))
        })?;
        if tls.is_some() && !secured && matches!(purpose, Purpose::Session(_)) {
            return Err(Problem::fatal("28000", "this server takes connections over TLS only (sslmode=require)"));
        }
        return Ok(Some(purpose));
    }
}

async fn asks_tls_at_once(stream: Option<&MaybeTls>) -> bool {
    let mut first = [0];
    match stream {
        Some(MaybeTls::Plain(tcp)) => matches!(tcp.peek(&mut first).await, Ok(1)) && first[0] == TLS_HANDSHAKE,
        _ => false,
    }
}

fn speaks_postgresql(stream: Option<&MaybeTls>) -> bool {
    matches!(stream, Some(MaybeTls::Tls(tls)) if tls.get_ref().1.alpn_protocol() == Some(ALPN))
}

async fn secure(stream: &mut Option<MaybeTls>, tls: &TlsAcceptor) -> Result<(), Problem> {
    let Some(MaybeTls::Plain(tcp)) = stream.take() else {
        return Err(Problem::fatal("08P01", "TLS is asked for twice"));
    };
    let secured = tls.accept(tcp).await.map_err(|error| Problem::fatal("08006", format!("no TLS: {error}")))?;
    *stream = Some(MaybeTls::Tls(Box::new(secured)));
    Ok(())
}

/// Lets the client prove who it is, if there are users.
pub(super) async fn authenticate<R, W>(
    hello: &Hello,
    users: Option<&Users>,
    reader: &mut Reader<R>,
    writer: &mut Writer<W>,
) -> Result<(), Problem>
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    if let Some(options) = &hello.unsupported {
        let newest = i32::from(hello.version);
        send(
            writer,
            PgWireBackendMessage::NegotiateProtocolVersion(NegotiateProtocolVersion::new(newest, options.clone())),
        )
        .await?;
    }
    let name = hello.user()?;
    if let Some(users) = users {
        let answer = |data: String| Authentication::SASLContinue(Bytes::from(data));
        send_authentication(writer, Authentication::SASL(vec![SCRAM.to_owned()])).await?;
        let failed = || Problem::fatal("28P01", format!("password authentication failed for user \"{name}\""));
        let first = password(reader).await?.into_sasl_initial_response().map_err(|_| failed())?;
        let first_data = first.data.filter(|_| first.auth_method == SCRAM).ok_or_else(failed)?;
        let server = ScramServerAuth::new();
        let (challenge, proof) =
            server.on_client_first_message_with_secret(&first_data, users.secret(name)).map_err(|_| failed())?;
        send_authentication(writer, answer(challenge)).await?;
        let last = password(reader).await?.into_sasl_response().map_err(|_| failed())?;
        let signature = proof.on_client_final_message(&last.data).map_err(|_| failed())?;
        send_authentication(writer, Authentication::SASLFinal(Bytes::from(signature))).await?;
    }
    Ok(())
}

/// Tells the client that it is let in.
pub(super) async fn accept<W: tokio::io::AsyncWrite + Unpin>(writer: &mut Writer<W>) -> Result<(), Problem> {
    send_authentication(writer, Authentication::Ok).await
}

async fn password<R: tokio::io::AsyncRead + Unpin>(
    reader: &mut Reader<R>,
) -> Result<pgwire::messages::startup::PasswordMessageFamily, Problem> {
    match reader.next().await? {
        Some(PgWireFrontendMessage::PasswordMessageFamily(message)) => Ok(message),
        Some(_) => Err(Problem::fatal("08P01", "a password was expected")),
        None => Err(Problem::fatal("08006", "the client has gone")),
    }
}

async fn send_authentication<W: tokio::io::AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    message: Authentication,
) -> Result<(), Problem> {
    send(writer, PgWireBackendMessage::Authentication(message)).await
}

async fn send<W: tokio::io::AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    message: PgWireBackendMessage,
) -> Result<(), Problem> {
    let sent = async {
        writer.put(message)?;
        writer.flush().await
    };
    sent.await.map_err(|_: io::Error| Problem::fatal("08006", "the client has gone"))
}

/// What a client is told once it is known.
pub(super) fn welcome(pid: i32, key: SecretKey, settings: &Settings) -> Vec<PgWireBackendMessage> {
    let status = settings.reported();
    let status = status.map(|(name, value)| PgWireBackendMessage::ParameterStatus(ParameterStatus::new(name, value)));
    let mut messages: Vec<_> = status.collect();
    messages.push(PgWireBackendMessage::BackendKeyData(BackendKeyData::new(pid, key)));
    messages
}

/// A connection of TCP as a stream.
pub(super) fn plain(tcp: TcpStream) -> Option<MaybeTls> {
    Some(MaybeTls::Plain(tcp))
}
