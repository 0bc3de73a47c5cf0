//! Warm restart: the names of the hottest pages are written to a file, and their bytes are read
//! back in the background. So is what is known of queries that come back.
//!
//! A dump holds no bytes of pages, only which pages of which generation of which files were
//! resident, so that it is small (8 bytes a page) and never stale: a file that has changed since is
//! left out. A reload opens no file by itself; it brings pages of relations that the pool has open,
//! into free frames only, so that it displaces nothing that queries have brought meanwhile, and it
//! ends when no frame is free.

mod file;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use pagecast_core::PageId;
use pagecast_core::forecast::Template;
use thiserror::Error;

use crate::PageGuard;
use crate::blocking::block_on;
use crate::cache::{Ahead, Waiter};
use crate::engine::Engine;
use crate::io::Batch;
use crate::paged_file::PagedFile;
use crate::pool::Pool;
use crate::storage::Generation;
use file::Dump;

/// Pages that a reload has under way at once.
const WINDOW: usize = 256;

/// Why a dump cannot be written or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WarmError {
    /// The file cannot be read or written.
    #[error("{}: {what} the list of hot pages failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The operating system's word.
        source: io::Error,
    },
    /// The file is not a whole dump. It can be removed; the pool starts cold then.
    #[error("{}: not a list of hot pages, or damaged at byte {offset}: {how}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where reading it came to an end, in bytes.
        offset: usize,
        /// What is wrong there.
        how: &'static str,
    },
    /// The dump is of a pool with other pages.
    #[error("{}: lists pages of {found} bytes, and this pool's have {expected}", path.display())]
    PageSize {
        /// The file.
        path: PathBuf,
        /// Bytes of a page in the dump.
        found: u32,
        /// Bytes of a page in the pool.
        expected: u32,
    },
}

/// What a reload has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reloaded {
    /// Pages that were brought.
    pub loaded: u64,
    /// Pages that were there already.
    pub resident: u64,
    /// Pages whose read failed.
    pub failed: u64,
    /// Pages of files that are not open, or have changed since the dump.
    pub left_out: u64,
    /// Pages for which no frame was free, or that were still to come when the reload was stopped.
    pub no_room: u64,
    /// The dump is of another version of pagecast, so that nothing was brought.
    pub other_version: bool,
}

/// A reload in the background. It stops when this is dropped; [`wait`](Self::wait) lets it end.
#[derive(Debug)]
pub struct Reload {
    /// None from the start if the dump is of another version.
    thread: Option<JoinHandle<Reloaded>>,
    stop: Arc<AtomicBool>,
}

impl Reload {
    /// Waits until all pages are brought or no frame is free.
    pub fn wait(mut self) -> Reloaded {
        match self.thread.take() {
            // A panic in it was told when it happened; what it brought is in the pool.
            Some(thread) => thread.join().unwrap_or_default(),
            None => Reloaded { other_version: true, ..Reloaded::default() },
        }
    }
}

impl Drop for Reload {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Pool {
    /// Writes which pages are resident to the file `path`, the hottest `most` of them, and says how
    /// many that were. The file appears whole or not at all.
    ///
    /// How hot a page is, is what the policy notes in its frame: a count of uses under `clock`,
    /// `hyperbolic`, `watt` and `s3-fifo`. The others note nothing there, and their pages count as
    /// equal. Of files that are written to it is of use after [`close`](Self::close), or a flush
    /// that nothing follows: a later write makes them changed files.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolOptions};
    /// # let folder = tempfile::tempdir()?;
    /// # let hot = folder.path().join("hot");
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// # let start = || Pool::new(PoolOptions::default().memory(1 << 20).device(Device::new(files.clone(), None)));
    /// let pool = start()?;
    /// drop(pool.open("table".as_ref())?.pin(2, None)?);
    /// pool.dump_hottest(&hot, usize::MAX)?;
    /// drop(pool);
    ///
    /// let pool = start()?;
    /// let table = pool.open("table".as_ref())?; // a reload brings pages of what is open
    /// assert_eq!(pool.reload(&hot)?.wait().loaded, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump_hottest(&self, path: &Path, most: usize) -> Result<u64, WarmError> {
        let relations = self.0.relations();
        let numbers: HashMap<_, _> = relations.iter().zip(0u32..).map(|(relation, i)| (relation.id(), i)).collect();
        let mut pages = Vec::new();
        self.0.cache.survey(|page, _, heat| {
            if let Some(&relation) = numbers.get(&page.relation()) {
                pages.push((heat, relation, page.block()));
            }
        });
        // The hottest first; of equals those that lie together.
        pages.sort_unstable_by_key(|&(heat, relation, block)| (std::cmp::Reverse(heat), relation, block));
        pages.truncate(most);
        let dump = Dump {
            page_size: self.page_size(),
            relations: relations.iter().map(|relation| (relation.path().to_owned(), generation(relation))).collect(),
            pages: pages.into_iter().map(|(_, relation, block)| (relation, block)).collect(),
            queries: self.templates().iter().map(Template::to_words).collect(),
        };
        dump.write(path)?;
        Ok(dump.pages.len() as u64)
    }

