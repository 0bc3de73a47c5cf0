//! Who may ask: every request passes here before anything of it is read but its headers.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse, PollInfo,
    SchemaResult, Ticket,
};
use async_trait::async_trait;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::Semaphore;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::gate::no_token;
use super::line::Peer;
use super::service::Service;
use super::tokens::Tokens;
use super::words::{AUTHORIZATION, basic, bearer};
use crate::problem::Problem;
use crate::server::Server;

/// Some clients leave out what fills the last letters up.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Who asks without a name, where nobody needs one.
const NOBODY: &str = "anonymous";
/// Passwords that are looked at at once: each takes milliseconds of computing.
const PASSWORDS: usize = 2;

/// The service, for those who are let in.
pub(super) struct Door {
    server: Arc<Server>,
    service: Service,
    tokens: Arc<Tokens>,
    passwords: Semaphore,
}

impl Door {
    pub(super) fn new(server: &Arc<Server>, tokens: &Arc<Tokens>) -> anyhow::Result<Self> {
        let (server, service) = (Arc::clone(server), Service::new(server)?);
        Ok(Self { server, service, tokens: Arc::clone(tokens), passwords: Semaphore::new(PASSWORDS) })
    }

    /// Finds out who asks, and notes it in the request.
    fn let_in<T>(&self, mut request: Request<T>) -> Result<Request<T>, Status> {
        let user = match bearer(request.metadata()).and_then(|token| self.tokens.user(token)) {
            Some(user) => user,
            None if self.server.users.is_none() => NOBODY.to_owned(),
            None => return Err(no_token().into()),
        };
        let peer = peer(&request)?;
        let session = peer.session(&self.server, &user)?;
        request.extensions_mut().insert(session);
        request.extensions_mut().insert(Arc::new(peer.busy()));
        Ok(request)
    }

    /// The user of a handshake, whose password is right.
    async fn log_in(&self, headers: &MetadataMap, address: IpAddr) -> Result<String, Problem> {
        let failed =
            |name: &str| Problem::error("28P01", format!("password authentication failed for user \"{name}\""));
        let given = basic(headers).map(|text| BASE64.decode(text).ok().map(String::from_utf8));
        let (name, password) = match given {
            None if self.server.users.is_none() => return Ok(NOBODY.to_owned()),
            None => return Err(Problem::error("28000", "a handshake names a user and a password (Basic)")),
            Some(Some(Ok(text))) => match text.split_once(':') {
                Some((name, password)) if !name.is_empty() => (name.to_owned(), password.to_owned()),
                _ => return Err(failed("")),
            },
            Some(_) => return Err(failed("")),
        };
        if self.server.users.is_none() {
            return Ok(name);
        }
        self.server.guesses.turn(&name, address).await?;
        let right = {
            let _place = self.passwords.acquire().await;
            let (server, name) = (Arc::clone(&self.server), name.clone());
            let checked = tokio::task::spawn_blocking(move || {
                server.users.as_ref().is_some_and(|users| users.fits(&name, &password))
            });
            checked.await.unwrap_or(false)
        };
        if right {
            self.server.guesses.right(&name, address);
            return Ok(name);
        }
        self.server.guesses.wrong(&name, address, &self.server.notices).await;
        Err(failed(&name))
    }
}

/// The connection that a request came over.
fn peer<T>(request: &Request<T>) -> Result<Arc<Peer>, Status> {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    peer.ok_or_else(|| Status::internal("the request came over no connection"))
}

/// What an answer is, also if the decoders below do not expect such bytes: it ends this request
/// alone.
async fn of<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let wrong = |_| Problem::error("08P01", "the request's contents make no sense").into();
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|panic| Err(wrong(panic)))
}

#[async_trait]
impl FlightService for Door {
    type HandshakeStream = <Service as FlightService>::HandshakeStream;
    type ListFlightsStream = <Service as FlightService>::ListFlightsStream;
    type DoGetStream = <Service as FlightService>::DoGetStream;
    type DoPutStream = <Service as FlightService>::DoPutStream;
    type DoActionStream = <Service as FlightService>::DoActionStream;
    type ListActionsStream = <Service as FlightService>::ListActionsStream;
    type DoExchangeStream = <Service as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let user = self.log_in(request.metadata(), peer(&request)?.address).await?;
        let token = self.tokens.give(&user).map_err(Problem::from)?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into() };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        let bearer = format!("Bearer {token}").parse().map_err(|_| Status::internal("the token is no header"))?;
        response.metadata_mut().insert(AUTHORIZATION, bearer);
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.let_in(request)?;
        Ok(Response::new(stream::empty().boxed()))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        of(FlightService::get_flight_info(&self.service, self.let_in(request)?)).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        of(FlightService::poll_flight_info(&self.service, self.let_in(request)?)).await
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let info = of(FlightService::get_flight_info(&self.service, self.let_in(request)?)).await?;
        Ok(info.map(|info| SchemaResult { schema: info.schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        of(FlightService::do_get(&self.service, self.let_in(request)?)).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        of(FlightService::do_put(&self.service, self.let_in(request)?)).await
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        of(FlightService::do_action(&self.service, self.let_in(request)?)).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        of(FlightService::list_actions(&self.service, self.let_in(request)?)).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        of(FlightService::do_exchange(&self.service, self.let_in(request)?)).await
    }
}
