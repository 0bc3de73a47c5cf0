//! The pages of a store, and the copies that a batch makes of them.
//!
//! A batch changes copies. Nothing of it is seen, logged or kept if something fails before its
//! commit: a page that cannot be read, a full disk, an entry that is refused.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;

use pagecast::{Lsn, PageGuard, Pool, Relation, ScanId, TupleId, Tuples};

use crate::change::{Change, encode_page};
use crate::items::{self, Entries};
use crate::page::{Kind, Node};
use crate::{Error, Result};

/// The first page: a few entries, which say what the file is and which pages are free.
pub(crate) const META: u32 = 0;
/// The root of the tree, for ever: when it is split its content moves.
pub(crate) const ROOT: u32 = 1;

/// Entries of the first page, in the order of their keys.
const META_KEYS: [&[u8]; 4] = [FREE, b"magic", STORE, USED];
const FREE: &[u8] = b"free";
const STORE: &[u8] = b"store";
const USED: &[u8] = b"used";
const MAGIC: &[u8] = b"pagecast-kv";

/// By how many pages the file grows at least.
const GROWTH: u32 = 16;

/// What a page is whose record the log does not have.
pub(crate) const LATER_THAN_LOG: &str = "is of a later record than the log had: its end was lost";

/// Bytes of an entry for which no memory is asked.
const SHORT_ENTRY: usize = 512;

/// What the pool knows of a key.
pub(crate) enum Known {
    /// Its value, and its leaf.
    Value {
        block: u32,
        value: Vec<u8>,
    },
    Absent,
    /// Only the leaf can tell: tuples are off, or the entry of that name is of another key.
    Nothing,
}

pub(crate) struct Pages {
    pub(crate) relation: Relation,
    /// Where the pool keeps entries without their leaves.
    pub(crate) tuples: Option<Tuples>,
}

impl Pages {
    pub(crate) fn new(pool: &Pool, relation: Relation, with_tuples: bool) -> Result<Self> {
        let tuples = with_tuples.then(|| pool.tuples(&relation, Entries)).transpose()?;
        Ok(Self { relation, tuples })
    }

    /// What the pool knows of `key`, which leaf `block` may have, read with or without that leaf.
    pub(crate) fn read_entry(&self, block: u32, key: &[u8]) -> Result<Known> {
        let Some(tuples) = &self.tuples else { return Ok(Known::Nothing) };
        let id = TupleId { block, item: items::name(key) };
        let (mut short, mut long) = ([0; SHORT_ENTRY], Vec::new());
        let mut length = tuples.read(id, &mut short)?;
        // Once more if it was changed to a longer one meanwhile.
        while length.is_some_and(|length| length > long.len().max(SHORT_ENTRY)) {
            long.resize(length.unwrap_or(0), 0);
            length = tuples.read(id, &mut long)?;
        }
        let Some(length) = length else { return Ok(Known::Absent) };
        let memory = if long.is_empty() { &short[..] } else { &long };
        let entry = memory.get(..length).and_then(items::parts).filter(|&(found, _)| found == key);
        Ok(entry.map_or(Known::Nothing, |(_, value)| Known::Value { block, value: value.to_vec() }))
    }

    /// Gives a key another value of the same length, with or without its leaf `block`. The caller
    /// has read the entry, and entries have neither come nor gone since.
    pub(crate) fn write_entry(&self, block: u32, key: &[u8], value: &[u8], logged: impl FnOnce() -> Lsn) -> Result<()> {
        let Some(tuples) = &self.tuples else { return Err(self.damaged(block, "its entries have no names")) };
        let id = TupleId { block, item: items::name(key) };
        Ok(tuples.update(id, &items::whole(key, value), logged)?)
    }

    pub(crate) fn pin(&self, block: u32, scan: Option<ScanId>) -> Result<PageGuard<'_>> {
        Ok(self.relation.pin(block, scan)?)
    }

    pub(crate) fn damaged(&self, block: u32, what: &'static str) -> Error {
        Error::Damaged { path: self.path(), block, what }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.relation.path().to_owned()
    }

    /// Makes the file long enough to have a page.
    pub(crate) fn grow_to(&self, block: u32) -> Result<()> {
        let pages = self.relation.pages();
        if block >= pages {
            self.relation.grow((block + 1 - pages).max(GROWTH).max(pages / 64))?;
        }
        Ok(())
    }

    /// Fails unless the first page is that of a store of this number, and all pages are there.
    pub(crate) fn check_first(&self, store: u64) -> Result<()> {
        if self.relation.pages() <= ROOT || self.kind_of_first()? != Some(Kind::Meta) {
            return Err(self.damaged(META, "is not the first page of a store"));
        }
        let workspace = Workspace::new(self);
        if workspace.view(META)?.node().value(2) != Some(&store.to_le_bytes()) {
            return Err(self.damaged(META, "is of another store than the log"));
        }
        let (_, used) = workspace.free_and_used()?;
        if self.relation.pages() < used {
            return Err(self.damaged(self.relation.pages(), "is missing: the file ends too early"));
        }
        Ok(())
    }

    /// What the first page is.
    pub(crate) fn kind_of_first(&self) -> Result<Option<Kind>> {
        let page = self.pin(META, None)?;
        let node = Node { bytes: &page };
        let kind = node.kind();
        Ok(kind.filter(|&kind| kind != Kind::Meta || node.entry(1) == Some((META_KEYS[1], MAGIC))))
    }
}

