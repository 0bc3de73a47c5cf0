//! Before the door: a request without a good token goes no further than its headers. What comes
//! behind them is not read, however much it is.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::metadata::MetadataMap;
use tonic::server::NamedService;

use super::body::counted;
use super::tokens::Tokens;
use super::words::bearer;
use crate::problem::Problem;
use crate::server::Server;

/// The one request of those who have no token yet. Its answer depends on its headers alone.
const HANDSHAKE: &str = "/arrow.flight.protocol.FlightService/Handshake";

/// A service for those who have a token, where there are users.
#[derive(Clone)]
pub(super) struct Gate<S> {
    inner: S,
    server: Arc<Server>,
    tokens: Arc<Tokens>,
}

impl<S> Gate<S> {
    pub(super) fn new(inner: S, server: &Arc<Server>, tokens: &Arc<Tokens>) -> Self {
        Self { inner, server: Arc::clone(server), tokens: Arc::clone(tokens) }
    }

    /// The request as it goes on: what comes behind its headers is counted for its user.
    fn let_pass(&self, request: http::Request<Body>) -> Result<http::Request<Body>, Problem> {
        if request.uri().path() == HANDSHAKE {
            return Ok(request);
        }
        let headers = MetadataMap::from_headers(request.headers().clone());
        let user = match bearer(&headers).and_then(|token| self.tokens.user(token)) {
            None if self.server.users.is_some() => return Err(no_token()),
            user => user.unwrap_or_default(),
        };
        Ok(counted(request, &self.server.shared(&user)?.keeper))
    }
}

impl<S> Service<http::Request<Body>> for Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self.let_pass(request) {
            Ok(request) => self.inner.call(request).boxed(),
            Err(problem) => {
                let status = Status::from(problem);
                async move { Ok(status.into_http()) }.boxed()
            }
        }
    }
}

impl<S: NamedService> NamedService for Gate<S> {
    const NAME: &'static str = S::NAME;
}

pub(super) fn no_token() -> Problem {
    Problem::error("28000", "log in: no token came, or one that is not good any more")
}
