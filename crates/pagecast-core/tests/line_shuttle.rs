//! Tasks of statements that take turns on the processors, under many schedules. Run with
//! `make explore`.
//!
//! What is explored is the line of `pagecast-sql`, whose crate is too large for an explorer's
//! build. A task runs, gives its processor back and comes again, or ends while it is in line. The
//! explorer finds who waits for ever by itself; each run checks that no more run than there are
//! processors, and that all of them are free in the end.
#![cfg(pagecast_shuttle)]
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "what looks at the line without being in it")]
#[path = "../../pagecast-sql/src/line.rs"]
mod line;

/// The explorer's locks in the form that the line has them.
mod sync {
    pub(crate) use shuttle::sync::atomic;

    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

use std::future::poll_fn;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Instant;

use line::{Comer, Line};
use shuttle::future::{block_on, spawn, yield_now};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const PROCESSORS: usize = 2;
const TURNS: usize = 3;
/// In line, one of these ends.
const PATIENCE: usize = 1;

/// Waits for its turn, which lasts a pause, and gives its processor back.
async fn turn(comer: &mut Comer, level: usize, running: &AtomicUsize) {
    poll_fn(|context| match comer.may_go_on(level, Instant::now(), context.waker()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
    assert!(running.fetch_add(1, SeqCst) < PROCESSORS, "more run than there are processors");
    yield_now().await;
    running.fetch_sub(1, SeqCst);
    comer.line().give_back();
}

/// Comes into the line, and ends there; or gives back what it was given at once.
async fn ends_in_line(line: &'static Line, tells_nobody: bool) {
    let mut comer = Comer::to(line);
    let mut polls = 0;
    let has_one = poll_fn(|context| {
        if comer.may_go_on(1, Instant::now(), context.waker()) {
            return Poll::Ready(true);
        }
        polls += 1;
        if polls > PATIENCE {
            return Poll::Ready(false);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    });
    match has_one.await {
        true => line.give_back(),
        false if tells_nobody => forget(comer),
        false => drop(comer),
    }
}

/// Three that take turns on two processors, and two that end in line.
fn take_turns(tells_nobody: bool) {
    let line: &'static Line = Box::leak(Box::new(Line::with(Some(PROCESSORS))));
    let running = Arc::new(AtomicUsize::new(0));
    let stay = (1..4).map(|level| {
        let running = Arc::clone(&running);
        spawn(async move {
            let mut comer = Comer::to(line);
            for _ in 0..TURNS {
                turn(&mut comer, level, &running).await;
            }
        })
    });
    let mut tasks: Vec<_> = stay.collect();
    tasks.extend((0..2).map(|_| spawn(ends_in_line(line, tells_nobody))));
    for task in tasks {
        block_on(task).unwrap();
    }
    assert_eq!(line.state(), (Some(PROCESSORS), 0), "a processor is lost, or somebody stands in line");
}

fn explore(tells_nobody: bool) -> std::thread::Result<()> {
    catch_unwind(AssertUnwindSafe(|| {
        shuttle::check_pct(move || take_turns(tells_nobody), 1000, 3);
        shuttle::check_random(move || take_turns(tells_nobody), 1000);
    }))
}

#[test]
fn no_processor_is_lost_and_nobody_waits_for_ever() {
    explore(false).unwrap();
}

#[test]
fn who_ends_in_line_and_tells_nobody_is_noticed() {
    assert!(explore(true).is_err());
}
