//! Connections whose clients have not said yet who they are. They have a bound of their own, so
//! that they take nothing from clients that are logged in.
//!
//! Where there is no room for one more, the oldest one goes, of the address that has the most: a
//! client that comes late is served, however many say nothing. Each has a moment in which it may
//! speak, and meanwhile those that come wait with the system.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::sleep;

/// Connections that may be there without a login.
const MOST: usize = 100;
/// Nobody goes sooner for another. With it, 5,000 connections a second come in at most.
const MOMENT: Duration = Duration::from_millis(20);

/// Those who wait to be let in.
#[derive(Default)]
pub(super) struct Lobby(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// The oldest one is the first.
    all: BTreeMap<u64, Waits>,
    came: u64,
}

struct Waits {
    address: IpAddr,
    since: Instant,
    leaves: oneshot::Sender<()>,
}

/// A connection in the lobby. It ends in time when it is to go.
pub(super) struct Guest {
    lobby: Arc<Lobby>,
    number: u64,
    pub(super) address: IpAddr,
    shown_out: oneshot::Receiver<()>,
}

impl Lobby {
    /// Takes one in. Gives the address of another that goes for it.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> (Guest, Option<IpAddr>) {
        loop {
            match self.try_enter(address) {
                Ok(entered) => return entered,
                Err(left) => sleep(left).await,
            }
        }
    }

    /// The same, or how long the one that is to go may still speak.
    fn try_enter(self: &Arc<Self>, address: IpAddr) -> Result<(Guest, Option<IpAddr>), Duration> {
        let mut waiting = self.0.lock();
        let gone = if waiting.all.len() < MOST { None } else { waiting.show_out()? };
        let (leaves, shown_out) = oneshot::channel();
        let number = waiting.came;
        waiting.came += 1;
        waiting.all.insert(number, Waits { address, since: Instant::now(), leaves });
        Ok((Guest { lobby: Arc::clone(self), number, address, shown_out }, gone))
    }

    /// Connections that are there without a login.
    pub(super) fn waiting(&self) -> usize {
        self.0.lock().all.len()
    }
}

impl Waiting {
    /// Lets the oldest one go of the address that has the most, or says how long it may stay.
    fn show_out(&mut self) -> Result<Option<IpAddr>, Duration> {
        let mut counts = HashMap::new();
        for waits in self.all.values() {
            *counts.entry(waits.address).or_insert(0_usize) += 1;
        }
        // The first of those that are greatest, so that it does not depend on the map.
        let most = counts.values().max();
        let Some(oldest) = self.all.iter().find(|(_, waits)| counts.get(&waits.address) == most) else {
            return Ok(None);
        };
        let (&number, left) = (oldest.0, MOMENT.saturating_sub(oldest.1.since.elapsed()));
        if !left.is_zero() {
            return Err(left);
        }
        Ok(self.all.remove(&number).map(|waits| {
            let _ = waits.leaves.send(());
            waits.address
        }))
    }
}

/// Ready when it is to go.
impl Future for Guest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.shown_out).poll(context).map(|_| ())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.lobby.0.lock().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn who_has_the_most_loses_the_oldest() {
        let lobby = Arc::new(Lobby::default());
        let (many, one) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (mut honest, _) = lobby.enter(one).await;
        let mut silent = Vec::new();
        for _ in 1..MOST {
            silent.push(lobby.enter(many).await.0);
        }
        let began = Instant::now();
        for round in 0..3 {
            let (guest, gone) = lobby.enter(many).await;
            assert_eq!(gone, Some(many));
            assert!((&mut silent[round]).now_or_never().is_some());
            assert!((&mut silent[round + 1]).now_or_never().is_none());
            silent.push(guest);
        }
        assert!((&mut honest).now_or_never().is_none());
        // Nobody who has just come is shown out.
        for _ in 0..MOST {
            silent.push(lobby.enter(many).await.0);
        }
        assert!(began.elapsed() >= MOMENT);
        drop(silent);
        assert_eq!(lobby.0.lock().all.len(), 1);
    }
}
