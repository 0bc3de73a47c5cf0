//! How many frames are slabs: one comes or goes as a miss comes by, and a resize takes several.
//!
//! Slabs come in the order of their numbers, round all sets, and go in the opposite order. With a
//! new slab the mini-pages of one other divide; when it goes they come together again, and the
//! coldest leave.

use std::sync::atomic::Ordering::Relaxed;

use super::mini_page::{Mini, NEVER, minis};
use super::slab::{Parts, Slab};
use super::{Cache, LEAST_PAGES, NIL, TupleBuffer, among, hash};
use crate::sync::atomic::Ordering;
use crate::token::Owned;

impl TupleBuffer {
    /// The part of the frames that are to be slabs.
    pub(super) fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Relaxed))
    }

    /// Sets it. The border moves as misses come by.
    pub(in crate::cache) fn set_share(&self, share: f64) {
        self.share.store(share.to_bits(), Relaxed);
    }

    /// As many frames of `frames` are to be slabs.
    fn wanted(&self, frames: u32) -> u32 {
        ((f64::from(frames) * self.share()) as u32).min(self.most(frames))
    }

    /// No more of them are, whatever the share is.
    fn most(&self, frames: u32) -> u32 {
        let least = LEAST_PAGES.saturating_add(self.kept_pages.load(Relaxed));
        frames - least.min(frames.div_ceil(2))
    }

    /// Lets the models that learn the share know how many that is.
    pub(in crate::cache) fn bound_models(&self, frames: u32) {
        if let Some(shares) = &self.shares {
            shares.lock().bound(f64::from(self.most(frames)) / f64::from(frames.max(1)));
        }
    }

    /// The set of the slab `number`, and its place there.
    fn place(&self, number: u32) -> (usize, u32) {
        let sets = self.sets.len() as u32;
        ((number % sets) as usize, number / sets)
    }
}

/// The slab whose mini-pages divide when the slab `place` comes.
fn sibling(place: u32) -> Option<u32> {
    Some(place - (1 << place.checked_ilog2()?))
}

impl Cache {
    /// One frame more becomes a slab, if there are to be more: `more` finds it.
    pub(in crate::cache) fn lend(&self, more: impl FnOnce() -> Option<Owned>) {
        let Some(tuples) = &self.tuples else { return };
        if self.slabs() >= tuples.wanted(self.frames()) {
            return;
        }
        let Some(_border) = tuples.border.try_lock() else { return };
        let number = self.slabs();
        if number >= tuples.wanted(self.frames()) {
            return;
        }
        let Some(owned) = more() else { return };
        self.open_slab(tuples, number, owned);
        self.tell_policy();
    }

    /// Makes a frame the slab `number`, the next one. The caller has the border.
    fn open_slab(&self, tuples: &TupleBuffer, number: u32, mut owned: Owned) {
        let (set, place) = tuples.place(number);
        let frame = owned.index();
        tuples.visits(frame).clear();
        Slab { shape: tuples.shape, bytes: self.memory.write(&mut owned) }.clear();
        let mut slabs = tuples.sets[set].slabs.lock();
        self.headers[frame as usize].open_slab(number);
        slabs.push(owned);
        let (former, new) = slabs.split_at_mut(place as usize);
        if let (Some(sibling), [new]) = (sibling(place), new) {
            let from = &mut former[sibling as usize];
            self.move_minis(tuples, from, |hash| among(hash, place + 1) == Some(place), new);
        }
        // Release: who sees the number sees the slab, and who sees the frame what is in it.
        tuples.directory[number as usize].store(frame, Ordering::Release);
        tuples.slabs.store(number + 1, Ordering::Release);
    }

    /// Takes the last slab away, if there are too many.
    pub(in crate::cache) fn take_slab(&self) -> Option<Owned> {
        let tuples = self.tuples.as_ref()?;
        let is_too_many = || self.slabs() > tuples.wanted(self.frames());
        if !is_too_many() {
            return None;
        }
        let _border = tuples.border.try_lock()?;
        let number = self.slabs().checked_sub(1).filter(|_| is_too_many())?;
        let owned = self.close_slab(tuples, number);
        self.tell_policy();
        owned
    }

