//! The manager of cooperation in a closed loop: its scans, and the loads that are under way for it.

use super::ClosedError;
use super::delivery::{Delivery, Unordered};
use super::words::{Words, words};
use super::workload::Workload;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::cooperation::{Cooperation, Load, MemberId};
use pagecast_core::{FrameId, PageId};

/// A load that is under way.
pub(super) struct UnderWay {
    pub(super) load: Load,
    /// Pages that have not come.
    pub(super) missing: u32,
    /// Those that have, which stay until the load ends.
    pub(super) held: Vec<FrameId>,
    /// Its number among those that pictures show.
    pub(super) recorded: Option<usize>,
}

/// The manager, and what its names stand for here.
pub(super) struct Manager {
    pub(super) cooperation: Cooperation<Words>,
    scans: HashMap<MemberId, usize, FixedState>,
    /// By number; each ends once.
    pub(super) loads: Vec<Option<UnderWay>>,
}

impl Manager {
    pub(super) fn new(
        delivery: &Delivery,
        unordered: &Unordered,
        workload: &Workload,
        cores: u32,
    ) -> Result<Self, ClosedError> {
        let config = delivery.cooperation(workload)?;
        let mut cooperation =
            Cooperation::format(words(config.words()), config).expect("the memory was made for this configuration");
        cooperation.set_loading(unordered.loading);
        cooperation.set_enough_at_work(unordered.enough.saturating_mul(cores));
        Ok(Self { cooperation, scans: HashMap::with_hasher(FixedState::default()), loads: Vec::new() })
    }

    pub(super) fn begins(&mut self, member: MemberId, scan: usize) {
        self.scans.insert(member, scan);
    }

    pub(super) fn finish(&mut self, member: MemberId) {
        self.cooperation.finish(member);
        self.scans.remove(&member);
    }

    pub(super) fn scan(&self, member: MemberId) -> Option<usize> {
        self.scans.get(&member).copied()
    }

    /// The scans some of whose waiting workers are to ask again.
    pub(super) fn woken(&mut self) -> Vec<usize> {
        let mut woken = Vec::new();
        self.cooperation.wake(|member| woken.extend(self.scans.get(&member)));
        woken
    }

    /// The pages of a load.
    pub(super) fn pages(&self, load: &Load) -> Vec<PageId> {
        let mut pages = Vec::new();
        self.cooperation.pages(load, |page| pages.push(page));
        pages
    }
}
