//! Policies that look at a few random frames; they draw as the tested ones do.

use super::Naive;
use pagecast_core::random::{Random, RandomSource};

struct Page {
    id: u64,
    /// Epochs of all uses and of all writes, each once, the youngest last.
    uses: Vec<u32>,
    writes: Vec<u32>,
}

impl Page {
    fn new(id: u64) -> Self {
        Self { id, uses: vec![], writes: vec![] }
    }

    fn track(&mut self, write: bool, epoch: u32) {
        for history in [Some(&mut self.uses), Some(&mut self.writes).filter(|_| write)].into_iter().flatten() {
            history.push(epoch);
            history.dedup();
        }
    }
}

/// The largest subfrequency, that of first order dampened.
fn page_value(history: &[u32], most: usize, epoch: u32) -> f32 {
    let subfrequency = |(i, &at): (usize, &u32)| {
        let frequency = ((i + 1) as f32 / ((epoch - at) as f32 + 1.0)).min(1.0);
        if i == 0 { 0.1 * frequency } else { frequency }
    };
    history.iter().rev().take(most).enumerate().map(subfrequency).fold(0.0, f32::max)
}

/// WATT with a write cost.
pub(crate) struct Watt {
    pages: Vec<Page>,
    frames: usize,
    epochs: usize,
    write_cost: f32,
    admitted: usize,
    epoch: u32,
    threshold: f32,
    random: RandomSource,
}

impl Watt {
    pub(crate) fn new(frames: usize, epochs: usize, write_cost: f32, seed: u64) -> Self {
        let random = RandomSource::new(seed);
        Self { pages: vec![], frames, epochs, write_cost, admitted: 0, epoch: 0, threshold: 0.0, random }
    }

    fn lowest_of(&self, random: &mut Random, samples: usize) -> (usize, f32) {
        let sample = |_| {
            let place = random.below(self.frames as u32) as usize;
            let Page { uses, writes, .. } = &self.pages[place];
            let value = page_value(uses, 8, self.epoch) + self.write_cost * page_value(writes, 4, self.epoch);
            (place, value)
        };
        (0..samples).map(sample).reduce(|low, other| if other.1 < low.1 { other } else { low }).unwrap()
    }

    fn evict(&mut self) -> usize {
        let mut random = self.random.fork();
        let (place, value) = self.lowest_of(&mut random, 8);
        if value <= self.threshold {
            return place;
        }
        let (place, value) = self.lowest_of(&mut random, 64);
        self.threshold = value;
        place
    }
}

impl Naive for Watt {
    fn request(&mut self, id: u64, write: bool) -> Option<u64> {
        let epoch = self.epoch;
        if let Some(page) = self.pages.iter_mut().find(|page| page.id == id) {
            page.track(write, epoch);
            return None;
        }
        let place = if self.pages.len() == self.frames { self.evict() } else { self.pages.len() };
        self.admitted += 1;
        if self.admitted.is_multiple_of((self.frames / self.epochs).max(1)) {
            self.epoch += 1;
        }
        let mut page = Page::new(id);
        page.track(write, self.epoch);
        if place == self.pages.len() {
            self.pages.push(page);
            return None;
        }
        Some(std::mem::replace(&mut self.pages[place], page).id)
    }
}
