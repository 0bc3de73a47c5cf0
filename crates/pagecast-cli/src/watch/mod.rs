//! The pool at work, to be looked at: a page over HTTP whose numbers come by server-sent events.
//! `pagecast serve --ui` and `pagecast bench --watch` have it.
//!
//! Nothing is sampled while nobody looks; a clock beside the pool follows it all the time. The page
//! is one file inside the binary and asks for nothing else. Who does not know its token sees
//! nothing. It has a thread of its own: queries that compute for long keep all others busy.

mod http;
mod sample;
mod shadow;
mod token;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use pagecast::Pool;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::failure::{say, usage};
use http::Door;
use sample::Sampler;
pub(crate) use shadow::Shadow;
use token::Token;

/// Where the page is, unless somebody says otherwise.
pub(crate) const USUAL: &str = "127.0.0.1:8432";
/// Time between two samples.
const EVERY: Duration = Duration::from_millis(333);
/// Browsers that look at once.
const MOST_VIEWERS: usize = 16;
/// How long a browser may take to say what it wants.
const REQUEST: Duration = Duration::from_secs(5);

/// What the page shows.
pub(crate) trait Watched: Send + Sync {
    /// The pool, if there is one now.
    fn pool(&self) -> Option<Pool>;
    /// The clock beside it, if there is one.
    fn shadow(&self) -> Option<Arc<Shadow>>;
    /// What is done with it, in a few words.
    fn doing(&self) -> String;
    /// Clients, or streams of queries.
    fn connected(&self) -> usize;
    /// Queries that run.
    fn running(&self) -> Vec<Running>;
    /// What a query that comes back reads, in words, by its fingerprint.
    fn reads_of(&self, _fingerprint: u64) -> Option<String> {
        None
    }
    /// Whether the page may end queries.
    fn ends_queries(&self) -> bool {
        false
    }
    /// Ends a query by its number. Says whether somebody has it.
    fn end(&self, _number: i64) -> bool {
        false
    }
}

/// A query that runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) number: i64,
    pub(crate) user: String,
    /// Where its client is, if that is elsewhere.
    pub(crate) client: String,
    pub(crate) sql: Arc<str>,
    pub(crate) since: Instant,
    /// Rows that its client was sent.
    pub(crate) rows: u64,
    /// Whether it waits for a place.
    pub(crate) waits: bool,
    /// Bytes that it holds.
    pub(crate) memory: u64,
}

/// A page that waits for browsers.
pub(crate) struct Watch {
    listener: TcpListener,
    door: Arc<Door>,
}

impl Watch {
    pub(crate) fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(usage(format!(
                "{address} can be reached from elsewhere, and the page asks nobody who they are"
            )));
        }
        let listener = TcpListener::bind(address).with_context(|| format!("no browser can reach {address}"))?;
        listener.set_nonblocking(true).context("no page")?;
        let address = listener.local_addr().context("no page")?;
        let token = Token::find().map_err(|error| usage(format!("{error:#}")))?;
        Ok(Self { listener, door: Arc::new(Door { address, token }) })
    }

    /// What a browser opens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/?token={}", self.door.address, self.door.token)
    }

    /// Answers browsers until what it gives is dropped.
    pub(crate) fn start(self, watched: Arc<dyn Watched>) -> anyhow::Result<Watching> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no page")?;
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("pagecast-ui".to_owned());
        let watching = thread.spawn(move || {
            if let Err(error) = runtime.block_on(self.run(watched, ended)) {
                say(&error);
            }
        });
        Ok(Watching { end: Some(end), thread: Some(watching.context("no thread for the page")?) })
    }

    async fn run(self, watched: Arc<dyn Watched>, mut ended: oneshot::Receiver<()>) -> anyhow::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener).context("no page")?;
        let (samples, _) = watch::channel(Arc::from(""));
        let room = Arc::new(Semaphore::new(MOST_VIEWERS));
        let mut viewers = JoinSet::new();
        let mut sampler = Sampler::new(Arc::clone(&watched));
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut ended => return Ok(()),
                Some(_) = viewers.join_next() => {}
                _ = ticks.tick() => {
                    if samples.receiver_count() > 0 {
                        if let Some(sample) = sampler.take() {
                            samples.send_replace(sample.into());
                        }
                    } else {
                        sampler.forget();
                    }
                }
                accepted = listener.accept() => {
                    let Ok((mut tcp, _)) = accepted else {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    // One too many hears nothing: its browser tries again.
                    let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
                    let (samples, door, watched) = (samples.clone(), Arc::clone(&self.door), Arc::clone(&watched));
                    viewers.spawn(async move {
                        let request = timeout(REQUEST, http::request(&mut tcp, &door)).await;
                        if let Ok(Some(request)) = request {
                            // A browser that goes is no news.
                            let _ = http::answer(&mut tcp, request, &samples, &*watched).await;
                        }
                        drop(place);
                    });
                }
            }
        }
    }
}

/// A page that browsers can look at. It goes when this is dropped.
pub(crate) struct Watching {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.end.take());
        // It holds what it watches, which must not outlive this.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
