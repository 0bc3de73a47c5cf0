//! What a pool is made of.

use std::fmt;
use std::sync::Arc;

use pagecast_core::PageId;
use pagecast_core::cooperation::CooperationConfig;
use pagecast_core::policy::{Batching, PolicySpec};
use pagecast_core::predictor::PredictorConfig;

use crate::flash::FlashOptions;
use crate::storage::Device;
use crate::write::{DoubleWriteOptions, Log, WriterOptions};

/// Receives every request for a page, to be replayed through another policy.
///
/// They come in the order in which they are answered, each while its page is held. So the pool's
/// own loads serve this very list, and Belady's optimum on it, with as many frames, has at most as
/// many misses. A page that several wait for while it is loaded is recorded for each of them, once
/// it is there.
pub trait Recorder: Send + Sync {
    /// A request for `page`, which has `bytes` bytes, is answered.
    fn request(&self, page: PageId, bytes: u32);
}

/// How to make a [`Pool`](crate::Pool). Start from the default and change what matters:
///
/// ```
/// let options = pagecast::PoolOptions::default().memory(64 << 20).seed(7);
/// assert_eq!(options.page_size, 64 << 10);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Bytes for everything: frames, their headers, page table, policy, predictor, loads in flight.
    /// Default: 256 MiB.
    pub memory: u64,
    /// The most bytes that [`Pool::resize`](crate::Pool::resize) may give it later. Headers, page
    /// table and policy are made for this many at once (they are part of `memory`), frames take
    /// address space but no memory before they are used. Default: no more than `memory`.
    pub max_memory: Option<u64>,
    /// Bytes of a page: a multiple of 4096, at most [`MAX_PAGE_SIZE`](crate::MAX_PAGE_SIZE).
    /// Default: 64 KiB.
    pub page_size: u32,
    /// Who leaves. Default: `pbm`.
    pub policy: PolicySpec,
    /// How hits reach a policy that keeps an order (LRU, 2Q, ARC, LIRS and others; `clock`,
    /// `random` and `pbm` keep none). Default: in batches of 64, of a small pool's frames a 64th,
    /// prefetched.
    pub batching: Batching,
    /// Of what the policy leaves to chance. Default: 42.
    pub seed: u64,
    /// Where files are. Default: the local file system.
    pub device: Device,
    /// How many scans can be registered. Default: what fits into 1/32 of the memory, up to the
    /// predictor's own default.
    pub predictor: Option<PredictorConfig>,
    /// How many unordered scans can be registered, and how many chunks they can have. Default:
    /// what fits into 1/64 of the memory, up to the manager's own default;
    /// [`CooperationConfig::EMPTY`] where there are none.
    pub cooperation: Option<CooperationConfig>,
    /// Loads in flight at once, at most; never more than frames. A request that would need one more
    /// finds no frame. What they take is part of the memory, a third of a kilobyte each. Default:
    /// 4096.
    pub loads: u32,
    /// How pages are brought before they are asked for.
    pub prefetch: PrefetchOptions,
    /// Who is told of each request. Default: nobody.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Whether requests and hits are counted by relation, too, for
    /// [`Pool::snapshot`](crate::Pool::snapshot). Costs each hit a second look at its relation and
    /// an addition, and 2 KiB per open file. Default: no.
    pub count_relations: bool,
    /// Whether hot items go on when their page is evicted, for relations whose items are known
    /// ([`Pool::tuples`](crate::Pool::tuples)). Default: no.
    pub tuples: Option<TupleOptions>,
    /// Copies of pages on a local device, for relations of object stores. Default: none.
    pub flash: Option<FlashOptions>,
    /// The log that must be durable before a page is written. Default: none, so that pages may be
    /// written at any time.
    pub log: Option<Arc<dyn Log>>,
    /// Copies of pages before they are written in place, against torn pages. Default: none.
    pub double_write: Option<DoubleWriteOptions>,
    /// How the background writer works.
    pub writer: WriterOptions,
}

/// How items go on without their pages.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct TupleOptions {
    /// The part of the frames that may hold items instead of pages, from 0 to 1. 64 frames hold
    /// pages in any case, of a pool with fewer than 128 half; more if the host asks for it
    /// ([`Pool::reserve_pages`](crate::Pool::reserve_pages)). Default: 0.97.
    pub max_share: f64,
    /// Whether the pool finds out how much of that serves it best. If not, it is all of it.
    /// Default: yes.
    pub learn: bool,
}

impl TupleOptions {
    crate::setters! {
        max_share: f64,
        learn: bool,
    }
}

impl Default for TupleOptions {
    fn default() -> Self {
        Self { max_share: 0.97, learn: true }
    }
}

/// How pages are brought before they are asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct PrefetchOptions {
    /// The share of the frames that may hold pages that were brought and not used yet, from 0 to
    /// 0.5. Default: 0.125.
    pub share: f64,
    /// Whether registered scans read ahead by themselves as they report and read. Default: no.
    pub read_ahead: bool,
}

impl PrefetchOptions {
    /// The largest share.
    pub const MAX_SHARE: f64 = 0.5;

    crate::setters! {
        share: f64,
        read_ahead: bool,
    }
}

impl Default for PrefetchOptions {
    fn default() -> Self {
        Self { share: 0.125, read_ahead: false }
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            max_memory: None,
            page_size: 64 << 10,
            policy: PolicySpec::parse("pbm").expect("the catalog has pbm"),
            batching: Batching::default(),
            seed: 42,
            device: Device::local(),
            predictor: None,
            cooperation: None,
            loads: 4096,
            prefetch: PrefetchOptions::default(),
            recorder: None,
            count_relations: false,
            tuples: None,
            flash: None,
            log: None,
            double_write: None,
            writer: WriterOptions::default(),
        }
    }
}

/// One call for each field that is to differ from the default.
impl PoolOptions {
    crate::setters! {
        memory: u64,
        max_memory: impl Into<Option<u64>>,
        page_size: u32,
        policy: PolicySpec,
        batching: Batching,
        seed: u64,
        device: Device,
        predictor: impl Into<Option<PredictorConfig>>,
        cooperation: impl Into<Option<CooperationConfig>>,
        loads: u32,
        prefetch: PrefetchOptions,
        recorder: Arc<dyn Recorder>,
        count_relations: bool,
        tuples: impl Into<Option<TupleOptions>>,
        flash: impl Into<Option<FlashOptions>>,
        log: Arc<dyn Log>,
        double_write: impl Into<Option<DoubleWriteOptions>>,
        writer: WriterOptions,
    }
}

impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("memory", &self.memory)
            .field("max_memory", &self.max_memory)
            .field("page_size", &self.page_size)
            .field("policy", &self.policy.name())
            .field("batching", &self.batching)
            .field("seed", &self.seed)
            .field("device", &self.device)
            .field("predictor", &self.predictor)
            .field("cooperation", &self.cooperation)
            .field("loads", &self.loads)
            .field("prefetch", &self.prefetch)
            .field("tuples", &self.tuples)
            .field("flash", &self.flash)
            .field("double_write", &self.double_write)
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}
