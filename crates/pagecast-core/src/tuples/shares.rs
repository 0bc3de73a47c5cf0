//! The share of the frames that tuples are to have, learned: small models of the pool, each with
//! another share, replay a sample of the requests.
//!
//! Source: Waldspurger et al., "Cache modeling and optimization using miniature simulations" (ATC
//! 2017): a sample of the pages by hash, in a pool smaller in proportion, misses about as often.
//! Deviations: all models see the same requests, and only where their costs differ counts. A cost
//! is a request to the device, of any kind. What a share lost while it was behind is forgotten as
//! soon as it catches up (CUSUM: Page, "Continuous inspection schemes", Biometrika 1954), and with
//! it how much the costs differed: else it would have to make all that good before it is followed,
//! long after the requests have changed.
//!
//! The pool goes over to another share if that is ahead by more than chance explains. It begins
//! with no tuples.
//!
//! Cost: a request of one of the models' pages, 1 in [`SCALE`] at most, a request in each model.
//! Bytes: [`Shares::bytes`]; nothing grows after. Concurrency: one thread. Who comes meanwhile lets
//! it be.

use super::items::Items;
use super::items::Tuple;
use super::mini_pages::MiniPages;
use super::model::{Bounds, Model, ModelOptions};
use super::page_frames::PageFrames;
use super::room::Room;
use crate::PageId;
use crate::oracle::Oracle;
use crate::policy::{Access, PolicyError, PolicySpec};
use crate::random::hash;
use alloc::vec::Vec;

/// The shares that are tried.
pub const SHARES: [f64; 3] = [0.0, 0.5, 0.97];
/// A model has one frame for so many of the pool, but no fewer and no more than these, and none of
/// less than so many bytes: where pages are large, a few of them hold many mini-pages.
const SCALE: u32 = 64;
const LEAST: u32 = 8;
const MOST: u32 = 1024;
const LEAST_BYTES: u32 = 128 << 10;
/// Standard deviations that a lead must have, as if the costs had differed by so many more.
const Z: f32 = 3.0;
const INERTIA: f32 = 40.0;
/// Keeps the choice of pages apart from other uses of the same hash.
const SALT: u64 = 0x5bd1_e995_7b93_a4d1;
/// The smallest mini-pages that a model has room for, on average: so many bytes.
const LEAST_MINI_PAGE: u32 = 180;
/// Visited items of a page, or of as many bytes of mini-pages, that a model has room for.
const ITEMS_PER_FRAME: u32 = 16;

/// Which pages the models know: a part of all, by hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample(u64);

impl Sample {
    /// Whether requests of `page` are to be told.
    #[inline]
    pub fn has(self, page: PageId) -> bool {
        hash(page.raw() ^ SALT) >> 32 < self.0
    }
}

/// The models, and which of them is followed.
#[derive(Debug)]
pub struct Shares {
    sample: Sample,
    models: Vec<Model>,
    /// By how many requests each has cost less than the one that is followed since it began to, and
    /// the sum of the squares since then.
    ahead: [f32; SHARES.len()],
    varied: [f32; SHARES.len()],
    followed: usize,
}

/// Frames of each model of a pool of `frames`.
fn model_frames(frames: u32, room: Room) -> u32 {
    let least = LEAST.max(LEAST_BYTES / room.slab().max(1)).min(MOST);
    (frames / SCALE).clamp(least, MOST).min(frames)
}

impl Shares {
    /// For a pool of `frames` frames whose pages `policy` evicts.
    ///
    /// # Errors
    ///
    /// No frames, or a policy that needs to know the trace.
    pub fn new(policy: &PolicySpec, frames: u32, room: Room, seed: u64) -> Result<Self, PolicyError> {
        let small = model_frames(frames, room);
        let models = SHARES.iter().map(|&share| {
            let bounds = bounds(small, share, room);
            Model::new(&ModelOptions { policy: policy.clone(), frames: small, room, share, bounds, seed })
        });
        Ok(Self {
            sample: Sample((u64::from(small) << 32) / u64::from(frames.max(1))),
            models: models.collect::<Result<_, _>>()?,
            ahead: [0.0; SHARES.len()],
            varied: [0.0; SHARES.len()],
            followed: 0,
        })
    }

    /// An upper bound for the bytes that all of it takes beside a pool of `frames` frames.
    pub fn bytes(policy: &PolicySpec, frames: u32, room: Room) -> u64 {
        let small = model_frames(frames, room);
        let of = |share: f64| {
            let bounds = bounds(small, share, room);
            // The last is the page table's part.
            u64::from(small) * u64::from(policy.bytes_per_frame() + PageFrames::BYTES + 22)
                + u64::from(bounds.mini_pages) * u64::from(MiniPages::BYTES)
                + u64::from(bounds.items) * u64::from(Items::BYTES)
                + u64::from(policy.bytes_apart(small))
        };
        SHARES.iter().map(|&share| of(share)).sum()
    }

    /// Whose requests are to be told.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// The share that the pool is to have.
    pub fn current(&self) -> f64 {
        SHARES[self.followed]
    }

    /// No more than this part of the frames is lent, whatever serves better; so it is in the
    /// models.
    pub fn bound(&mut self, most: f64) {
        SHARES.iter().zip(&mut self.models).for_each(|(share, model)| model.set_share(share.min(most)));
    }

    /// A request for a page of the sample.
    pub fn request(&mut self, access: &Access, tuple: Option<Tuple>, oracle: &dyn Oracle) {
        self.compare(|model| _ = model.request(access, tuple, oracle));
        self.follow();
    }

    /// The pool writes all that is changed.
    pub fn checkpoint(&mut self) {
        self.compare(Model::checkpoint);
    }

    /// Lets every model do the same, and notes what it costs each.
    fn compare(&mut self, mut step: impl FnMut(&mut Model)) {
        let costs: [f32; SHARES.len()] = core::array::from_fn(|at| {
            let model = &mut self.models[at];
            let before = model.counts().device_requests();
            step(model);
            (model.counts().device_requests() - before) as f32
        });
        for (at, cost) in costs.iter().enumerate() {
            let less = costs[self.followed] - cost;
            self.ahead[at] += less;
            self.varied[at] += less * less;
            if self.ahead[at] <= 0.0 {
                (self.ahead[at], self.varied[at]) = (0.0, 0.0);
            }
        }
    }

    /// Goes over to the share that is furthest ahead, if it is far enough.
    fn follow(&mut self) {
        let worth_it = |&at: &usize| {
            let ahead = self.ahead[at];
            ahead > 0.0 && ahead * ahead > Z * Z * (self.varied[at] + INERTIA)
        };
        let best = (0..SHARES.len()).filter(worth_it).max_by(|&a, &b| self.ahead[a].total_cmp(&self.ahead[b]));
        if let Some(best) = best {
            self.followed = best;
            self.ahead = [0.0; SHARES.len()];
            self.varied = [0.0; SHARES.len()];
        }
    }
}

/// The bounds of a model of `frames` frames.
fn bounds(frames: u32, share: f64, room: Room) -> Bounds {
    let slabs = (f64::from(frames) * share) as u32;
    let mini_pages = (u64::from(slabs) * u64::from(room.slab()) / u64::from(LEAST_MINI_PAGE)) as u32;
    Bounds { mini_pages, items: mini_pages + frames * ITEMS_PER_FRAME }
}
