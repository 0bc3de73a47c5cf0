//! What the policy hears of the uses of pages: by a word of the frame, by a queue, or at once.

use std::sync::atomic::Ordering::Relaxed;

use pagecast_core::policy::{Access, Due, HitNeed};
use pagecast_core::{FrameId, Tick};

use super::Cache;
use super::client::Client;
use crate::stats::Counter;
use crate::token::{Held, Owned};

impl Cache {
    /// A page that was brought ahead is used for the first time, or the policy is told of a further
    /// use.
    #[inline]
    pub(super) fn first_use_or_touch(
        &self,
        client: &mut impl Client,
        held: &Held,
        access: impl FnOnce(Option<Tick>) -> Access,
    ) {
        let header = &self.headers[held.index() as usize];
        if !header.is_flagged() || !self.unflag(header, Counter::PrefetchUseful) {
            self.touch(client, held.index(), access);
        }
    }

    /// Tells the policy of a use of a page that was had without its frame, if it has one.
    pub(crate) fn touch_page(&self, client: &mut impl Client, access: Access) {
        let frame = self.table.find(&self.headers, access.page);
        let Some(held) = frame.and_then(|frame| self.headers[frame as usize].pin(frame)) else { return };
        // Rule 2.
        if self.headers[held.index() as usize].is_tagged(access.page) {
            self.touch(client, held.index(), |_| access);
        }
        self.unpin(held);
    }

    /// Tells the policy that the page in a frame was used, now or when the client's queue is due.
    #[inline]
    pub(crate) fn touch(&self, client: &mut impl Client, frame: u32, access: impl FnOnce(Option<Tick>) -> Access) {
        let need = self.hit_need;
        let word = &self.headers[frame as usize].word;
        if need.is_met_by(word) {
            return;
        }
        let access = client.hit_at(self, access);
        match need {
            // Relaxed: a time publishes no other memory.
            HitNeed::Time => word.store(access.at, Relaxed),
            // Relaxed: the policy looks again, and publishes nothing by it.
            HitNeed::LaterThanWord if access.scan.is_none() && access.at <= word.load(Relaxed) => {}
            HitNeed::Queue { length } => {
                client.with_queue(self, |queue| match queue.note(length, FrameId(frame), &access) {
                    Due::NotYet => {}
                    due => self.policy.commit(self, queue, due == Due::Now),
                });
            }
            _ => self.policy.hit(self, FrameId(frame), &access),
        }
    }

    /// The time that a hit at the exact time `at` has for the policy.
    #[inline]
    pub(super) fn hit_time(&self, at: Tick) -> Tick {
        self.clock.as_ref().map_or(at, |clock| clock.at(at))
    }

    /// Tells the policy of all that the client did, who is about to wait or to go.
    pub(crate) fn settle(&self, client: &mut impl Client) {
        client.pause();
        if let HitNeed::Queue { .. } = self.hit_need {
            client.with_queue(self, |queue| self.policy.commit(self, queue, true));
        }
    }

    /// Before publication, so that no hit is told to the policy before its page was.
    pub(super) fn admit(&self, owned: &Owned, access: &Access) {
        self.headers[owned.index() as usize].word.store(0, Relaxed);
        self.policy.admit(self, FrameId(owned.index()), access);
        self.clock.iter().for_each(|clock| clock.admitted(access.at));
    }
}
