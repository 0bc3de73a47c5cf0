//! Blocks in the order in which they were filled: all that memory gives up is appended, and the
//! oldest block makes room as a whole. What hybrid caches do by default (foyer's block engine).

use super::Level;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::Access;
use std::collections::VecDeque;

pub(super) struct Blocks {
    /// By page: the number of its block.
    pages: HashMap<PageId, u64, FixedState>,
    /// The pages that were written to each block, the oldest block first.
    blocks: VecDeque<Vec<PageId>>,
    first: u64,
    most_blocks: usize,
    block_pages: usize,
}

impl Blocks {
    /// `slots` pages in blocks of `block_pages`, of which there are two at least.
    pub(super) fn new(slots: u32, block_pages: u32) -> Self {
        let block_pages = block_pages.clamp(1, (slots / 2).max(1));
        Self {
            pages: HashMap::default(),
            blocks: VecDeque::from([Vec::new()]),
            first: 0,
            most_blocks: (slots / block_pages).max(1) as usize,
            block_pages: block_pages as usize,
        }
    }

    fn newest(&self) -> u64 {
        self.first + self.blocks.len() as u64 - 1
    }

    fn append(&mut self, page: PageId) {
        if self.blocks.back().is_some_and(|block| block.len() == self.block_pages) {
            if self.blocks.len() == self.most_blocks {
                for page in self.blocks.pop_front().into_iter().flatten() {
                    if self.pages.get(&page) == Some(&self.first) {
                        self.pages.remove(&page);
                    }
                }
                self.first += 1;
            }
            self.blocks.push_back(Vec::new());
        }
        self.pages.insert(page, self.newest());
        self.blocks.back_mut().into_iter().for_each(|block| block.push(page));
    }
}

impl Level for Blocks {
    fn missed(&mut self, access: &Access) -> bool {
        self.pages.contains_key(&access.page)
    }

    fn gave_up(&mut self, page: PageId, is_dirty: bool, _incoming: &Access, _oracle: &dyn Oracle) -> bool {
        let is_new = is_dirty || !self.pages.contains_key(&page);
        if is_new {
            self.append(page);
        }
        is_new
    }
}