/// What a batch has changed so far.
pub(crate) struct Workspace<'s> {
    pages: &'s Pages,
    changed: BTreeMap<u32, Changed>,
    /// Whether entries moved from page to page: readers on their way must begin anew.
    pub(crate) is_structural: bool,
}

pub(crate) struct Changed {
    pub(crate) bytes: Vec<u8>,
    /// The changes, as the log will hold them.
    log: Vec<u8>,
}

/// A page as a batch sees it.
pub(crate) enum View<'w> {
    Pinned(PageGuard<'w>),
    Own(&'w [u8]),
}

impl Deref for View<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Pinned(pin) => pin,
            Self::Own(bytes) => bytes,
        }
    }
}

impl View<'_> {
    pub(crate) fn node(&self) -> Node<'_> {
        Node { bytes: self }
    }
}

impl<'s> Workspace<'s> {
    pub(crate) fn new(pages: &'s Pages) -> Self {
        Self { pages, changed: BTreeMap::new(), is_structural: false }
    }

    pub(crate) fn view(&self, block: u32) -> Result<View<'_>> {
        Ok(match self.changed.get(&block) {
            Some(changed) => View::Own(&changed.bytes),
            None => View::Pinned(self.pages.pin(block, None)?),
        })
    }

    /// What a page holds, apart from the workspace.
    pub(crate) fn copy(&self, block: u32) -> Result<Vec<u8>> {
        Ok(self.view(block)?.to_vec())
    }

    pub(crate) fn damaged(&self, block: u32, what: &'static str) -> Error {
        self.pages.damaged(block, what)
    }

    /// Changes the copy of a page.
    pub(crate) fn change(&mut self, block: u32, change: Change<'_>) -> Result<()> {
        if !self.changed.contains_key(&block) {
            let bytes = self.copy(block)?;
            self.changed.insert(block, Changed { bytes, log: Vec::new() });
        }
        if let Some(changed) = self.changed.get_mut(&block)
            && change.apply(&mut changed.bytes)
        {
            change.encode(&mut changed.log);
            return Ok(());
        }
        Err(self.damaged(block, "its entries are not where it says"))
    }

    /// The first pages of the new store of this number.
    pub(crate) fn create(&mut self, store: u64) -> Result<()> {
        self.change(META, Change::Format { kind: Kind::Meta, level: 0, next: 0 })?;
        let (store, used) = (store.to_le_bytes(), (ROOT + 1).to_le_bytes());
        for (at, value) in (0..).zip([&[0; 4][..], MAGIC, &store, &used]) {
            self.change(META, Change::Insert { at, key: META_KEYS[usize::from(at)], value })?;
        }
        self.change(ROOT, Change::Format { kind: Kind::Leaf, level: 0, next: 0 })
    }

    /// A number that the first page keeps.
    fn meta(&self, key: &[u8]) -> Result<u32> {
        let view = self.view(META)?;
        let at = view.node().search(key).and_then(std::result::Result::ok);
        let value = at.and_then(|at| view.node().value(at)?.try_into().ok());
        value.map(u32::from_le_bytes).ok_or_else(|| self.damaged(META, "an entry of the first page is missing"))
    }

    /// The first free page, and how many pages are used or free.
    pub(crate) fn free_and_used(&self) -> Result<(u32, u32)> {
        Ok((self.meta(FREE)?, self.meta(USED)?))
    }

    /// A page to be formatted: a free one, or one more.
    pub(crate) fn allocate(&mut self) -> Result<u32> {
        let (free, used) = self.free_and_used()?;
        if free == 0 {
            self.pages.grow_to(used)?;
            self.change(META, Change::Overwrite { key: USED, value: &(used + 1).to_le_bytes() })?;
            return Ok(used);
        }
        let view = self.view(free)?;
        let next = view.node().next_free().filter(|_| view.node().kind() == Some(Kind::Free));
        drop(view);
        let next = next.ok_or_else(|| self.damaged(free, "is in the list of free pages and is not free"))?;
        self.change(META, Change::Overwrite { key: FREE, value: &next.to_le_bytes() })?;
        Ok(free)
    }

    pub(crate) fn free(&mut self, block: u32) -> Result<()> {
        let next = self.meta(FREE)?;
        self.change(block, Change::Format { kind: Kind::Free, level: 0, next })?;
        self.change(META, Change::Overwrite { key: FREE, value: &block.to_le_bytes() })
    }

    /// The pages that were changed, in the order of their numbers.
    pub(crate) fn changed(&self) -> impl ExactSizeIterator<Item = (u32, &Changed)> {
        self.changed.iter().map(|(&block, changed)| (block, changed))
    }

    /// What the log is to hold of it.
    pub(crate) fn record(&self) -> Vec<u8> {
        let mut record = Vec::new();
        for (block, changed) in self.changed() {
            encode_page(block, &changed.log, &mut record);
        }
        record
    }
}
