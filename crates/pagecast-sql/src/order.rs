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
//! What cannot give way, as a join that looks for rows and finds none, leaves its thread to others
//! when its turn is over, and waits for the next one beside them.
//!
//! Statements are planned in threads of their own, and have a line of their own: large plans are
//! made by as many at once as there are processors, each to its end, for a plan that is half made
//! holds memory. Only much smaller ones are let in between.
//!
//! What counts is processor time. On a machine that has more to do, a small statement that was kept
//! from running for a while is a small one still.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::block_in_place;

use crate::line::{Comer, Line};

/// How long a task runs unless somebody smaller waits. What it wakes may be kept for its thread.
const TURN: Duration = Duration::from_millis(20);
/// In which another thread comes for the work of one that steps aside.
const COMES: Duration = Duration::from_millis(1);

/// Statements that have used less than so much are of the first level, and so on. Those of the
/// first one need no processor.
const LEVELS: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];
/// Plans of the highest level let those below this one in between. There is a half-made plan more
/// each time.
const SMALL_PLANS: usize = 2;

/// Of all tasks of statements in this process.
static LINE: Line = Line::new();
/// Of all statements that are planned.
static PLANNERS: Line = Line::new();

thread_local! {
    /// The turn of the task that this thread polls.
    static CURRENT: Cell<Option<Turn>> = const { Cell::new(None) };
}

/// Processor time that the tasks of a statement have used, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used(Arc<AtomicU64>);

#[derive(Clone, Copy)]
struct Turn {
    line: &'static Line,
    /// What the statement had used before this poll.
    used: u64,
    /// Processor time of this thread by then.
    before: Duration,
    began: Instant,
    has_processor: bool,
    on: On,
}

/// The thread of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Worker,
    /// It is no worker any more: it has left its place to another thread, and may wait.
    Beside,
    /// The task's own, in which it may wait.
    Own,
}

fn level(nanoseconds: u64) -> usize {
    LEVELS.iter().filter(|level| u128::from(nanoseconds) >= level.as_nanos()).count()
}

/// Processor time that this thread has used.
fn time_of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Turn {
    fn begin(line: &'static Line, used: u64, has_processor: bool, on: On) -> Self {
        Self { line, used, before: time_of_thread(), began: Instant::now(), has_processor, on }
    }

    fn level(&self) -> usize {
        level(self.used + self.ran().as_nanos() as u64)
    }

    /// Processor time since the poll began.
    fn ran(&self) -> Duration {
        time_of_thread().saturating_sub(self.before)
    }

    fn is_over(&self) -> bool {
        let since = self.began.elapsed();
        match self.on {
            // Less time has passed than it may use: nobody needs to ask the system how much it did.
            _ if !self.has_processor => level(self.used + since.as_nanos() as u64) > 0 && self.level() > 0,
            On::Own => self.line.is_wanted_below(SMALL_PLANS) && self.level() == LEVELS.len(),
            On::Worker | On::Beside => {
                since >= TURN || self.line.is_wanted() && self.line.is_wanted_below(self.level())
            }
        }
    }

    /// Waits in this thread for a processor.
    fn after_the_line(self) -> Self {
        let (waker, level) = (Waker::from(Arc::new(Unpark(thread::current()))), self.level().max(1));
        let mut comer = Comer::to(self.line);
        while !comer.may_go_on(level, Instant::now(), &waker) {
            thread::park();
        }
        Self { began: Instant::now(), has_processor: true, ..self }
    }
}

/// Whether the task that runs here should give way.
pub(crate) fn is_turn_over() -> bool {
    CURRENT.get().is_some_and(|turn| turn.is_over())
}

