//! 2Q, ARC and LIRS.

use super::{Naive, remove};

/// 2Q with A1in a quarter and A1out half of the frames.
pub(crate) struct TwoQueue {
    incoming: Vec<u64>,
    left: Vec<u64>,
    main: Vec<u64>,
    frames: usize,
}

impl TwoQueue {
    pub(crate) fn new(frames: usize) -> Self {
        Self { incoming: Vec::new(), left: Vec::new(), main: Vec::new(), frames }
    }
}

impl Naive for TwoQueue {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        if remove(&mut self.main, page) {
            self.main.push(page);
            return None;
        }
        if self.incoming.contains(&page) {
            return None;
        }
        let (max_in, max_out) = ((self.frames / 4).max(1), (self.frames / 2).max(1));
        let mut victim = None;
        if self.incoming.len() + self.main.len() == self.frames {
            if self.incoming.len() > max_in || self.main.is_empty() {
                let old = self.incoming.remove(0);
                self.left.push(old);
                victim = Some(old);
            } else {
                victim = Some(self.main.remove(0));
            }
        }
        if remove(&mut self.left, page) {
            self.main.push(page);
        } else {
            self.incoming.push(page);
        }
        while self.left.len() > max_out {
            self.left.remove(0);
        }
        victim
    }
}

/// Figure 4 of the ARC paper, case by case.
pub(crate) struct Arc {
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
    p: f64,
    c: usize,
}

impl Arc {
    pub(crate) fn new(frames: usize) -> Self {
        Self { t1: vec![], t2: vec![], b1: vec![], b2: vec![], p: 0.0, c: frames }
    }

    fn replace(&mut self, in_b2: bool) -> u64 {
        let len = self.t1.len() as f64;
        let from_t1 = !self.t1.is_empty() && (len > self.p || (in_b2 && len == self.p));
        if from_t1 || self.t2.is_empty() {
            self.b1.push(self.t1.remove(0));
            *self.b1.last().unwrap()
        } else {
            self.b2.push(self.t2.remove(0));
            *self.b2.last().unwrap()
        }
    }

    /// Case IV.
    fn miss(&mut self) -> Option<u64> {
        if self.t1.len() + self.b1.len() == self.c {
            if self.t1.len() < self.c {
                self.b1.remove(0);
                return (self.t1.len() + self.t2.len() == self.c).then(|| self.replace(false));
            }
            return Some(self.t1.remove(0));
        }
        let total = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
        if total >= self.c {
            if total == 2 * self.c {
                self.b2.remove(0);
            }
            return (self.t1.len() + self.t2.len() == self.c).then(|| self.replace(false));
        }
        None
    }
}

impl Naive for Arc {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        let mut victim = None;
        if remove(&mut self.t1, page) || remove(&mut self.t2, page) {
            self.t2.push(page);
        } else if self.b1.contains(&page) {
            self.p = (self.p + (self.b2.len() as f64 / self.b1.len() as f64).max(1.0)).min(self.c as f64);
            victim = Some(self.replace(false));
            remove(&mut self.b1, page);
            self.t2.push(page);
        } else if self.b2.contains(&page) {
            self.p = (self.p - (self.b1.len() as f64 / self.b2.len() as f64).max(1.0)).max(0.0);
            victim = Some(self.replace(true));
            remove(&mut self.b2, page);
            self.t2.push(page);
        } else {
            victim = self.miss();
            self.t1.push(page);
        }
        victim
    }
}

/// LIRS with one hundredth, at least one, of the frames for HIR pages, and a stack without bound.
pub(crate) struct Lirs {
    stack: Vec<u64>,
    queue: Vec<u64>,
    lir: Vec<u64>,
    frames: usize,
}

impl Lirs {
    pub(crate) fn new(frames: usize) -> Self {
        Self { stack: vec![], queue: vec![], lir: vec![], frames }
    }

    fn prune(&mut self) {
        while self.stack.first().is_some_and(|oldest| !self.lir.contains(oldest)) {
            self.stack.remove(0);
        }
    }

    fn max_lirs(&self) -> usize {
        (self.frames - (self.frames / 100).max(1)).max(1)
    }

    /// Makes the page on top of the stack LIR, and the oldest LIR page HIR if that is one too many.
    fn promote(&mut self, page: u64) {
        self.lir.push(page);
        if self.lir.len() > self.max_lirs() {
            let oldest = self.stack.remove(0);
            remove(&mut self.lir, oldest);
            self.queue.push(oldest);
        }
        self.prune();
    }
}

impl Naive for Lirs {
    fn request(&mut self, page: u64, _write: bool) -> Option<u64> {
        let (lir, hir) = (self.lir.contains(&page), self.queue.contains(&page));
        let mut victim = None;
        if !lir && !hir && self.lir.len() + self.queue.len() == self.frames {
            victim = Some(if self.queue.is_empty() {
                // One frame: it is LIR.
                let oldest = self.stack.remove(0);
                remove(&mut self.lir, oldest);
                self.prune();
                oldest
            } else {
                self.queue.remove(0)
            });
        }
        let on_stack = remove(&mut self.stack, page);
        self.stack.push(page);
        if lir {
            self.prune();
        } else if on_stack || (!hir && self.lir.len() < self.max_lirs()) {
            remove(&mut self.queue, page);
            self.promote(page);
        } else {
            remove(&mut self.queue, page);
            self.queue.push(page);
        }
        victim
    }
}
