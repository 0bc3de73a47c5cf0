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
    /// relation has one layout for as long as it is open.
    ///
    /// # Errors
    ///
    /// The relation has a layout already ([`PoolError::LayoutKnown`]), or is another pool's.
    pub fn tuples(&self, relation: &Relation, layout: impl TupleLayout) -> Result<Tuples, PoolError> {
        let path = || relation.path().to_owned();
        if !self.owns(relation) {
            return Err(PoolError::OtherPool { path: path() });
        }
        let layout: Arc<dyn TupleLayout> = Arc::new(layout);
        match self.engine().cache.set_layout(relation.id(), &layout) {
            true => Ok(Tuples { relation: relation.clone(), layout }),
            false => Err(PoolError::LayoutKnown { path: path() }),
        }
    }

    /// What the pool holds of items without their pages, if it keeps tuples.
    pub fn tuple_stats(&self) -> Option<TupleStats> {
        self.engine().cache.tuple_stats()
    }
}
