//! CFDC: clean pages first, and dirty pages by clusters of neighbours, so that writes come in runs.
//!
//! Source: Ou, Härder, Jin, "CFDC: A flash-aware buffer management algorithm for database systems"
//! (ADBIS 2010), sections 3 and 4. An LRU list of the part `working` of the frames is the working
//! region. What falls out of it goes to the priority region: clean pages to a list, dirty ones to
//! the cluster of their neighbours (`cluster`). Victims are clean pages, then those of the cluster
//! with the lowest priority: the sum of distances between successive entries, over their number
//! squared times its age.
//!
//! Deviations: 50 % and 64 pages a cluster, which the paper gives by workload. A cluster of one
//! page has distance 1. Only the 64 oldest clusters are compared. A page is dirty from its first
//! write until its owner wrote it. If the priority region gives none, the working region does.
//!
//! Suits devices on which scattered writes cost most. Cost: O(1) per hit and eviction, and 64
//! clusters compared for each that is chosen. 32 bytes per frame, and at most 104 for clusters.

use crate::policy::list::{List, Nodes, claim_oldest, first_taken};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Where a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Region {
    #[default]
    Working,
    Clean,
    /// In the cluster of this slot.
    Cluster(u32),
}

#[derive(Clone, Copy, Default, Debug)]
struct Mark {
    region: Region,
    dirty: bool,
}

/// Clusters that are compared when a victim is chosen.
const COMPARED: usize = 64;

/// Dirty pages that are neighbours on storage.
#[derive(Debug)]
struct Cluster {
    /// The number of their first page divided by the cluster's size.
    number: u64,
    pages: List,
    /// The page that entered last, and the sum of the distances between entries.
    last: u64,
    distance: u64,
    /// Victim clusters chosen before it was made.
    made_at: u64,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { number: 0, pages: List::new(), last: 0, distance: 0, made_at: 0 }
    }
}

/// Clean-first dirty-clustered.
///
/// Invariants: (I1) a frame is on the list of its region. (I2) A cluster is on `by_age` and in
/// `numbers` and has pages, or it is in `stock`; `victim` is on `by_age`.
#[derive(Debug)]
pub struct Cfdc {
    nodes: Nodes<Mark>,
    working: List,
    clean: List,
    clusters: Nodes<Cluster>,
    by_age: List,
    stock: List,
    numbers: HashMap<u64, u32, FixedState>,
    /// The cluster that is being emptied, and how many were chosen so far.
    victim: Option<u32>,
    chosen: u64,
    max_working: u32,
    /// What part of the frames that is.
    working_share: f64,
    cluster_pages: u64,
}

impl Cfdc {
    /// For a pool of `frames` frames of which the part `working` is the working region; clusters
    /// span `cluster` pages.
    pub fn new(frames: u32, working: f64, cluster: u32) -> Self {
        let mut clusters = Nodes::new(frames as usize);
        let mut stock = List::new();
        for slot in 0..frames {
            stock.push_back(&mut clusters, slot);
        }
        Self {
            nodes: Nodes::new(frames as usize),
            working: List::new(),
            clean: List::new(),
            clusters,
            by_age: List::new(),
            stock,
            numbers: HashMap::with_hasher(FixedState::default()),
            victim: None,
            chosen: 0,
            max_working: (f64::from(frames) * working) as u32,
            working_share: working,
            cluster_pages: u64::from(cluster.max(1)),
        }
    }

    /// Moves what falls out of the working region to the priority region.
    fn shrink_working(&mut self) {
        while self.working.len() > self.max_working
            && let Some(i) = self.working.pop_front(&mut self.nodes)
        {
            if self.nodes[i].data.dirty {
                self.enter_cluster(i);
            } else {
                self.nodes[i].data.region = Region::Clean;
                self.clean.push_back(&mut self.nodes, i);
            }
        }
    }

    fn enter_cluster(&mut self, i: u32) {
        let page = self.nodes[i].page.raw();
        let number = page / self.cluster_pages;
        let slot = match self.numbers.get(&number) {
            Some(&slot) => {
                let cluster = &mut self.clusters[slot].data;
                cluster.distance += page.abs_diff(cluster.last);
                cluster.last = page;
                slot
            }
            None => self.make_cluster(number, page),
        };
        self.nodes[i].data.region = Region::Cluster(slot);
        self.clusters[slot].data.pages.push_back(&mut self.nodes, i);
    }