/// For what cannot give way: when its turn is over, processor and thread are left to others, and
/// the rest of the poll goes on beside them, in the next turn.
pub(crate) fn step_aside() {
    let Some(turn) = CURRENT.get().filter(Turn::is_over) else { return };
    if turn.has_processor {
        turn.line.give_back();
    }
    let waits = Turn { has_processor: false, ..turn };
    CURRENT.set(Some(waits));
    CURRENT.set(Some(match turn.on {
        On::Own => waits.after_the_line(),
        // The runtime takes its thread back unless another has come for it by then.
        On::Worker | On::Beside => block_in_place(|| {
            thread::sleep(COMES);
            Turn { on: On::Beside, ..waits }.after_the_line()
        }),
    }));
}

/// Whether this thread plans a statement, and nothing else.
pub(crate) fn is_planning() -> bool {
    CURRENT.get().is_some_and(|turn| turn.on == On::Own)
}

/// What is planned here is known to be large before it has used any time.
pub(crate) fn be_large() {
    if let Some(turn) = CURRENT.get().filter(|turn| turn.on == On::Own && !turn.has_processor) {
        CURRENT.set(Some(turn.after_the_line()));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Used {
    /// What its tasks do next takes long, and they need a processor for it.
    pub(crate) fn be_large(&self) {
        if let Some(turn) = CURRENT.get().filter(|turn| !turn.has_processor) {
            let used = LEVELS[0].as_nanos() as u64;
            self.0.fetch_add(used, Relaxed);
            CURRENT.set(Some(Turn { used: turn.used + used, ..turn }));
        }
    }
}

/// The task of a statement, in its turn.
pub(crate) fn in_turn<F: Future>(used: &Used, future: F) -> impl Future<Output = F::Output> + use<F> {
    in_turn_of(&LINE, used, On::Worker, future)
}

/// The planning of a statement, in a thread of its own.
pub(crate) fn planned_in_turn<F: Future>(planning: F) -> impl Future<Output = F::Output> + use<F> {
    in_turn_of(&PLANNERS, &Used::default(), On::Own, planning)
}

fn in_turn_of<F: Future>(
    line: &'static Line,
    used: &Used,
    on: On,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    InTurn { comer: Comer::to(line), used: used.clone(), on, future: Box::pin(future) }
}

struct InTurn<F> {
    comer: Comer,
    used: Used,
    on: On,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let used = self.used.0.load(Relaxed);
        let level = level(used);
        if !self.comer.may_go_on(level, Instant::now(), context.waker()) {
            return Poll::Pending;
        }
        let this = &mut *self;
        let turn = Turn::begin(this.comer.line(), used, level > 0, this.on);
        let _working = Working::begin(turn, &this.used);
        this.future.as_mut().poll(context)
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
        self.used.0.fetch_add(turn.ran().as_nanos() as u64, Relaxed);
        if turn.has_processor {
            turn.line.give_back();
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

    fn line(processors: usize) -> &'static Line {
        Box::leak(Box::new(Line::with(Some(processors))))
    }

    /// Works until it is told to stop, and gives way when its turn is over.
    async fn work(stopped: Arc<AtomicBool>, turns: Arc<AtomicU64>) {
        while !stopped.load(Relaxed) {
            thread::yield_now();
            if is_turn_over() {
                turns.fetch_add(1, Relaxed);
                give_way().await;
            }
        }
    }

    #[test]
    fn large_tasks_take_turns_and_small_ones_do_not_wait() {
        let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let (line, stopped) = (line(1), Arc::<AtomicBool>::default());
        let turns: Vec<_> = (0..8).map(|_| Arc::<AtomicU64>::default()).collect();
        let large = |turns: &Arc<AtomicU64>| {
            let work = work(Arc::clone(&stopped), Arc::clone(turns));
            runtime.spawn(in_turn_of(line, &used(Duration::from_secs(10)), On::Worker, work))
        };
        let tasks: Vec<_> = turns.iter().map(large).collect();
        // More small ones than there are turns in the meantime.
        for _ in 0..1000 {
            runtime.block_on(runtime.spawn(in_turn_of(line, &Used::default(), On::Worker, give_way()))).unwrap();
        }
        while turns.iter().any(|turns| turns.load(Relaxed) < 3) {
            thread::sleep(TURN);
        }
        stopped.store(true, Relaxed);
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        assert_eq!(line.state(), (Some(1), 0));
    }

    #[test]
    fn what_cannot_give_way_leaves_its_thread_and_waits_for_its_turn() {
        let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let (line, stopped, at_once) = (line(1), Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let large = |_| {
            let (stopped, at_once) = (Arc::clone(&stopped), Arc::clone(&at_once));
            runtime.spawn(in_turn_of(line, &used(Duration::from_secs(10)), On::Worker, async move {
                let (mut most, mut turns) = (0, 0);
                while !stopped.load(Relaxed) {
                    most = most.max(at_once.fetch_add(1, Relaxed) + 1);
                    turns += u64::from(is_turn_over());
                    at_once.fetch_sub(1, Relaxed);
                    step_aside();
                }
                (most, turns)
            }))
        };
        let tasks: Vec<_> = (0..12).map(large).collect();
        let timers = Builder::new_current_thread().enable_time().build().unwrap();
        let answers = (0..300).all(|_| {
            thread::sleep(COMES);
            let small = runtime.spawn(in_turn_of(line, &Used::default(), On::Worker, give_way()));
            timers.block_on(async { tokio::time::timeout(Duration::from_secs(20), small).await.is_ok() })
        });
        stopped.store(true, Relaxed);
        assert!(answers, "large tasks have all threads");
        let ended: Vec<_> = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        assert!(ended.iter().all(|(most, _)| *most <= 1), "{ended:?}");
        assert!(ended.iter().filter(|(_, turns)| *turns > 0).count() > 1, "{ended:?}");
        assert_eq!(line.state(), (Some(1), 0));
    }

    #[test]
    fn who_is_dropped_leaves_its_turn_to_the_next() {
        let (line, waker) = (line(1), Waker::noop());
        let (mut context, now) = (Context::from_waker(waker), Instant::now());
        let large = || Box::pin(in_turn_of(line, &used(Duration::from_secs(10)), On::Worker, std::future::ready(())));
        assert!(Comer::to(line).may_go_on(3, now, waker));
        let (mut called, mut next, mut last) = (large(), large(), large());
        for task in [&mut called, &mut next, &mut last] {
            assert!(task.as_mut().poll(&mut context).is_pending());
        }
        line.give_back();
        assert_eq!(line.state().1, 2, "the first was called");
        drop(called);
        assert_eq!(line.state().1, 1, "and it called the next one");
        assert!(last.as_mut().poll(&mut context).is_pending());
        assert!(next.as_mut().poll(&mut context).is_ready());
        assert_eq!(line.state().1, 0, "which called the last one when it was done");
        drop((next, last));
        assert_eq!(line.state(), (Some(1), 0));
    }

    #[test]
    fn who_plans_waits_in_its_own_thread_and_goes_on_to_the_end() {
        let (line, waiting) = (line(1), Arc::<AtomicU64>::default());
        assert!(Comer::to(line).may_go_on(1, Instant::now(), Waker::noop()));
        let planners: Vec<_> = (0..3)
            .map(|_| {
                let waiting = Arc::clone(&waiting);
                thread::spawn(move || {
                    let planning = async {
                        while time_of_thread() < 2 * LEVELS[0] {}
                        waiting.fetch_add(1, Relaxed);
                        step_aside();
                        // Nobody else has the processor until the poll is over.
                        let before = waiting.fetch_sub(1, Relaxed);
                        thread::sleep(2 * TURN);
                        step_aside();
                        assert_eq!(waiting.load(Relaxed), before - 1);
                    };
                    futures::executor::block_on(in_turn_of(line, &Used::default(), On::Own, planning));
                })
            })
            .collect();
        while waiting.load(Relaxed) < 3 || line.state().1 < 3 {
            thread::yield_now();
        }
        line.give_back();
        planners.into_iter().for_each(|planner| planner.join().unwrap());
        assert_eq!(line.state(), (Some(1), 0));
    }
}
