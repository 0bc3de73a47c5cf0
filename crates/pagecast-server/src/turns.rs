//! Places that are given in turn: the next one is for the name that holds the fewest, and there for
//! whoever has waited longest. A client waits for its own queries, and not for the many of another.
//!
//! Each place that gets free looks through all who wait: at most as many as are connected.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Places for what runs, and those who wait for one.
///
/// T1. A place is free only while nobody waits.
/// T2. Who has waited and is not in `waiting` any more holds a place, even if it does not know yet.
pub(super) struct Turns(Mutex<State>);

struct State {
    free: usize,
    /// Places that each name holds; one that holds none is not there.
    held: HashMap<Arc<str>, usize>,
    /// The first one has waited longest.
    waiting: BTreeMap<u64, Waits>,
    came: u64,
}

struct Waits {
    name: Arc<str>,
    called: oneshot::Sender<()>,
}

/// A place. It is another's once it is dropped.
pub(super) struct Place {
    turns: Arc<Turns>,
    name: Arc<str>,
}

/// One who waits, until it has its place or gives up.
struct Turn<'a> {
    turns: &'a Turns,
    name: &'a str,
    number: u64,
    had: bool,
}

impl Turns {
    pub(super) fn new(places: usize) -> Arc<Self> {
        let state = State { free: places, held: HashMap::new(), waiting: BTreeMap::new(), came: 0 };
        Arc::new(Self(Mutex::new(state)))
    }

    /// Places that nobody holds.
    pub(super) fn free(&self) -> usize {
        self.0.lock().free
    }

    /// Waits for a place.
    pub(super) async fn place(self: &Arc<Self>, name: &str) -> Place {
        let place = Arc::<str>::from(name);
        let asked = self.0.lock().ask(&place);
        if let Some((number, call)) = asked {
            let mut turn = Turn { turns: self, name, number, had: false };
            // Its sender goes only with the call.
            let _ = call.await;
            turn.had = true;
        }
        Place { turns: Arc::clone(self), name: place }
    }
}

impl State {
    /// Takes a free place, or a number among those who wait.
    fn ask(&mut self, name: &Arc<str>) -> Option<(u64, oneshot::Receiver<()>)> {
        if self.free > 0 {
            self.free -= 1;
            *self.held.entry(Arc::clone(name)).or_default() += 1;
            return None;
        }
        let (called, call) = oneshot::channel();
        let number = self.came;
        self.came += 1;
        self.waiting.insert(number, Waits { name: Arc::clone(name), called });
        Some((number, call))
    }

    /// Gives a name's place to whose turn it is.
    fn leave(&mut self, name: &str) {
        if let Some(held) = self.held.get_mut(name) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(name);
            }
        }
        let holds = |waits: &Waits| self.held.get(&waits.name).copied().unwrap_or(0);
        // The first of those that hold the fewest.
        let next = self.waiting.iter().min_by_key(|(_, waits)| holds(waits)).map(|(&number, _)| number);
        let Some(Waits { name, called }) = next.and_then(|number| self.waiting.remove(&number)) else {
            self.free += 1;
            return;
        };
        *self.held.entry(name).or_default() += 1;
        // It waits for the call, or its Turn is about to leave the place (T2).
        let _ = called.send(());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.turns.0.lock().leave(&self.name);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.had {
            return;
        }
        let mut state = self.turns.0.lock();
        if state.waiting.remove(&self.number).is_none() {
            state.leave(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::future::BoxFuture;

    fn ask(turns: &Arc<Turns>, name: &'static str) -> BoxFuture<'static, Place> {
        let turns = Arc::clone(turns);
        let mut place = async move { turns.place(name).await }.boxed();
        assert!((&mut place).now_or_never().is_none());
        place
    }

    #[tokio::test]
    async fn who_holds_the_fewest_is_next() {
        let turns = Turns::new(2);
        let (first, second) = (turns.place("many").await, turns.place("many").await);
        let (mut many, mut few) = (ask(&turns, "many"), ask(&turns, "few"));
        drop(first);
        assert!((&mut many).now_or_never().is_none());
        let few = (&mut few).now_or_never();
        assert!(few.is_some());
        // Both hold one: who came first is next.
        let mut late = ask(&turns, "few");
        drop(second);
        let many = (&mut many).now_or_never();
        assert!(many.is_some() && (&mut late).now_or_never().is_none());
        drop(many);
        assert!((&mut late).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_gives_up_keeps_nothing() {
        let turns = Turns::new(1);
        let place = turns.place("a").await;
        let (before, called, last) = (ask(&turns, "b"), ask(&turns, "c"), ask(&turns, "d"));
        drop(before);
        drop(place);
        assert_eq!((turns.free(), turns.0.lock().waiting.len()), (0, 1));
        // It was called, and gives up before it knows.
        drop(called);
        drop(last.await);
        let state = turns.0.lock();
        assert!(state.free == 1 && state.held.is_empty() && state.waiting.is_empty());
    }
}
