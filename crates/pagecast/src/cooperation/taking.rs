//! The wait of a worker for a chunk, as a future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pagecast_core::cooperation::MemberId;

use super::{Cooperation, Loader, Taken};

/// A wait for a chunk. Dropped early it leaves nothing behind.
pub(crate) struct Taking<'a> {
    cooperation: &'a Cooperation,
    member: MemberId,
    loader: &'a (dyn Loader + Sync),
    ticket: Option<u64>,
}

impl<'a> Taking<'a> {
    pub(super) fn new(cooperation: &'a Cooperation, member: MemberId, loader: &'a (dyn Loader + Sync)) -> Self {
        Self { cooperation, member, loader, ticket: None }
    }

    /// Takes its waker along (U3). With the last one who goes for good the scan waits no more.
    fn go(&mut self, for_good: bool) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut state = self.cooperation.state.lock();
        let place = state.waiting.iter().position(|waiting| waiting.ticket == ticket);
        let waiting = place.map(|place| state.waiting.swap_remove(place));
        if for_good && state.waiting.iter().all(|waiting| waiting.member != self.member) {
            state.manager.stop_waiting(self.member);
        }
        // A waker may hold the last of a task, whose drop comes here again.
        drop(state);
        drop(waiting);
    }
}

impl Future for Taking<'_> {
    type Output = Option<Taken>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Its waker may still be there: a poll need not come of a wake.
        self.go(false);
        let Self { cooperation, member, loader, ticket } = &mut *self;
        let waker = context.waker().clone();
        cooperation.try_take(*member, *loader, |state| *ticket = Some(state.wait(*member, waker)))
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.go(true);
    }
}
