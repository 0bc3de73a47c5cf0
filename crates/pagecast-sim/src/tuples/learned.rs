//! Ours: the model of the pool, with a share that is fixed, or learned by small models beside it.

use super::{Buffer, Request};
use pagecast_core::oracle::Oracle;
use pagecast_core::tuples::{Counts, Model, Shares};

pub(super) struct Learned {
    pub(super) pool: Model,
    /// None for a fixed share.
    pub(super) shares: Option<Shares>,
}

impl Buffer for Learned {
    fn request(&mut self, request: &Request, oracle: &dyn Oracle) {
        if let Some(shares) = &mut self.shares
            && shares.sample().has(request.access.page)
        {
            shares.request(&request.access, request.tuple, oracle);
            self.pool.set_share(shares.current());
        }
        self.pool.request(&request.access, request.tuple, oracle);
    }

    fn checkpoint(&mut self) {
        self.pool.checkpoint();
        self.shares.iter_mut().for_each(Shares::checkpoint);
    }

    fn counts(&self) -> Counts {
        self.pool.counts()
    }

    fn share(&self) -> f64 {
        self.pool.share()
    }
}
