//! Whose turn it is: large statements take turns on the processors, and small ones do not wait for
//! them.
//!
//! A task runs without asking as long as its statement has used next to no processor time; threads
//! are spared for such tasks. All others need a processor, and there are as many as the machine
//! has. Who finds none waits in line, and comes the later in it the more its statement has used. A
//! turn is long, since tasks that take turns throw each other's pages and groups out of the caches,
//! and ends at the next batch if somebody waits who has used less.
//!
//! The idea is that of Umbra's scheduler (Wagner, Kohn and Neumann, Self-Tuning Query Scheduling
//! for Analytical Workloads, SIGMOD 2021, section 3), which has workers of its own and lets
//! priorities fall step by step. Here the runtime's queues stay, and who comes to a thread out of
//! turn is put into the line.
//!
//! * O1. A processor is free only while nobody is in line: who gives one back hands it to the
//!   first. Nobody takes it on the way, so that whoever gives way has others before itself.
//! * O2. Who is not in line any more has a processor, even if it does not know yet; if it ends
//!   before, it hands it on.
//! * O3. Nobody stands behind those who come later by its level times [`HEAD_START`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::block_in_place;

/// How long a task runs unless somebody smaller waits. What it wakes may be kept for its thread.
const TURN: Duration = Duration::from_millis(20);
/// In which another thread comes for the work of one that steps aside.
const COMES: Duration = Duration::from_millis(1);
/// So much later a task may come than one of the next level, and stand before it.
const HEAD_START: Duration = Duration::from_millis(100);

/// Statements that have used less than so much are of the first level, and so on. Those of the
/// first one need no processor.
const LEVELS: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];

/// The level where nobody waits.
const NOBODY: usize = usize::MAX;

/// All tasks of statements in this process.
static ORDER: Order = Order::new();

thread_local! {
    /// The turn of the task that this thread polls.
    static CURRENT: Cell<Option<Turn>> = const { Cell::new(None) };
}

/// Processor time that the tasks of a statement have used, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used(Arc<AtomicU64>);

struct Order {
    line: Mutex<Line>,
    /// The level of the first in line, to look at without the lock.
    first: AtomicUsize,
}

/// Who waits for a processor.
struct Line {
    /// Processors that nobody has, once somebody has asked.
    free: Option<usize>,
    waiting: BTreeMap<Place, (usize, Waker)>,
    came: u64,
}

/// A place in line: by when the task came, by its level and by its number.
type Place = (Instant, u64);

#[derive(Clone, Copy)]
struct Turn {
    order: &'static Order,
    began: Instant,
    /// What the statement had used before.
    used: u64,
    has_processor: bool,
    /// Its thread is no worker any more.
    is_beside: bool,
}

/// Processors of this machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn level(nanoseconds: u64) -> usize {
    LEVELS.iter().filter(|level| u128::from(nanoseconds) >= level.as_nanos()).count()
}

impl Order {
    const fn new() -> Self {
        let line = Line { free: None, waiting: BTreeMap::new(), came: 0 };
        Self { line: Mutex::new(line), first: AtomicUsize::new(NOBODY) }
    }

    /// Takes a processor, or a place in line (O1).
    fn take(&self, level: usize, came: Instant, waker: &Waker) -> Result<(), Place> {
        let mut line = self.line.lock();
        let free = line.free.unwrap_or_else(processors);
        if free > 0 {
            line.free = Some(free - 1);
            return Ok(());
        }
        let place = (came + HEAD_START * level as u32, line.came);
        line.came += 1;
        line.waiting.insert(place, (level, waker.clone()));
        self.see(&line);
        Err(place)
    }

    /// Whether who was in line has a processor now (O2). It stays in line else.
    fn is_called(&self, place: &Place, waker: &Waker) -> bool {
        let mut line = self.line.lock();
        let Some((_, waiting)) = line.waiting.get_mut(place) else { return true };
        waiting.clone_from(waker);
        false
    }

