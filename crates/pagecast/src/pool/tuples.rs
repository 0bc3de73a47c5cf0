//! The pool as those see it who read items.

use std::sync::Arc;

use super::Pool;
use crate::PoolError;
use crate::cache::TupleStats;
use crate::layout::TupleLayout;
use crate::relation::Relation;
use crate::tuples::Tuples;

impl Pool {
    /// Says where the pages of a relation keep their items. Clones of the answer are the same; a
    /// relation has one layout for as long as it is open, in its own pool.
    ///
    /// # Errors
    ///
    /// The relation has a layout already ([`PoolError::LayoutKnown`]).
    pub fn tuples(&self, relation: &Relation, layout: impl TupleLayout) -> Result<Tuples, PoolError> {
        let layout: Arc<dyn TupleLayout> = Arc::new(layout);
        match relation.engine.cache.set_layout(relation.id(), &layout) {
            true => Ok(Tuples { relation: relation.clone(), layout }),
            false => Err(PoolError::LayoutKnown { path: relation.path().to_owned() }),
        }
    }

    /// Lets at least so many frames hold pages, and 64 more, whatever part items are to have; at
    /// most half of all. For a host that knows of pages which are needed whole all the time, as the
    /// inner pages of a tree are: the pool learns from a sample of the pages, which may miss them.
    /// Counts from the next load on, and until this is called again.
    pub fn reserve_pages(&self, frames: u32) {
        self.engine().cache.reserve_pages(frames);
    }

    /// What the pool holds of items without their pages, if it keeps tuples.
    pub fn tuple_stats(&self) -> Option<TupleStats> {
        self.engine().cache.tuple_stats()
    }
}
