//! What may end a statement before it is done.

use std::future::{Future, pending};

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::problem::Problem;

/// How far the server is on its way down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Closing {
    No,
    /// Statements that run may end.
    Soon,
    Now,
    /// Only this connection is, because another one ended it.
    Alone,
}

/// What ends the statement that runs.
pub(super) struct Stop {
    /// Changes when another connection asks for it.
    pub(super) cancel: watch::Receiver<u64>,
    /// Whether the client has gone.
    pub(super) gone: watch::Receiver<bool>,
    pub(super) closing: watch::Receiver<Closing>,
    pub(super) deadline: Option<Instant>,
}

impl Stop {
    /// What `work` gives, unless something ends it before.
    pub(super) async fn of<T, P: Into<Problem>>(
        &mut self,
        work: impl Future<Output = Result<T, P>>,
    ) -> Result<T, Problem> {
        let Self { cancel, gone, closing, deadline } = self;
        let late = async {
            match *deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = happens(gone, |gone| *gone) => Err(left()),
            () = happens(closing, |closing| *closing >= Closing::Now) => Err(shutdown(*closing.borrow())),
            () = changes(cancel) => Err(Problem::error("57014", "canceling statement due to user request")),
            () = late => Err(Problem::error("57014", "canceling statement due to statement timeout")),
            done = work => done.map_err(Into::into),
        }
    }
}

/// Waits until a value is as it is waited for. Nobody says any more what it is: it stays.
pub(super) async fn happens<T>(value: &mut watch::Receiver<T>, wanted: impl Fn(&T) -> bool) {
    if value.wait_for(|now| wanted(now)).await.is_err() {
        pending::<()>().await;
    }
}

async fn changes(value: &mut watch::Receiver<u64>) {
    if value.changed().await.is_err() {
        pending::<()>().await;
    }
}

/// Nobody hears of this one.
pub(super) fn left() -> Problem {
    Problem::fatal("08006", "the client has gone")
}

pub(super) fn shutdown(closing: Closing) -> Problem {
    let why = match closing {
        Closing::Alone => "another connection ended this one (pg_terminate_backend)",
        _ => "the server is shut down",
    };
    Problem::fatal("57P01", format!("terminating connection: {why}"))
}

/// What ends one connection: the end of the server, or another connection.
pub(super) async fn of_both(
    mut server: watch::Receiver<Closing>,
    mut ended: watch::Receiver<bool>,
    both: watch::Sender<Closing>,
) {
    loop {
        let closing = *server.borrow_and_update();
        if both.send(closing).is_err() {
            return;
        }
        tokio::select! {
            () = happens(&mut ended, |ended| *ended) => {
                both.send_replace(Closing::Alone);
                return;
            }
            changed = server.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}