    /// Hands a processor to the first in line (O1).
    fn give_back(&self) {
        let mut line = self.line.lock();
        let called = line.waiting.pop_first();
        if called.is_none() {
            line.free = line.free.map(|free| free + 1);
        }
        self.see(&line);
        drop(line);
        if let Some((_, (_, waker))) = called {
            waker.wake();
        }
    }

    /// Leaves the line, or hands on what it was given (O2).
    fn leave(&self, place: &Place) {
        let mut line = self.line.lock();
        let waited = line.waiting.remove(place).is_some();
        self.see(&line);
        drop(line);
        if !waited {
            self.give_back();
        }
    }

    fn see(&self, line: &Line) {
        let first = line.waiting.first_key_value().map_or(NOBODY, |(_, (level, _))| *level);
        self.first.store(first, Relaxed);
    }
}

impl Turn {
    fn is_over(&self) -> bool {
        let ran = self.began.elapsed();
        match level(self.used + ran.as_nanos() as u64) {
            0 => false,
            _ if !self.has_processor => true,
            level => ran >= TURN || self.order.first.load(Relaxed) < level,
        }
    }
}

/// Whether the task that runs here should give way.
pub(crate) fn is_turn_over() -> bool {
    CURRENT.get().is_some_and(|turn| turn.is_over())
}

/// For what cannot give way: when its turn is over, processor and thread are left to others, and
/// the rest of the poll goes on beside them.
pub(crate) fn step_aside() {
    let Some(turn) = CURRENT.get().filter(|turn| !turn.is_beside && turn.is_over()) else { return };
    CURRENT.set(Some(Turn { has_processor: false, is_beside: true, ..turn }));
    if turn.has_processor {
        turn.order.give_back();
    }
    // The runtime takes its thread back unless another has come for it by then.
    block_in_place(|| std::thread::sleep(COMES));
}

/// The task of a statement, in its turn.
pub(crate) fn in_turn<F: Future>(used: &Used, future: F) -> impl Future<Output = F::Output> + use<F> {
    in_turn_of(&ORDER, used, future)
}

fn in_turn_of<F: Future>(order: &'static Order, used: &Used, future: F) -> impl Future<Output = F::Output> + use<F> {
    InTurn { order, used: used.clone(), future: Box::pin(future), waits: None }
}

struct InTurn<F> {
    order: &'static Order,
    used: Used,
    future: Pin<Box<F>>,
    /// Its place in line. It may have been called.
    waits: Option<Place>,
}

impl<F: Future> InTurn<F> {
    /// Whether it may go on, with a processor if it needs one; it is in line else.
    fn may_go_on(&mut self, level: usize, now: Instant, waker: &Waker) -> bool {
        if let Some(place) = &self.waits {
            let is_called = self.order.is_called(place, waker);
            if is_called {
                self.waits = None;
            }
            return is_called;
        }
        self.waits = if level == 0 { None } else { self.order.take(level, now, waker).err() };
        self.waits.is_none()
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (began, used) = (Instant::now(), self.used.0.load(Relaxed));
        let level = level(used);
        if !self.may_go_on(level, began, context.waker()) {
            return Poll::Pending;
        }
        let this = &mut *self;
        let turn = Turn { order: this.order, began, used, has_processor: level > 0, is_beside: false };
        let _working = Working::begin(turn, &this.used);
        this.future.as_mut().poll(context)
    }
}

impl<F> Drop for InTurn<F> {
    fn drop(&mut self) {
        if let Some(place) = self.waits.take() {
            self.order.leave(&place);
        }
    }
}

/// While a task is polled. Its time is counted, and its processor given back, also if that ends in
/// a panic.
struct Working<'a> {
    used: &'a Used,
    outer: Option<Turn>,
}

