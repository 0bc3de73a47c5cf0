//! Loads become requests: neighbouring pages share one, and pages with a small gap between them.

use std::sync::Arc;

use pagecast_core::Tick;

use super::{IoThreads, Job, Part, Run};
use crate::cache::Loading;
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
    next: u64,
    is_ahead: bool,
    /// Ignored of pages ahead, which go in the order in which they come.
    due: Tick,
}

impl<'a> Batch<'a> {
    /// Of pages that somebody waits for, to be read when they are `due`.
    pub(crate) fn new(threads: &'a IoThreads, relation: &'a Arc<PagedFile>, due: Tick) -> Self {
        Self { threads, relation, run: Vec::new(), next: 0, is_ahead: false, due }
    }

    /// Of pages that nobody waits for.
    pub(crate) fn ahead(threads: &'a IoThreads, relation: &'a Arc<PagedFile>) -> Self {
        Self { is_ahead: true, ..Self::new(threads, relation, 0) }
    }

    /// Whose pages it loads.
    pub(crate) fn relation(&self) -> &Arc<PagedFile> {
        self.relation
    }

    /// Adds a load that has its frame. A page with a copy on flash comes from there, and parts
    /// those around it: a request over it would read it from its storage, too.
    pub(crate) fn add(&mut self, loading: Loading) {
        if let Some(copy) = loading.copy_on_flash() {
            self.flush();
            return self.hand_over(Job::Copy(self.relation.clone(), copy, loading));
        }
        let block = u64::from(loading.access().page.block());
        if !self.run.is_empty() {
            match block.checked_sub(self.next).map(|gap| gap as usize) {
                Some(gap) if self.joins(gap) => self.read_over(&loading),
                _ => self.flush(),
            }
        }
        self.run.push(Part::Page(loading));
        self.next = block + 1;
    }

    /// Whether a page behind a gap of so many others goes into the same request.
    fn joins(&self, gap: usize) -> bool {
        gap <= self.relation.pages_of_a_gap() && self.run.len() + gap < self.relation.pages_of_a_request()
    }

    /// Adds the pages before `loading`, for which they come along. They are kept if there are
    /// frames for nothing.
    fn read_over(&mut self, loading: &Loading) {
        let page_size = self.relation.page_size() as usize;
        for block in self.next as u32..loading.access().page.block() {
            self.run.push(match loading.along(self.relation.page(block)) {
                Some(along) => Part::Page(along),
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
        if self.run.is_empty() {
            return;
        }
        let job = Job::Load(self.relation.clone(), std::mem::take(&mut self.run));
        self.hand_over(job);
    }

    fn hand_over(&self, job: Job) {
        match self.is_ahead {
            true => self.threads.submit_ahead(job),
            false => self.threads.submit(job, self.due),
        }
    }
}
