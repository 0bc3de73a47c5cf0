//! The share of the frames that are slabs, learned from the requests for some of the pages.

use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::Access;
use pagecast_core::tuples::Tuple;

use super::Cache;

impl Cache {
    /// Lets the share learn from a request for an item or for a page, if it learns from this page.
    /// Who comes while another learns lets it be.
    #[inline]
    pub(crate) fn learn(
        &self,
        page: PageId,
        tuple: Option<Tuple>,
        access: impl FnOnce() -> Access,
        oracle: &dyn Oracle,
    ) {
        let Some(tuples) = &self.tuples else { return };
        if let (Some(sample), Some(shares)) = (tuples.sample, &tuples.shares)
            && sample.has(page)
            && let Some(mut shares) = shares.try_lock()
        {
            shares.request(&access(), tuple, oracle);
            let share = shares.current().min(tuples.max_share);
            tuples.set_share(share);
        }
    }

    /// All that is changed is about to be written: so it is in the models, whose costs it counts
    /// to.
    pub(crate) fn learn_checkpoint(&self) {
        if let Some(shares) = self.tuples.as_ref().and_then(|tuples| tuples.shares.as_ref()) {
            shares.lock().checkpoint();
        }
    }
}
