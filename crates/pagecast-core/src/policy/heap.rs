//! Frames in a binary heap by a key that changes: what policies use whose order is no list.
//!
//! The frame with the smallest key is on top; of equal keys the one that was keyed first. A change
//! or a removal costs O(log frames), and so does every refused proposal. 4 bytes per frame and
//! place, and the key with its serial number.

use crate::policy::{Claimed, Frames, Metadata};
use crate::{FrameId, PageId};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// In `place`: the frame is not in the heap.
const OUT: u32 = u32::MAX;

/// What is kept by frame.
#[derive(Clone, Copy, Debug)]
struct Keyed<K> {
    key: K,
    /// Rises with every change of a key, which makes the order total.
    serial: u64,
    page: PageId,
    place: u32,
}

/// Keyed frames.
///
/// Invariants: (I1) `heap[keyed[f].place] == f` for every frame in the heap. (I2) No frame is
/// before its parent.
#[derive(Debug)]
pub(crate) struct KeyedFrames<K> {
    heap: Vec<u32>,
    keyed: Vec<Keyed<K>>,
    serial: u64,
}

impl<K: PartialOrd + Copy + Default> KeyedFrames<K> {
    pub(crate) fn new(frames: u32) -> Self {
        let blank = Keyed { key: K::default(), serial: 0, page: PageId::from_raw(0), place: OUT };
        Self { heap: Vec::with_capacity(frames as usize), keyed: alloc::vec![blank; frames as usize], serial: 0 }
    }

    /// Where the frames' keys are.
    pub(crate) fn metadata(&self) -> Metadata {
        Metadata::of(&self.keyed)
    }

    pub(crate) fn contains(&self, frame: FrameId) -> bool {
        self.keyed[frame.index()].place != OUT
    }

    pub(crate) fn key(&self, frame: FrameId) -> K {
        self.keyed[frame.index()].key
    }

    /// Enters `frame`, which is out, with the page that it holds.
    pub(crate) fn insert(&mut self, frame: FrameId, page: PageId, key: K) {
        debug_assert_eq!(self.keyed[frame.index()].place, OUT);
        let place = self.heap.len();
        self.serial += 1;
        self.keyed[frame.index()] = Keyed { key, serial: self.serial, page, place: place as u32 };
        self.heap.push(frame.0);
        self.rise(place);
    }

    /// Gives `frame`, which is in, another key.
    #[inline]
    pub(crate) fn change(&mut self, frame: FrameId, key: K) {
        self.serial += 1;
        let keyed = &mut self.keyed[frame.index()];
        keyed.key = key;
        keyed.serial = self.serial;
        let place = keyed.place as usize;
        self.settle(place);
    }

    pub(crate) fn remove(&mut self, frame: FrameId) {
        let place = self.keyed[frame.index()].place as usize;
        self.heap.swap_remove(place);
        self.keyed[frame.index()].place = OUT;
        if let Some(&moved) = self.heap.get(place) {
            self.keyed[moved as usize].place = place as u32;
            self.settle(place);
        }
    }

    /// Proposes frames by rising key and removes the one that is taken. The refused are set aside
    /// meanwhile, and keep keys and serial numbers.
    pub(crate) fn claim(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let mut refused = Vec::new();
        let mut taken = None;
        while let Some(&top) = self.heap.first() {
            let frame = FrameId(top);
            let page = self.keyed[frame.index()].page;
            let answer = frames.claim(frame, page);
            self.remove(frame);
            if answer.is_ok() {
                taken = answer.ok();
                break;
            }
            refused.push(frame);
        }
        for frame in refused {
            let place = self.heap.len();
            self.keyed[frame.index()].place = place as u32;
            self.heap.push(frame.0);
            self.rise(place);
        }
        taken
    }

    fn before(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.keyed[a as usize], &self.keyed[b as usize]);
        match a.key.partial_cmp(&b.key) {
            Some(Ordering::Less) => true,
            Some(Ordering::Greater) => false,
            _ => a.serial < b.serial,
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.keyed[self.heap[a] as usize].place = a as u32;
        self.keyed[self.heap[b] as usize].place = b as u32;
    }

    /// Moves the frame at `place` to where it belongs.
    fn settle(&mut self, place: usize) {
        if self.rise(place) == place {
            self.sink(place);
        }
    }

    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.before(self.heap[place], self.heap[parent]) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let Some(&first) = self.heap.get(left) else { return };
            let right = self.heap.get(left + 1).filter(|&&right| self.before(right, first));
            let child = if right.is_some() { left + 1 } else { left };
            if !self.before(self.heap[child], self.heap[place]) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }

    /// Replaces every key; `f` must not change the order of any two.
    pub(crate) fn rescale(&mut self, f: impl Fn(K) -> K) {
        self.keyed.iter_mut().for_each(|keyed| keyed.key = f(keyed.key));
    }

    pub(crate) fn check(&self) {
        for (place, &frame) in self.heap.iter().enumerate() {
            assert_eq!(self.keyed[frame as usize].place as usize, place, "(I1) at {place}");
            assert!(place == 0 || !self.before(frame, self.heap[(place - 1) / 2]), "(I2) at {place}");
        }
        assert_eq!(self.keyed.iter().filter(|keyed| keyed.place != OUT).count(), self.heap.len());
    }
}