    /// Reads a file of [`dump_hottest`](Self::dump_hottest) and brings its pages in the background,
    /// the hottest first, as far as frames are free. Open the relations first: of files that are
    /// not open nothing is brought, and nothing at all if another version of pagecast wrote it.
    /// Queries that come back are known at once, where the policy has a forecast.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is damaged, or is of a pool with other pages. The pool works on
    /// without it.
    pub fn reload(&self, path: &Path) -> Result<Reload, WarmError> {
        let stop = Arc::new(AtomicBool::new(false));
        let Some(dump) = Dump::read(path)? else { return Ok(Reload { thread: None, stop }) };
        if dump.page_size != self.page_size() {
            let (found, expected) = (dump.page_size, self.page_size());
            return Err(WarmError::PageSize { path: path.to_owned(), found, expected });
        }
        self.0.restore(&dump.queries);
        let (engine, told) = (self.0.clone(), stop.clone());
        let bring = move || bring(&engine, &dump, &told);
        let thread = std::thread::Builder::new().name("pagecast-reload".to_owned()).spawn(bring);
        let thread = thread.map_err(|source| WarmError::Io { path: path.to_owned(), what: "bringing", source })?;
        Ok(Reload { thread: Some(thread), stop })
    }
}

/// The generation to look for after a restart: of a file that we write the one that it has now.
fn generation(relation: &PagedFile) -> Generation {
    let now = relation.is_writable().then(|| relation.storage().current().ok());
    now.flatten().unwrap_or(relation.generation())
}

/// Brings the pages of a dump, a window after the other.
fn bring(engine: &Arc<Engine>, dump: &Dump, stop: &AtomicBool) -> Reloaded {
    let open: HashMap<_, _> = engine.relations().into_iter().map(|open| (open.path().to_owned(), open)).collect();
    let unchanged = |(path, generation): &(PathBuf, _)| open.get(path).filter(|open| open.generation() == *generation);
    let relations: Vec<_> = dump.relations.iter().map(unchanged).collect();
    let mut result = Reloaded::default();
    for (done, window) in dump.pages.chunks(WINDOW).enumerate() {
        if stop.load(Relaxed) || result.no_room > 0 {
            result.no_room += (dump.pages.len() - done * WINDOW) as u64;
            break;
        }
        let mut window = window.to_vec();
        window.sort_unstable();
        let mut waiters = Vec::new();
        for pages in window.chunk_by(|a, b| a.0 == b.0) {
            match relations.get(pages[0].0 as usize) {
                Some(Some(relation)) => request(engine, relation, pages, &mut waiters, &mut result),
                _ => result.left_out += pages.len() as u64,
            }
        }
        for waiter in waiters {
            match block_on(waiter) {
                Ok(held) => {
                    drop(held.map(|held| PageGuard::new(&engine.cache, held)));
                    result.loaded += 1;
                }
                Err(_) => result.failed += 1,
            }
        }
    }
    result
}

/// Asks for pages of one relation, in the order of their blocks: neighbours come in one request to
/// storage.
fn request(
    engine: &Engine,
    relation: &Arc<PagedFile>,
    pages: &[(u32, u32)],
    waiters: &mut Vec<Waiter>,
    result: &mut Reloaded,
) {
    let mut batch = Batch::ahead(&engine.threads, relation);
    for &(_, block) in pages {
        if block >= relation.pages() {
            result.left_out += 1;
            continue;
        }
        let page: PageId = relation.page(block);
        let (ahead, waiter) = engine.cache.bring_into_free(engine.access(page, None, false, None));
        waiters.extend(waiter);
        match ahead {
            Ahead::Started(loading) => batch.add(loading),
            Ahead::There => result.resident += 1,
            Ahead::NoRoom => result.no_room += 1,
        }
    }
    batch.submit();
}
