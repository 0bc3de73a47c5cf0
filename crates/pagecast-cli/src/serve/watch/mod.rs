//! The pool at work, to be looked at: a page over HTTP whose numbers come by server-sent events.
//!
//! Nothing is sampled while nobody looks. The page is one file inside the binary and asks for
//! nothing else.

mod http;
mod sample;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::server::Server;
use sample::Sampler;

/// Time between two samples.
const EVERY: Duration = Duration::from_millis(333);
/// Browsers that look at once.
const MOST_VIEWERS: usize = 16;
/// How long a browser may take to say what it wants.
const REQUEST: Duration = Duration::from_secs(5);

/// A page that waits for browsers.
pub(super) struct Watch {
    listener: TcpListener,
    address: SocketAddr,
}

impl Watch {
    pub(super) async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("--ui: no browser can reach {address}"))?;
        let address = listener.local_addr().context("--ui")?;
        Ok(Self { listener, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers browsers until it is dropped.
    pub(super) async fn run(self, server: Arc<Server>) {
        let (samples, _) = watch::channel(Arc::from(""));
        let room = Arc::new(Semaphore::new(MOST_VIEWERS));
        let mut viewers = JoinSet::new();
        let mut sampler = Sampler::new(server);
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(_) = viewers.join_next() => {}
                _ = ticks.tick() => {
                    if samples.receiver_count() > 0 {
                        samples.send_replace(sampler.take().into());
                    } else {
                        sampler.forget();
                    }
                }
                accepted = self.listener.accept() => {
                    let Ok((mut tcp, _)) = accepted else {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    // One too many hears nothing: its browser tries again.
                    let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
                    let (samples, address) = (samples.clone(), self.address);
                    viewers.spawn(async move {
                        let request = timeout(REQUEST, http::request(&mut tcp, address)).await;
                        if let Ok(Some(request)) = request {
                            // A browser that goes is no news.
                            let _ = http::answer(&mut tcp, request, &samples).await;
                        }
                        drop(place);
                    });
                }
            }
        }
    }
}
