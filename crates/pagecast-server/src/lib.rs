//! Tables served to whoever speaks PostgreSQL's protocol or Flight SQL, through one pool: the part
//! of `pagecast serve` that is not flags.
//!
//! A [`Server`] has the engine, who may connect, and what they may use. [`Listeners`] take
//! connections until Ctrl-C or SIGTERM. What happens to one of PostgreSQL's clients, from the
//! bottom up:
//!
//! | module | is |
//! |---|---|
//! | `frames`, `wire`, `startup`, `tls` | messages, and who it is |
//! | `notices` | what whoever runs the server hears of clients |
//! | `lobby`, `guesses`, `room` | who waits to log in, who guesses, who has a place |
//! | `entries` | who is connected, and what they do |
//! | `users`, `memory`, `keeping` | who may connect, what they may take and keep |
//! | `settings`, `types`, `parameters`, `rows` | values, there and back |
//! | `catalog`, `rewrite`, `statements` | what its SQL means here |
//! | `server`, `places`, `execution` | what all share, and a query under way |
//! | `connection`, `session` | its statements and portals, from the first byte to the last |
//! | `flight` | the same for Flight SQL |
//! | `status`, `listen` | the server's own table; who is let in |

#![deny(unsafe_code)]

mod catalog;
mod connection;
mod entries;
mod execution;
#[cfg(feature = "flight")]
mod flight;
mod frames;
mod guesses;
mod keeping;
mod listen;
mod lobby;
mod memory;
mod notices;
mod parameters;
mod places;
mod problem;
mod rewrite;
mod room;
mod rows;
mod server;
mod session;
mod settings;
mod startup;
mod statements;
mod status;
mod stop;
mod tls;
mod turns;
mod types;
mod users;
mod wire;

use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use pagecast_sql::Engine;
pub use pgwire::tokio::TlsAcceptor;

pub use entries::Running;
#[cfg(feature = "flight")]
pub use flight::{Flight, USUAL as USUAL_FLIGHT};
pub use listen::Listeners;
pub use notices::Say;
pub use server::{Limits, Server};
pub use tls::{Spoken, acceptor};
pub use users::Users;

/// What a session of DataFusion is made with so that PostgreSQL's clients find what they know.
pub fn session_config() -> SessionConfig {
    SessionConfig::new().with_default_catalog_and_schema(catalog::DATABASE, catalog::SCHEMA)
}

/// A server of the engine's tables, with the catalog that clients ask for. Without users everybody
/// is let in.
///
/// # Errors
///
/// The engine's session was not made with [`session_config`], or a limit does not fit the machine.
pub async fn open(
    engine: Engine,
    users: Option<Users>,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    say: Say,
) -> anyhow::Result<Arc<Server>> {
    catalog::install(&engine.ctx, &engine.pool).await?;
    let server = Arc::new(Server::new(engine, users, tls, limits, say)?);
    status::install(&server)?;
    Ok(server)
}
