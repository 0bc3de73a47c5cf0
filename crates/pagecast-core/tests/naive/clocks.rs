//! Clocks: the hand stands at the front of a vector, and what it passes goes to the back.

use super::{Naive, remove};

/// A clock with counts.
pub(crate) struct Clock {
    ring: Vec<(u64, u32)>,
    frames: usize,
    max: u32,
    init: u32,
}

impl Clock {
    pub(crate) fn new(frames: usize, max: u32, init: u32) -> Self {
        Self { ring: Vec::new(), frames, max, init }
    }
}

impl Naive for Clock {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some((_, count)) = self.ring.iter_mut().find(|(other, _)| *other == page) {
            *count = self.max.min(*count + 1);
            return None;
        }
        let mut victim = None;
        while self.ring.len() == self.frames {
            let (other, count) = self.ring.remove(0);
            match count {
                0 => victim = Some(other),
                _ => self.ring.push((other, count - 1)),
            }
        }
        self.ring.push((page, self.init));
        victim
    }
}

/// New, touched, hot: the hand spares hot pages only and takes them one step down.
pub(crate) struct SecondTouch {
    ring: Vec<(u64, u32)>,
    frames: usize,
}

impl SecondTouch {
    pub(crate) fn new(frames: usize) -> Self {
        Self { ring: Vec::new(), frames }
    }
}

impl Naive for SecondTouch {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some((_, touches)) = self.ring.iter_mut().find(|(other, _)| *other == page) {
            *touches = 2.min(*touches + 1);
            return None;
        }
        let mut victim = None;
        while self.ring.len() == self.frames {
            match self.ring.remove(0) {
                (other, 2) => self.ring.push((other, 1)),
                (other, _) => victim = Some(other),
            }
        }
        self.ring.push((page, 0));
        victim
    }
}

/// Figure 2 of the CAR paper, with whole numbers.
pub(crate) struct Car {
    t1: Vec<(u64, bool)>,
    t2: Vec<(u64, bool)>,
    b1: Vec<u64>,
    b2: Vec<u64>,
    p: usize,
    c: usize,
}

impl Car {
    pub(crate) fn new(frames: usize) -> Self {
        Self { t1: vec![], t2: vec![], b1: vec![], b2: vec![], p: 0, c: frames }
    }

    fn replace(&mut self) -> u64 {
        loop {
            if self.t1.len() >= self.p.max(1) {
                match self.t1.remove(0) {
                    (page, true) => self.t2.push((page, false)),
                    (page, false) => {
                        self.b1.push(page);
                        return page;
                    }
                }
            } else {
                match self.t2.remove(0) {
                    (page, true) => self.t2.push((page, false)),
                    (page, false) => {
                        self.b2.push(page);
                        return page;
                    }
                }
            }
        }
    }
}

impl Naive for Car {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if let Some((_, used)) = self.t1.iter_mut().chain(&mut self.t2).find(|(other, _)| *other == page) {
            *used = true;
            return None;
        }
        // Figure 2 asks for both before the replacement; a page that it puts on B1 or B2 is not the
        // one asked for.
        let (in_b1, in_b2) = (self.b1.contains(&page), self.b2.contains(&page));
        let mut victim = None;
        if self.t1.len() + self.t2.len() == self.c {
            victim = Some(self.replace());
            if !in_b1 && !in_b2 {
                if self.t1.len() + self.b1.len() == self.c {
                    self.b1.remove(0);
                } else if self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() == 2 * self.c {
                    self.b2.remove(0);
                }
            }
        }
        if in_b1 {
            self.p = self.c.min(self.p + (self.b2.len() / self.b1.len()).max(1));
            remove(&mut self.b1, page);
            self.t2.push((page, false));
        } else if in_b2 {
            self.p = self.p.saturating_sub((self.b1.len() / self.b2.len()).max(1));
            remove(&mut self.b2, page);
            self.t2.push((page, false));
        } else {
            self.t1.push((page, false));
        }
        victim
    }
}

#[derive(Clone, Copy)]
struct Entry {
    page: u64,
    resident: bool,
    hot: bool,
    on_test: bool,
    used: bool,
}

