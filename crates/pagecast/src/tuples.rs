//! Relations whose items are read one at a time: a handle, and what sessions do with it.

use std::fmt;
use std::sync::Arc;

use pagecast_core::tuples::Tuple;

use crate::PoolError;
use crate::blocking::block_on;
use crate::cache::{Anyone, Client, ItemRoom};
use crate::layout::TupleLayout;
use crate::relation::Relation;
use crate::seal::Lsn;

/// An item: a page of a relation, and the item's name there, as its [`TupleLayout`] understands it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TupleId {
    /// The page.
    pub block: u32,
    /// The number of its slot, or a hash of its key.
    pub item: u32,
}

/// A relation and where its pages keep their items.
///
/// Where the pool keeps tuples ([`PoolOptions::tuples`](crate::PoolOptions::tuples)), items that
/// are read by this go on when their page is evicted, and are answered without it. Everything else
/// that reads or changes the pages works as ever, and sees the same bytes. In any other pool an
/// item is read from its page.
///
/// ```
/// use pagecast::storage::{Device, MemoryFiles};
/// use pagecast::{FixedRows, Pool, PoolOptions, TupleId, TupleOptions};
///
/// let files = MemoryFiles::new();
/// files.write("table", vec![7u8; 300_000]);
/// let options = PoolOptions::default().memory(1 << 20).page_size(4096).tuples(TupleOptions::default());
/// let pool = Pool::new(options.device(Device::new(files, None)))?;
/// let rows = pool.tuples(&pool.open("table".as_ref())?, FixedRows { first: 24, row: 128 })?;
///
/// let mut session = pool.session();
/// let mut row = [0; 128];
/// assert_eq!(session.read_tuple(&rows, TupleId { block: 3, item: 30 }, &mut row)?, Some(128));
/// assert_eq!(row, [7; 128]);
/// assert_eq!(session.read_tuple(&rows, TupleId { block: 3, item: 31 }, &mut row)?, None);
/// # Ok::<(), pagecast::PoolError>(())
/// ```
#[derive(Clone)]
pub struct Tuples {
    pub(crate) relation: Relation,
    pub(crate) layout: Arc<dyn TupleLayout>,
}

impl Tuples {
    /// The relation.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// Copies an item into `into`, as much of it as there is room for, and says how long it is.
    /// `None` if its page has no such item. As [`Session::read_tuple`](crate::Session::read_tuple),
    /// without a session.
    ///
    /// # Errors
    ///
    /// As [`Relation::pin`].
    pub fn read(&self, id: TupleId, into: &mut [u8]) -> Result<Option<usize>, PoolError> {
        self.read_as(&mut Anyone, id, into)
    }

    #[inline]
    pub(crate) fn read_as(
        &self,
        client: &mut impl Client,
        id: TupleId,
        into: &mut (impl ItemRoom + ?Sized),
    ) -> Result<Option<usize>, PoolError> {
        let Relation { engine, file } = &self.relation;
        engine.read_item(client, (file, &self.layout), (id.block, id.item), into)
    }

    /// Changes an item to other bytes of the same length. `logged` appends the change to the log
    /// and says which record that is; nobody else can change the page meanwhile, and who wants to
    /// waits. Without a log it answers [`Lsn::NONE`].
    ///
    /// An item of a sealed relation whose page has been evicted is changed without the page, which
    /// is loaded when it is next to be written.
    ///
    /// # Errors
    ///
    /// As [`Relation::pin_mut`]. The page has no such item of this length
    /// ([`PoolError::NoItem`]): nothing changes, and `logged` is not called.
    pub fn update(&self, id: TupleId, bytes: &[u8], logged: impl FnOnce() -> Lsn) -> Result<(), PoolError> {
        self.change(id, bytes, false, logged)
    }

    /// As [`update`](Self::update), for a caller who knows that the item is there with this length:
    /// then it need not be read before it is changed. If it is not, the page cannot be loaded any
    /// more ([`PoolError::Displaced`]).
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn write(&self, id: TupleId, bytes: &[u8], logged: impl FnOnce() -> Lsn) -> Result<(), PoolError> {
        self.change(id, bytes, true, logged)
    }

    fn change(&self, id: TupleId, bytes: &[u8], is_blind: bool, logged: impl FnOnce() -> Lsn) -> Result<(), PoolError> {
        let Relation { engine, file } = &self.relation;
        file.check_writable()?;
        engine.writer.latch.may_change()?;
        let Some(logged) = engine.update_item(file, (id.block, id.item), bytes, is_blind, logged)? else {
            return Ok(());
        };
        let mut page = block_on(self.relation.pin_to_change(id.block, None))?;
        let tuple = Tuple { name: id.item, length: bytes.len() as u32 };
        engine.learn(file.page(id.block), Some(tuple), None, true);
        // Looked for before the page counts as changed.
        let has_length = self.layout.locate(&page, id.item).is_some_and(|range| range.len() == bytes.len());
        if !has_length || !self.layout.store(&mut page, id.item, bytes) {
            let (path, TupleId { block, item }) = (file.path().to_owned(), id);
            return Err(PoolError::NoItem { path, block, item, len: bytes.len() });
        }
        page.logged(logged());
        page.visit(id.item);
        Ok(())
    }
}

impl fmt::Debug for Tuples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuples").field("relation", &self.relation).finish_non_exhaustive()
    }
}