    fn make_cluster(&mut self, number: u64, page: u64) -> u32 {
        let slot = self.stock.pop_front(&mut self.clusters).expect("a cluster for every frame is enough, (I2)");
        self.clusters[slot].data =
            Cluster { number, pages: List::new(), last: page, distance: 0, made_at: self.chosen };
        self.by_age.push_back(&mut self.clusters, slot);
        self.numbers.insert(number, slot);
        slot
    }

    fn drop_if_empty(&mut self, slot: u32) {
        let cluster = &self.clusters[slot].data;
        if cluster.pages.len() == 0 {
            self.numbers.remove(&cluster.number);
            self.by_age.remove(&mut self.clusters, slot);
            self.stock.push_back(&mut self.clusters, slot);
            self.victim = self.victim.filter(|&victim| victim != slot);
        }
    }

    fn priority(&self, slot: u32) -> f64 {
        let cluster = &self.clusters[slot].data;
        let pages = f64::from(cluster.pages.len());
        let age = (self.chosen - cluster.made_at) as f64 + 1.0;
        cluster.distance.max(1) as f64 / (pages * pages * age)
    }

    /// The cluster to take pages from.
    fn victim_cluster(&mut self) -> Option<u32> {
        if self.victim.is_none() {
            let oldest = self.by_age.iter(&self.clusters).take(COMPARED);
            self.victim = oldest.min_by(|&a, &b| self.priority(a).total_cmp(&self.priority(b)));
            self.chosen += u64::from(self.victim.is_some());
        }
        self.victim
    }

    /// Takes a dirty page: of the victim cluster, or of any other if all of its pages are refused.
    fn take_dirty(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let victim = self.victim_cluster()?;
        let others = self.by_age.iter(&self.clusters).filter(|&slot| slot != victim);
        let slots = core::iter::once(victim).chain(others);
        let members = slots.flat_map(|slot| self.clusters[slot].data.pages.iter(&self.nodes));
        let (victim, _) = first_taken(members.map(|i| self.nodes.proposal(i)), frames)?;
        self.remove(victim.frame().0);
        Some(victim)
    }

    fn remove(&mut self, i: u32) {
        match self.nodes[i].data.region {
            Region::Working => self.working.remove(&mut self.nodes, i),
            Region::Clean => self.clean.remove(&mut self.nodes, i),
            Region::Cluster(slot) => {
                self.clusters[slot].data.pages.remove(&mut self.nodes, i);
                self.drop_if_empty(slot);
            }
        }
    }

    fn enter_working(&mut self, i: u32, dirty: bool) {
        self.nodes[i].data = Mark { region: Region::Working, dirty };
        self.working.push_back(&mut self.nodes, i);
        self.shrink_working();
    }
}

impl SequentialPolicy for Cfdc {
    fn hit(&mut self, frame: FrameId, access: &Access) {
        self.remove(frame.0);
        let dirty = self.nodes[frame.0].data.dirty | access.write;
        self.enter_working(frame.0, dirty);
    }

    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        claim_oldest(&mut self.clean, &mut self.nodes, frames)
            .or_else(|| self.take_dirty(frames))
            .or_else(|| claim_oldest(&mut self.working, &mut self.nodes, frames))
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.enter_working(frame.0, access.write);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn cleaned(&mut self, frame: FrameId, _page: PageId) {
        let i = frame.0;
        self.nodes[i].data.dirty = false;
        if let Region::Cluster(_) = self.nodes[i].data.region {
            self.remove(i);
            self.nodes[i].data.region = Region::Clean;
            self.clean.push_back(&mut self.nodes, i);
        }
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.max_working = (f64::from(frames) * self.working_share) as u32;
        self.shrink_working();
    }

    fn check(&self) {
        let on = |list: &List, region: Region| {
            list.check(&self.nodes);
            assert!(list.iter(&self.nodes).all(|i| self.nodes[i].data.region == region), "(I1) in {region:?}");
        };
        on(&self.working, Region::Working);
        on(&self.clean, Region::Clean);
        self.by_age.check(&self.clusters);
        for slot in self.by_age.iter(&self.clusters) {
            let cluster = &self.clusters[slot].data;
            on(&cluster.pages, Region::Cluster(slot));
            assert!(cluster.pages.len() > 0 && self.numbers.get(&cluster.number) == Some(&slot), "(I2) at {slot}");
        }
        assert_eq!(self.numbers.len(), self.by_age.len() as usize, "(I2)");
        assert_eq!((self.by_age.len() + self.stock.len()) as usize, self.clusters.len(), "(I2)");
        assert!(self.victim.is_none_or(|slot| self.clusters[slot].data.pages.len() > 0), "(I2)");
    }
}
