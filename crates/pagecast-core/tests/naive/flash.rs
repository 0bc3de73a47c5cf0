//! Policies that spare dirty pages.

use super::Naive;

/// Half of the frames are the clean-first region.
pub(crate) struct Cflru {
    order: Vec<(u64, bool)>,
    frames: usize,
}

impl Cflru {
    pub(crate) fn new(frames: usize) -> Self {
        Self { order: Vec::new(), frames }
    }
}

impl Naive for Cflru {
    fn request(&mut self, page: u64, write: bool) -> Option<u64> {
        if let Some(place) = self.order.iter().position(|&(other, _)| other == page) {
            let (_, dirty) = self.order.remove(place);
            self.order.push((page, dirty | write));
            return None;
        }
        let victim = (self.order.len() == self.frames).then(|| {
            let region = &self.order[..self.frames / 2];
            let place = region.iter().position(|&(_, dirty)| !dirty).unwrap_or(0);
            self.order.remove(place).0
        });
        self.order.push((page, write));
        victim
    }
}

/// A page of [`AdLru`] or [`CcfLru`].
#[derive(Clone, Copy)]
struct Aged {
    page: u64,
    dirty: bool,
    hot: bool,
    used: bool,
}

/// The page as it comes in, or as it is after its hit, taken off the list.
fn taken(list: &mut Vec<Aged>, page: u64, write: bool) -> (Aged, bool) {
    match list.iter().position(|aged| aged.page == page) {
        Some(place) => {
            let before = list.remove(place);
            (Aged { dirty: before.dirty | write, hot: true, used: true, ..before }, true)
        }
        None => (Aged { page, dirty: write, hot: false, used: true }, false),
    }
}

/// One list of all pages by use; a tenth of the frames stays for cold ones.
pub(crate) struct AdLru {
    order: Vec<Aged>,
    frames: usize,
}

impl AdLru {
    pub(crate) fn new(frames: usize) -> Self {
        Self { order: Vec::new(), frames }
    }

    fn evict(&mut self) -> u64 {
        let cold = self.order.iter().filter(|aged| !aged.hot).count();
        // Of one kind at least there are pages.
        let hot = cold <= self.frames / 10 && cold < self.order.len();
        if let Some(place) = self.order.iter().position(|aged| aged.hot == hot && !aged.dirty) {
            return self.order.remove(place).page;
        }
        loop {
            let oldest = self.order.iter().position(|aged| aged.hot == hot).unwrap();
            let mut aged = self.order.remove(oldest);
            if !std::mem::take(&mut aged.used) {
                return aged.page;
            }
            self.order.push(aged);
        }
    }
}

impl Naive for AdLru {
    fn request(&mut self, page: u64, write: bool) -> Option<u64> {
        let (aged, is_hit) = taken(&mut self.order, page, write);
        let victim = (!is_hit && self.order.len() == self.frames).then(|| self.evict());
        self.order.push(aged);
        victim
    }
}

/// One list of all pages by use, or by when they became cold.
pub(crate) struct CcfLru {
    order: Vec<Aged>,
    frames: usize,
}

impl CcfLru {
    pub(crate) fn new(frames: usize) -> Self {
        Self { order: Vec::new(), frames }
    }

    fn evict(&mut self) -> u64 {
        loop {
            if let Some(place) = self.order.iter().position(|aged| !aged.hot && !aged.dirty) {
                return self.order.remove(place).page;
            }
            let mut oldest = self.order.remove(0);
            if !std::mem::take(&mut oldest.hot) {
                return oldest.page;
            }
            self.order.push(oldest);
        }
    }
}

impl Naive for CcfLru {
    fn request(&mut self, page: u64, write: bool) -> Option<u64> {
        let (aged, is_hit) = taken(&mut self.order, page, write);
        let victim = (!is_hit && self.order.len() == self.frames).then(|| self.evict());
        self.order.push(aged);
        victim
    }
}

/// Dirty pages of the same eight neighbours, in the order in which they came.
struct Cluster {
    number: u64,
    pages: Vec<u64>,
    last: u64,
    distance: u64,
    made_at: u64,
}

/// CFDC: half of the frames are the working region, a list of pages with their dirt.
pub(crate) struct Cfdc {
    working: Vec<(u64, bool)>,
    clean: Vec<u64>,
    /// By age.
    clusters: Vec<Cluster>,
    /// The number of the cluster that is being emptied, and how many were chosen.
    chosen: Option<u64>,
    choices: u64,
    frames: usize,
}

impl Cfdc {
    pub(crate) fn new(frames: usize) -> Self {
        Self { working: vec![], clean: vec![], clusters: vec![], chosen: None, choices: 0, frames }
    }

    /// Takes the page out of wherever it is; whether it is dirty, if it is resident.
    fn take(&mut self, page: u64) -> Option<bool> {
        if let Some(place) = self.working.iter().position(|&(other, _)| other == page) {
            return Some(self.working.remove(place).1);
        }
        if super::remove(&mut self.clean, page) {
            return Some(false);
        }
        let found = self.clusters.iter_mut().any(|cluster| super::remove(&mut cluster.pages, page));
        self.clusters.retain(|cluster| !cluster.pages.is_empty());
        found.then_some(true)
    }

    fn spill(&mut self) {
        let (page, dirty) = self.working.remove(0);
        let number = page / 8;
        if !dirty {
            self.clean.push(page);
        } else if let Some(cluster) = self.clusters.iter_mut().find(|cluster| cluster.number == number) {
            cluster.distance += page.abs_diff(cluster.last);
            cluster.last = page;
            cluster.pages.push(page);
        } else {
            let cluster = Cluster { number, pages: vec![page], last: page, distance: 0, made_at: self.choices };
            // A cluster that was emptied and is made anew is not the one that was chosen.
            self.chosen = self.chosen.filter(|&chosen| chosen != number);
            self.clusters.push(cluster);
        }
    }

    fn evict(&mut self) -> u64 {
        if !self.clean.is_empty() {
            return self.clean.remove(0);
        }
        if self.clusters.is_empty() {
            return self.working.remove(0).0;
        }
        let chosen = self.clusters.iter().position(|cluster| Some(cluster.number) == self.chosen);
        let place = chosen.unwrap_or_else(|| {
            let priority = |cluster: &Cluster| {
                let age = (self.choices - cluster.made_at) as f64 + 1.0;
                cluster.distance.max(1) as f64 / (cluster.pages.len().pow(2) as f64 * age)
            };
            let priorities: Vec<f64> = self.clusters.iter().map(priority).collect();
            let lowest = priorities.iter().copied().fold(f64::INFINITY, f64::min);
            self.choices += 1;
            priorities.iter().position(|&priority| priority == lowest).unwrap()
        });
        self.chosen = Some(self.clusters[place].number);
        let page = self.clusters[place].pages[0];
        self.take(page);
        page
    }
}

impl Naive for Cfdc {
    fn request(&mut self, page: u64, write: bool) -> Option<u64> {
        let resident = self.take(page);
        let held: usize = self.clusters.iter().map(|cluster| cluster.pages.len()).sum();
        let is_full = self.working.len() + self.clean.len() + held == self.frames;
        let victim = (resident.is_none() && is_full).then(|| self.evict());
        self.working.push((page, write || resident == Some(true)));
        while self.working.len() > self.frames / 2 {
            self.spill();
        }
        victim
    }
}