    /// Takes the slab `number`, the last one, away. Not if its changes and those of the slab that
    /// gets them do not fit in one. The caller has the border.
    fn close_slab(&self, tuples: &TupleBuffer, number: u32) -> Option<Owned> {
        let (set, place) = tuples.place(number);
        let mut slabs = tuples.sets[set].slabs.lock();
        let (changed, bytes) = self.changes_in(tuples, slabs.last()?);
        if changed > 0 {
            let (others, more) = self.changes_in(tuples, slabs.get(sibling(place)? as usize)?);
            if !tuples.shape.holds(changed + others, bytes + more) {
                return None;
            }
        }
        let mut owned = slabs.pop()?;
        tuples.slabs.store(number, Ordering::Release);
        tuples.directory[number as usize].store(NIL, Ordering::Release);
        match sibling(place).map(|sibling| &mut slabs[sibling as usize]) {
            Some(sibling) => self.move_minis(tuples, &mut owned, |_| true, sibling),
            None => self.change(tuples, &mut owned, |slab| slab.clear()),
        }
        self.headers[owned.index() as usize].close_slab();
        tuples.visits(owned.index()).clear();
        Some(owned)
    }

    /// How many mini-pages of a slab do not give way, since they hold changes, and their bytes.
    fn changes_in(&self, tuples: &TupleBuffer, slab: &Owned) -> (u32, u32) {
        let words = self.memory.read_owned(slab);
        let changed = minis(words, tuples.shape).filter(|mini| mini.since(words) != NEVER);
        changed.fold((0, 0), |(count, bytes), mini| (count + 1, bytes + mini.bytes))
    }

    /// Moves the mini-pages whose hash says so, by `goes`, from one slab to another of the set.
    /// Those that hold changes go first, and find room: the others give way to them.
    fn move_minis(&self, tuples: &TupleBuffer, from: &mut Owned, goes: impl Fn(u64) -> bool, to: &mut Owned) {
        let (age, visits) = (tuples.ages.now(), tuples.visits(from.index()));
        let going: Vec<Mini> = self.change(tuples, from, |slab| {
            slab.note_visits(visits, age);
            let mut going: Vec<_> = slab.minis().filter(|mini| goes(hash(mini.page(slab.bytes)))).collect();
            going.sort_by_key(|mini| mini.since(slab.bytes) == NEVER);
            going
        });
        for mini in &going {
            let bytes = self.memory.read_owned(from);
            let page = mini.page(bytes);
            let (items, heat) = (mini.parts(bytes), mini.heat(bytes));
            let (lsn, since) = (mini.lsn(bytes), mini.since(bytes));
            self.insert(tuples, to, &Parts { page, hash: hash(page), lsn, heat, since, items: &items, bytes });
        }
        self.change(tuples, from, |slab| going.iter().for_each(|mini| slab.remove(mini)));
    }

    /// The pool has another number of frames: there are no more slabs than there are to be.
    pub(in crate::cache) fn resize_slabs(&self) {
        let Some(tuples) = &self.tuples else { return };
        self.settle_slabs();
        tuples.bound_models(self.frames());
        self.tell_policy();
    }

    /// No slab is too many once this returns, but for those that hold changes. Waits for whoever is
    /// at it.
    pub(in crate::cache) fn settle_slabs(&self) {
        if let Some(tuples) = &self.tuples {
            let _border = tuples.border.lock();
            self.fit_slabs(tuples);
        }
    }

    /// The same for what could not be taken then, unless somebody else is at it.
    pub(in crate::cache) fn drain_slabs(&self) {
        if let Some(tuples) = &self.tuples
            && let Some(_border) = tuples.border.try_lock()
        {
            self.fit_slabs(tuples);
        }
    }

    /// The caller has the border. The number of frames is read anew each time: a resize changes it
    /// without the border.
    fn fit_slabs(&self, tuples: &TupleBuffer) {
        while self.slabs() > tuples.wanted(self.frames()) {
            let Some(owned) = self.close_slab(tuples, self.slabs() - 1) else { break };
            self.free.give(owned, &self.memory);
        }
    }

    /// So many frames hold pages, whatever the share is, and [`LEAST_PAGES`] more.
    pub(crate) fn reserve_pages(&self, frames: u32) {
        if let Some(tuples) = &self.tuples {
            tuples.kept_pages.store(frames, Relaxed);
            tuples.bound_models(self.frames());
        }
    }

    /// Frames in use that hold pages or may; 1 at least.
    pub(crate) fn page_frames(&self) -> u32 {
        self.frames().saturating_sub(self.slabs()).max(1)
    }

    /// What is a share of the frames in the policy follows those that hold pages.
    fn tell_policy(&self) {
        let pages = self.page_frames();
        self.policy.resize(pages);
        self.clock.iter().for_each(|clock| clock.resize(pages));
    }
}