impl<'a> Working<'a> {
    fn begin(turn: Turn, used: &'a Used) -> Self {
        Self { used, outer: CURRENT.replace(Some(turn)) }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let Some(turn) = CURRENT.replace(self.outer) else { return };
        self.used.0.fetch_add(turn.began.elapsed().as_nanos() as u64, Relaxed);
        if turn.has_processor {
            turn.order.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::AtomicBool;

    use tokio::runtime::Builder;

    use super::*;

    /// Gives way as streams do.
    async fn give_way() {
        let mut is_first = true;
        std::future::poll_fn(|context| match std::mem::take(&mut is_first) {
            true => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Ready(()),
        })
        .await;
    }

    fn used(time: Duration) -> Used {
        Used(Arc::new(AtomicU64::new(time.as_nanos() as u64)))
    }

    fn order(processors: usize) -> &'static Order {
        let order = Box::leak(Box::new(Order::new()));
        order.line.lock().free = Some(processors);
        order
    }

    /// Works until it is told to stop, and gives way when its turn is over.
    async fn work(stopped: Arc<AtomicBool>, turns: Arc<AtomicU64>) {
        while !stopped.load(Relaxed) {
            std::thread::yield_now();
            if is_turn_over() {
                turns.fetch_add(1, Relaxed);
                give_way().await;
            }
        }
    }

    #[test]
    fn large_tasks_take_turns_and_small_ones_do_not_wait() {
        let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let (order, stopped) = (order(1), Arc::<AtomicBool>::default());
        let turns: Vec<_> = (0..8).map(|_| Arc::<AtomicU64>::default()).collect();
        let large = |turns: &Arc<AtomicU64>| {
            let work = work(Arc::clone(&stopped), Arc::clone(turns));
            runtime.spawn(in_turn_of(order, &used(Duration::from_secs(10)), work))
        };
        let tasks: Vec<_> = turns.iter().map(large).collect();
        // More small ones than there are turns in the meantime.
        for _ in 0..1000 {
            runtime.block_on(runtime.spawn(in_turn_of(order, &Used::default(), give_way()))).unwrap();
        }
        while turns.iter().any(|turns| turns.load(Relaxed) < 3) {
            std::thread::sleep(TURN);
        }
        stopped.store(true, Relaxed);
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        let line = order.line.lock();
        assert_eq!((line.free, line.waiting.len()), (Some(1), 0));
    }

    #[test]
    fn who_is_dropped_leaves_its_turn_to_the_next() {
        let (order, waker) = (order(1), Waker::noop());
        let (mut context, now) = (Context::from_waker(waker), Instant::now());
        let large = || Box::pin(in_turn_of(order, &used(Duration::from_secs(10)), std::future::ready(())));
        assert!(order.take(3, now, waker).is_ok());
        let (mut called, mut next, mut last) = (large(), large(), large());
        for task in [&mut called, &mut next, &mut last] {
            assert!(task.as_mut().poll(&mut context).is_pending());
        }
        order.give_back();
        assert_eq!(order.line.lock().waiting.len(), 2, "the first was called");
        drop(called);
        assert_eq!(order.line.lock().waiting.len(), 1, "and it called the next one");
        assert!(last.as_mut().poll(&mut context).is_pending());
        assert!(next.as_mut().poll(&mut context).is_ready());
        assert_eq!(order.line.lock().waiting.len(), 0, "which called the last one when it was done");
        drop((next, last));
        assert_eq!(order.line.lock().free, Some(1));
    }

    #[test]
    fn small_ones_come_before_large_ones_that_came_a_little_earlier() {
        let (order, waker, now) = (order(0), Waker::noop(), Instant::now());
        let place = |level, milliseconds| order.take(level, now + Duration::from_millis(milliseconds), waker);
        let (large, late, small) = (place(3, 0), place(1, 250), place(1, 150));
        let line = order.line.lock();
        assert!(small < large && large < late);
        assert_eq!(line.waiting.first_key_value().map(|(place, _)| *place), small.err());
    }
}