/// CLOCK-Pro with what the header of ours says: HANDhot stands at the front of the circle and pages
/// enter at the back.
pub(crate) struct ClockPro {
    circle: Vec<Entry>,
    /// The page at which HANDtest stands; the front of the circle if none.
    test_hand: Option<u64>,
    cold_target: usize,
    least: usize,
    max_ghosts: usize,
    frames: usize,
}

impl ClockPro {
    pub(crate) fn new(frames: usize, cold: f64, ghosts: f64) -> Self {
        let part = |share: f64| ((frames as f64 * share) as usize).max(1);
        let least = part(cold);
        Self { circle: vec![], test_hand: None, cold_target: least, least, max_ghosts: part(ghosts), frames }
    }

    fn place(&self, page: u64) -> Option<usize> {
        self.circle.iter().position(|entry| entry.page == page)
    }

    fn count(&self, what: impl Fn(&Entry) -> bool) -> usize {
        self.circle.iter().filter(|entry| what(entry)).count()
    }

    /// Takes an entry off the circle; HANDtest does not stand at what is gone.
    fn take(&mut self, place: usize) -> Entry {
        let entry = self.circle.remove(place);
        if self.test_hand == Some(entry.page) {
            self.test_hand = self.circle.get(place).map(|next| next.page);
        }
        entry
    }

    fn grow_cold(&mut self) {
        self.cold_target = (self.cold_target + 1).min(self.frames.saturating_sub(self.least).max(self.least));
    }

    /// Ends the test of the entry at `place`; a page that is not resident leaves the circle.
    fn end_test(&mut self, place: usize) {
        self.cold_target = (self.cold_target - 1).max(self.least);
        self.circle[place].on_test = false;
        if !self.circle[place].resident {
            self.take(place);
        }
    }

    fn run_hot(&mut self) {
        while self.count(|entry| entry.hot) > self.frames - self.cold_target {
            let page = self.circle[0].page;
            if self.circle[0].on_test {
                self.end_test(0);
            }
            if self.circle[0].page == page {
                let mut entry = self.take(0);
                if entry.hot {
                    entry.hot = entry.used;
                    entry.used = false;
                }
                self.circle.push(entry);
            }
        }
    }

    fn run_test(&mut self) {
        while self.count(|entry| !entry.resident) > self.max_ghosts {
            let place = self.test_hand.and_then(|page| self.place(page)).unwrap_or(0);
            self.test_hand = self.circle.get(place + 1).map(|next| next.page);
            if self.circle[place].on_test {
                self.end_test(place);
            }
        }
    }

    fn run_cold(&mut self) -> Option<u64> {
        loop {
            let place = self.circle.iter().position(|entry| entry.resident && !entry.hot)?;
            let mut entry = self.take(place);
            if !entry.used {
                if entry.on_test {
                    self.circle.insert(place, Entry { resident: false, ..entry });
                }
                return Some(entry.page);
            }
            entry.used = false;
            entry.hot = entry.on_test;
            entry.on_test = !entry.on_test;
            self.circle.push(entry);
            if entry.hot {
                self.grow_cold();
                self.run_hot();
            }
        }
    }

    /// With no cold page at hand, the resident page at the front.
    fn take_any(&mut self) -> u64 {
        let place = self.circle.iter().position(|entry| entry.resident).unwrap();
        self.take(place).page
    }
}

impl Naive for ClockPro {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        let place = self.place(page);
        if let Some(place) = place.filter(|&place| self.circle[place].resident) {
            self.circle[place].used = true;
            return None;
        }
        let mut victim = None;
        if self.count(|entry| entry.resident) == self.frames {
            self.run_test();
            victim = Some(self.run_cold().unwrap_or_else(|| self.take_any()));
        }
        let was_ghost = self.place(page).map(|place| self.take(place)).is_some();
        if was_ghost {
            self.grow_cold();
        }
        let hot = was_ghost || self.count(|entry| entry.hot) < self.frames - self.cold_target;
        self.circle.push(Entry { page, resident: true, hot, on_test: !hot, used: false });
        self.run_hot();
        self.run_test();
        victim
    }
}
