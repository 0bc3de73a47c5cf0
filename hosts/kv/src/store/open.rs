//! Opening a store: files, recovery, the first pages.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pagecast::storage::MAX_REQUEST;
use pagecast::{
    CooperationConfig, DoubleWriteOptions, Format, Pool, PoolError, PoolOptions, PredictorConfig, PrefetchOptions,
    WriteOptions,
};

use crate::change::pages_of;
use crate::found::Found;
use crate::log::WriteAheadLog;
use crate::page::Kind;
use crate::pages::{META, Pages, ROOT, Workspace};
use crate::{Error, Options, Result, Store};

/// The largest page: places in it are numbers of 16 bits.
const MAX_PAGE_SIZE: u32 = 61_440;

/// Ranges that are registered at a time, and the part of the frames that may hold leaves which a
/// range has not come to. More ranges than that go unregistered. The pool's defaults are for
/// queries that scan all the time.
const RANGES: u32 = 32;
const AHEAD: f64 = 0.03;
/// Pages of memory for each leaf in a run of its own that ranges register, and for each load at
/// once: of whoever misses, of ranges that read ahead, of checkpoints.
const PAGES_PER_RUN: u64 = 4;
const PAGES_PER_LOAD: u64 = 8;
/// The least and the most of either.
const LEAST: u64 = 256;
const MOST: u64 = 4096;

/// A store of this process that was just dropped is free when its pool's threads have ended, soon.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn open(folder: &Path, options: &Options) -> Result<Store> {
    let mut outcome = open_once(folder, options);
    for _ in 0..TRIES {
        match &outcome {
            Err(Error::Locked { .. }) => std::thread::sleep(PAUSE),
            Err(Error::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                make_folder(folder, options)?;
            }
            _ => break,
        }
        outcome = open_once(folder, options);
    }
    outcome
}

/// Safe from a crash when this returns, also what a process has made that died.
fn make_folder(folder: &Path, options: &Options) -> Result<()> {
    let failed = |source| Error::Open { path: folder.to_owned(), source: Arc::new(source) };
    options.device.make_folder(folder).map_err(failed)
}

fn open_once(folder: &Path, options: &Options) -> Result<Store> {
    if options.page_size > MAX_PAGE_SIZE {
        return Err(PoolError::PageSize { given: options.page_size, max: MAX_PAGE_SIZE.min(MAX_REQUEST as u32) }.into());
    }
    let (log, found) = WriteAheadLog::open(&options.device, folder, options.page_size, options.log_size)?;
    let log = Arc::new(log);
    let pages = options.memory / u64::from(log.page_size().max(1));
    let one_for = |some: u64| (pages / some).clamp(LEAST, MOST) as u32;
    let scans = PredictorConfig {
        scans: RANGES,
        parts: RANGES,
        runs: one_for(PAGES_PER_RUN),
        cells: 64,
        scan_words: 3072,
        ..PredictorConfig::EMPTY
    };
    let double = DoubleWriteOptions::new(folder.join("double")).bytes(options.log_size).owner(log.store());
    let pool = Pool::new(
        PoolOptions::default()
            .memory(options.memory.saturating_sub(2 * options.log_buffer()))
            .page_size(log.page_size())
            .policy(options.policy.clone())
            .device(options.device.clone())
            .log(log.clone())
            .double_write(double)
            .cooperation(CooperationConfig::EMPTY)
            .tuples(options.tuples)
            .predictor(scans)
            .loads(one_for(PAGES_PER_LOAD))
            .prefetch(PrefetchOptions::default().share(AHEAD).read_ahead(true)),
    )
    .map_err(locked)?;
    let path = folder.join("data");
    // Of a store that was there the file is, too: an empty one would pass for pages to come.
    let opened = pool.open_to_write(&path, &WriteOptions::default().create(found.is_none()).format(Format::Sealed));
    let relation = match opened {
        Err(PoolError::PartialPage { .. } | PoolError::OtherPageSize { .. }) if found.is_none() => {
            return Err(Error::Foreign { path });
        }
        opened => opened.map_err(locked)?,
    };
    let pages = Pages::new(&pool, relation, options.tuples.is_some())?;
    let store = Store::new(pool, pages, log.clone(), options);
    match found {
        Some(found) => recover(&store, &log, &found)?,
        None => {
            make_folder(folder, options)?;
            create(&store, &log)?;
        }
    }
    store.count_inner()?;
    Ok(store)
}

fn locked(error: PoolError) -> Error {
    match error {
        PoolError::Open { path, source } if source.kind() == io::ErrorKind::ResourceBusy => Error::Locked { path },
        error => error.into(),
    }
}

/// The first pages, as a batch like any other. A crash may have left pages that were never written.
/// They are on storage before the store is used: if the log is lost afterwards, they tell that
/// there was one.
fn create(store: &Store, log: &WriteAheadLog) -> Result<()> {
    match store.pages.kind_of_first() {
        Ok(Some(Kind::Unused)) | Err(Error::Pool(PoolError::NoPage { .. })) => {}
        Ok(Some(Kind::Meta)) => return Err(log.is_missing()),
        Ok(_) | Err(Error::Pool(PoolError::Checksum { .. })) => {
            return Err(Error::Foreign { path: store.pages.path() });
        }
        Err(error) => return Err(error),
    }
    log.begin()?;
    store.pages.grow_to(ROOT)?;
    let mut pages = Workspace::new(&store.pages);
    pages.create(log.store())?;
    store.publish_first(&pages)?;
    store.checkpoint()
}

/// Makes the changes again that pages lack: those whose record is later than the page. All pages of
/// the records are written, since of those that lack nothing a part may be in the system's cache
/// only.
fn recover(store: &Store, log: &WriteAheadLog, found: &Found) -> Result<()> {
    for (at, record) in found.batches() {
        let pages = pages_of(record).ok_or_else(|| store.pages.damaged(META, "a record of the log ends too early"))?;
        for changes in pages {
            let block = changes.block;
            store.pages.grow_to(block)?;
            let mut pin = store.pages.relation.pin_mut(block, None)?;
            if pin.lsn() >= found.end() {
                return Err(found.ends_too_early());
            }
            let is_done = pin.lsn() >= at || changes.apply(&mut pin);
            pin.logged(at);
            if !is_done {
                return Err(store.pages.damaged(block, "a change of the log cannot be made again"));
            }
        }
    }
    store.pages.check_first(log.store())?;
    if store.pages.pin(META, None)?.lsn() >= found.end() {
        return Err(found.ends_too_early());
    }
    store.pool.flush().map_err(|cause| Error::Stalled { cause })?;
    log.begin_anew()
}
