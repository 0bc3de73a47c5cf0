//! Loads become requests: neighbouring pages share one, and pages with a small gap between them.

use std::sync::Arc;

use pagecast_core::Tick;

use super::{IoThreads, Job, Part, Run};
use crate::cache::Loading;
use crate::flash::FlashCopy;
use crate::paged_file::PagedFile;

/// Collects loads and hands them over, as few requests as their storage wants: neighbouring pages
/// as one, and pages with a gap between them that is cheaper read over than asked around.
#[must_use = "loads that are not submitted fail"]
pub(crate) struct Batch<'a> {
    threads: &'a IoThreads,
    relation: &'a Arc<PagedFile>,
    /// The request that is being put together: without holes, and as yet without an end.
    run: Run,
    /// The block that follows it.
    end: u32,
    /// Pages behind it that have copies on flash: they come from there, unless one without a copy
    /// follows.
    copies: Vec<(Loading, FlashCopy)>,
    is_ahead: bool,
    /// Ignored of pages ahead, which go in the order in which they come.
    due: Tick,
}

impl<'a> Batch<'a> {
    /// Of pages that somebody waits for, to be read when they are `due`.
    pub(crate) fn new(threads: &'a IoThreads, relation: &'a Arc<PagedFile>, due: Tick) -> Self {
        Self { threads, relation, run: Vec::new(), end: 0, copies: Vec::new(), is_ahead: false, due }
    }

    /// Of pages that nobody waits for.
    pub(crate) fn ahead(threads: &'a IoThreads, relation: &'a Arc<PagedFile>) -> Self {
        Self { is_ahead: true, ..Self::new(threads, relation, 0) }
    }

    /// Whose pages it loads.
    pub(crate) fn relation(&self) -> &Arc<PagedFile> {
        self.relation
    }

    /// Adds a load that has its frame. A page with a copy on flash comes from there, unless it lies
    /// between others of one request: two would cost more than its bytes.
    pub(crate) fn add(&mut self, loading: Loading) {
        let block = loading.access().page.block();
        if !self.joins(block) {
            self.flush();
        }
        match loading.copy_on_flash() {
            Some(copy) if self.run.is_empty() => self.hand_over(Job::Copy(self.relation.clone(), copy, loading)),
            Some(copy) => self.copies.push((loading, copy)),
            None => {
                self.read_over(&loading);
                self.run.push(Part::Page(loading));
                self.end = block + 1;
            }
        }
    }

    /// Whether a page goes into the same request: it is near the last one.
    fn joins(&self, block: u32) -> bool {
        let next = self.copies.last().map_or(self.end, |(last, _)| last.access().page.block() + 1);
        let is_near = block.checked_sub(next).is_some_and(|gap| gap as usize <= self.relation.pages_of_a_gap());
        is_near && self.run.len() + ((block - self.end) as usize) < self.relation.pages_of_a_request()
    }

    /// Adds the pages before `loading`, for which they come along. Those that nobody has asked for
    /// are kept if there are frames for nothing.
    fn read_over(&mut self, loading: &Loading) {
        if self.run.is_empty() {
            return;
        }
        let page_size = self.relation.page_size() as usize;
        let mut copies = std::mem::take(&mut self.copies).into_iter().peekable();
        for block in self.end..loading.access().page.block() {
            let asked = copies.next_if(|(asked, _)| asked.access().page.block() == block);
            let wanted = asked.map(|(asked, _)| asked).or_else(|| loading.along(self.relation.page(block)));
            self.run.push(match wanted {
                Some(page) => Part::Page(page),
                None => {
                    self.threads.read_over(page_size as u64);
                    Part::Gap(vec![0; page_size])
                }
            });
        }
    }

    /// Hands over what is left.
    pub(crate) fn submit(mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        if !self.run.is_empty() {
            let job = Job::Load(self.relation.clone(), std::mem::take(&mut self.run));
            self.hand_over(job);
        }
        for (loading, copy) in std::mem::take(&mut self.copies) {
            self.hand_over(Job::Copy(self.relation.clone(), copy, loading));
        }
    }

    fn hand_over(&self, job: Job) {
        match self.is_ahead {
            true => self.threads.submit_ahead(job),
            false => self.threads.submit(job, self.due),
        }
    }
}
