//! What a statement holds of the heap, in whatever tasks it runs.
//!
//! While a task of the statement is polled, what its thread takes and gives back is the
//! statement's. Tasks that DataFusion starts for it are followed. What one task takes and another
//! statement's gives back goes astray: pages that several scans share, of which there are few.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::common::{Result, exec_err};
use futures::FutureExt;
use futures::future::BoxFuture;
use pagecast::files;
use tokio::sync::SetOnce;

use crate::heap_unsafe::net_of_thread;
use crate::order::{Used, in_turn, step_aside};

thread_local! {
    /// Whose task this thread works on, and what the thread had taken when it began.
    static CURRENT: RefCell<Option<(Held, isize)>> = const { RefCell::new(None) };
}

/// Bytes of the heap that a statement holds. In a program whose heap is not counted there are none.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicIsize,
    /// Of row groups that were read and are not decoded yet.
    read: AtomicU64,
    used: Used,
    /// Nobody waits for its rows any more.
    ended: AtomicBool,
    /// It waits for the turn of large statements, or has it.
    large: SetOnce<()>,
    _alive: Alive,
}

/// Statements of which a task is left.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Alive;

impl Default for Alive {
    fn default() -> Self {
        ALIVE.fetch_add(1, Relaxed);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
    }
}

/// Whether there are other statements than the one that asks.
pub(crate) fn are_others() -> bool {
    ALIVE.load(Relaxed) > 1
}

/// Waits until all statements have ended with their last task, and not longer than `patience`, or
/// than `writing` while a file is not whole: what they wrote is taken away then.
pub(crate) fn settle(patience: Duration, writing: Duration) {
    let began = Instant::now();
    let patience = || if files::are_unfinished() { writing } else { patience };
    while ALIVE.load(Relaxed) > 0 && began.elapsed() < patience() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Counts from its beginning to its end, also if that is a panic.
struct Counting {
    outer: Option<(Held, isize)>,
}

impl Held {
    /// Bytes that are held now.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.0.bytes.load(Relaxed)).unwrap_or(0)
    }

    /// A future that counts here whatever it takes.
    pub fn counted<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        Counted { held: self.clone(), future: Some(Box::pin(future)) }
    }

    /// A task of the statement: what it takes is counted here, and it runs in its turn.
    pub(crate) fn task<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        in_turn(&self.0.used, self.counted(future))
    }

    pub(crate) fn become_large(&self) {
        // It may be already.
        let _ = self.0.large.set(());
    }

    /// Whether this thread works on a statement that has the turn of large ones, or waits for it.
    pub(crate) fn is_current_large() -> bool {
        CURRENT.with(|current| current.borrow().as_ref().is_some_and(|(held, _)| held.0.large.initialized()))
    }

    /// Waits until it takes turns with other large statements, if it ever does.
    pub async fn is_large(&self) {
        self.0.large.wait().await;
    }

    /// What this thread does next for its statement takes long.
    pub(crate) fn takes_long() {
        if let Some(held) = Self::current() {
            held.0.used.be_large();
        }
    }

    /// Has its tasks end wherever they look next.
    pub(crate) fn end(&self) {
        self.0.ended.store(true, Relaxed);
    }

    /// Fails if the statement whose task this thread works on was ended.
    pub(crate) fn check_current() -> Result<()> {
        match CURRENT.with(|current| current.borrow().as_ref().is_some_and(|(held, _)| held.0.ended.load(Relaxed))) {
            true => exec_err!("the statement was ended"),
            false => Ok(()),
        }
    }

    /// The same for what does not give way by itself; when its turn is over it steps aside.
    pub(crate) fn check_turn() -> Result<()> {
        step_aside();
        Self::check_current()
    }

    fn count(&self) -> Counting {
        Counting { outer: CURRENT.with(|current| current.replace(Some((self.clone(), net_of_thread())))) }
    }

    /// Bytes of row groups that were read and are not decoded yet.
    pub(crate) fn read(&self) -> &AtomicU64 {
        &self.0.read
    }

    pub(crate) fn current() -> Option<Self> {
        CURRENT.with(|current| current.borrow().as_ref().map(|(held, _)| held.clone()))
    }

    /// Bytes of the statement whose task this thread works on, with what that has taken just now.
    pub(crate) fn bytes_of_current() -> u64 {
        CURRENT.with(|current| {
            let bytes =
                |(held, before): &(Self, isize)| held.0.bytes.load(Relaxed) + net_of_thread().wrapping_sub(*before);
            current.borrow().as_ref().map_or(0, |current| u64::try_from(bytes(current)).unwrap_or(0))
        })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let own = CURRENT.with(|current| current.replace(self.outer.take()));
        if let Some((Held(counts), before)) = own {
            counts.bytes.fetch_add(net_of_thread().wrapping_sub(before), Relaxed);
        }
    }
}

/// It drops what it works on while it counts, so that what ends is given back where it was taken.
struct Counted<F> {
    held: Held,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _counting = self.held.count();
        let Some(future) = self.future.as_mut() else { return Poll::Pending };
        let done = future.as_mut().poll(context);
        if done.is_ready() {
            self.future = None;
        }
        done
    }
}

impl<F> Drop for Counted<F> {
    fn drop(&mut self) {
        let _counting = self.held.count();
        self.future = None;
    }
}

/// Has the tasks that DataFusion starts for a statement counted as the statement's.
pub(crate) fn follow_tasks() {
    // A program that traces tasks in its own way keeps it; nothing is counted in them then.
    let _ = set_join_set_tracer(&Followed);
}

struct Followed;

impl JoinSetTracer for Followed {
    fn trace_future(&self, task: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match Held::current() {
            Some(held) => held.task(task).boxed(),
            None => task,
        }
    }

    fn trace_block(
        &self,
        task: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match Held::current() {
            Some(held) => Box::new(move || {
                let _counting = held.count();
                task()
            }),
            None => task,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use datafusion::common::runtime::SpawnedTask;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_tasks_keep_is_their_statements() {
        const LARGE: usize = 8 << 20;
        follow_tasks();
        let (one, other) = (Held::default(), Held::default());
        let work = async {
            let spawned = SpawnedTask::spawn(async { vec![1_u8; LARGE] }).await.unwrap();
            let blocking = SpawnedTask::spawn_blocking(|| vec![1_u8; LARGE]).await.unwrap();
            (spawned, blocking)
        };
        let kept = one.counted(work).await;
        other.counted(async { drop(vec![1_u8; LARGE]) }).await;
        assert!((2 * LARGE..2 * LARGE + (1 << 20)).contains(&one.bytes()), "{}", one.bytes());
        assert!(other.bytes() < 1 << 20);
        one.counted(async { drop(kept) }).await;
        assert!(one.bytes() < 1 << 20, "{}", one.bytes());
    }
}
