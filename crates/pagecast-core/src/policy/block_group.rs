//! Block groups: neighbouring pages that share what is known of their next use.

use crate::oracle::{Oracle, Question};
use crate::{PageId, Tick};

/// The most pages of a group: 16 MiB of pages of 256 bytes, 512 MiB of pages of 8 KiB.
pub(super) const MAX_GROUP: u32 = 1 << 16;

/// How many pages a group has. Groups begin at the multiples of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockGroup(u32);

impl BlockGroup {
    pub(super) fn of(pages: u32) -> Self {
        Self(pages.clamp(1, MAX_GROUP))
    }

    /// The first page of the group of `page`.
    #[inline]
    pub(super) fn first(self, page: PageId) -> PageId {
        // Without groups no division, in what each sample of an eviction takes.
        if self.0 == 1 { page } else { PageId::new(page.relation(), page.block() - page.block() % self.0) }
    }

    /// When somebody comes to the group that begins with the page of `question`. When a page of several was used says
    /// nothing of the others.
    #[inline]
    pub(super) fn next_access(self, question: Question, oracle: &dyn Oracle) -> Option<Tick> {
        if self.0 == 1 {
            return oracle.next_access(question);
        }
        let first = Question { last_use: None, ..question };
        let block = first.page.block().saturating_add(self.0 - 1);
        let last = Question { page: PageId::new(first.page.relation(), block), ..first };
        oracle.next_access(first).into_iter().chain(oracle.next_access(last)).min()
    }
}
