//! The smallest database that uses the pool as one should: a log of small changes, redone from the
//! last checkpoint.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pagecast::storage::{Device, Opener, Storage, write_full};
use pagecast::{
    DoubleWriteOptions, FixedRows, Format, Log, Lsn, PolicySpec, Pool, PoolError, PoolOptions, Relation, TupleId,
    TupleOptions, Tuples, WriteOptions, WriterOptions,
};
use pagecast_core::random::Random;

use super::disk::Disk;

pub(crate) const PAGE: usize = 4096;
const MOST_PAGES: u32 = 48;
/// Values of 8 bytes on each page, spread over all its sectors.
const VALUES: u32 = 16;
const STRIDE: usize = 240;

#[derive(Clone, Copy, Default)]
pub(crate) struct Setup {
    pub(crate) double_write: bool,
    /// Places are changed as items, without their pages where that works.
    pub(crate) tuples: bool,
    /// The background writer goes round all the time.
    pub(crate) writer: bool,
    /// A mistake: the log says that it is durable when it is not.
    pub(crate) log_lies: bool,
    /// A mistake: the record of a checkpoint says that more is written than was.
    pub(crate) checkpoint_lies: bool,
}

/// A record of the log: `value` went to place `slot` of `page`, or a checkpoint up to record
/// `value` was made.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Record {
    lsn: u64,
    page: u32,
    slot: u32,
    value: u64,
}

const CHECKPOINT: u32 = u32::MAX;
const RECORD: usize = 32;

impl Record {
    fn bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.page.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slot.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.value.to_le_bytes());
        let check = bytes[..24]
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        bytes[24..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let record = Self { lsn: long(0), page: short(8), slot: short(12), value: long(16) };
        (record.lsn > 0 && record.bytes() == bytes).then_some(record)
    }
}

/// What a log holds.
pub(crate) struct Records(Vec<Record>);

impl Records {
    /// Up to the first record that is not whole.
    pub(crate) fn read(log: &[u8]) -> Self {
        let whole = (1..)
            .zip(log.chunks_exact(RECORD))
            .map_while(|(lsn, bytes)| Record::of(bytes).filter(|record| record.lsn == lsn));
        Self(whole.collect())
    }

    pub(crate) fn last(&self) -> u64 {
        self.0.last().map_or(0, |record| record.lsn)
    }

    /// What the pages must hold: the last value of each place.
    pub(crate) fn content(&self) -> HashMap<(u32, u32), u64> {
        self.0.iter().filter(|record| record.page != CHECKPOINT).map(|r| ((r.page, r.slot), r.value)).collect()
    }

    /// The records that a recovery needs: those from where the last checkpoint says.
    fn to_redo(&self) -> impl Iterator<Item = &Record> {
        let from = self.0.iter().rev().find(|record| record.page == CHECKPOINT).map_or(0, |record| record.value);
        self.0.iter().filter(move |record| record.page != CHECKPOINT && record.lsn >= from)
    }
}

/// The log: records in memory, and on the disk as far as it was flushed.
struct DiskLog {
    storage: Arc<dyn Storage>,
    state: Mutex<LogState>,
    lies: bool,
    /// Why it has failed for good.
    broken: OnceLock<String>,
}

struct LogState {
    records: Vec<Record>,
    durable: usize,
}

impl DiskLog {
    fn new(disk: &Disk, records: Vec<Record>, lies: bool) -> Result<Arc<Self>, PoolError> {
        let failed = |source| PoolError::Open { path: "log".into(), source: Arc::new(source) };
        let storage = disk.open_to_write(Path::new("log"), true).map_err(failed)?;
        let state = Mutex::new(LogState { durable: records.len(), records });
        Ok(Arc::new(Self { storage, state, lies, broken: OnceLock::new() }))
    }

    fn append(&self, page: u32, slot: u32, value: u64) -> Lsn {
        let mut state = self.state.lock().unwrap();
        let lsn = state.records.len() as u64 + 1;
        state.records.push(Record { lsn, page, slot, value });
        Lsn(lsn)
    }

    fn end(&self) -> Lsn {
        Lsn(self.state.lock().unwrap().records.len() as u64 + 1)
    }

    fn flush(&self, state: &mut LogState) -> io::Result<()> {
        let bytes: Vec<u8> = state.records[state.durable..].iter().flat_map(|record| record.bytes()).collect();
        write_full(self.storage.as_ref(), (state.durable * RECORD) as u64, &bytes)?;
        self.storage.sync()?;
        state.durable = state.records.len();
        Ok(())
    }
}

impl Log for DiskLog {
    fn flush_to(&self, lsn: Lsn) -> io::Result<Lsn> {
        if self.lies { Ok(lsn) } else { self.really_flush_to(lsn) }
    }
}

impl DiskLog {
    /// As a commit does it.
    fn commit(&self, lsn: Lsn) -> Result<(), PoolError> {
        self.really_flush_to(lsn).map_err(|source| PoolError::Log { lsn, source: Arc::new(source) })?;
        Ok(())
    }

    fn really_flush_to(&self, lsn: Lsn) -> io::Result<Lsn> {
        let mut state = self.state.lock().unwrap();
        if let Some(cause) = self.broken.get() {
            return Err(io::Error::other(format!("the log has failed before: {cause}")));
        }
        if (state.durable as u64) < lsn.0 {
            self.flush(&mut state).inspect_err(|error| drop(self.broken.set(error.to_string())))?;
        }
        Ok(Lsn(state.durable as u64))
    }
}

pub(crate) struct Database {
    pub(crate) pool: Pool,
    table: Relation,
    items: Option<Tuples>,
    log: Arc<DiskLog>,
}

impl Database {
    fn open(disk: &Disk, setup: &Setup, records: Vec<Record>) -> Result<Self, PoolError> {
        let log = DiskLog::new(disk, records, setup.log_lies)?;
        let interval = if setup.writer { Duration::from_micros(300) } else { Duration::from_secs(3600) };
        let pool = Pool::new(
            PoolOptions::default()
                .memory(140_000)
                .page_size(PAGE as u32)
                .policy(PolicySpec::parse("lru").unwrap())
                .device(Device::new(disk.clone(), None))
                .log(log.clone())
                .tuples(setup.tuples.then(|| TupleOptions::default().learn(false).max_share(0.5)))
                .double_write(setup.double_write.then(|| DoubleWriteOptions::new("area").bytes(40_000)))
                .writer(WriterOptions::default().interval(interval).dirty_share(0.2)),
        )?;
        assert!(pool.frames() < MOST_PAGES, "there are evictions");
        let sealed = WriteOptions::default().create(true).format(Format::Sealed);
        let table = pool.open_to_write(Path::new("table"), &sealed)?;
        let layout = FixedRows { first: 0, row: STRIDE as u32 };
        let items = setup.tuples.then(|| pool.tuples(&table, layout)).transpose()?;
        Ok(Self { pool, table, items, log })
    }

    /// Opens what a crash has left, and redoes what the pages lack.
    pub(crate) fn recover(disk: &Disk, setup: &Setup, records: &Records) -> Result<Self, PoolError> {
        // A process that was killed has left records that the device may lack.
        let bytes: Vec<u8> = records.0.iter().flat_map(|record| record.bytes()).collect();
        let log = disk.open_to_write(Path::new("log"), true);
        let synced = log.and_then(|log| write_full(log.as_ref(), 0, &bytes).and_then(|()| log.sync()));
        synced.map_err(|source| PoolError::Log { lsn: Lsn(records.last()), source: Arc::new(source) })?;
        let database = Self::open(disk, setup, records.0.clone())?;
        for record in records.to_redo() {
            database.change(record.page, |page| (page < Lsn(record.lsn)).then_some(*record))?;
        }
        let end = database.log.end();
        database.checkpoint(end, end)?;
        Ok(database)
    }

    /// Two who find it too short at once make it longer than need be.
    fn grow_to(&self, page: u32) -> Result<(), PoolError> {
        match (page + 1).saturating_sub(self.table.pages()) {
            0 => Ok(()),
            missing => self.table.grow(missing).map(drop),
        }
    }

    /// Changes a page as the record says that `change` makes of the page's last one.
    fn change(&self, page: u32, change: impl FnOnce(Lsn) -> Option<Record>) -> Result<(), PoolError> {
        self.grow_to(page)?;
        let mut pin = self.table.pin_mut(page, None)?;
        if let Some(record) = change(pin.lsn()) {
            let at = record.slot as usize * STRIDE;
            pin[at..at + 8].copy_from_slice(&record.value.to_le_bytes());
            pin.logged(Lsn(record.lsn));
        }
        Ok(())
    }

    /// Changes a place as an item, one time in two without a look whether it is there.
    fn change_item(&self, id: TupleId, value: u64, logged: impl FnOnce() -> u64) -> Result<(), PoolError> {
        let Some(items) = &self.items else { unreachable!("items are known") };
        self.grow_to(id.block)?;
        let mut bytes = [0; STRIDE];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        match value % 2 {
            0 => items.write(id, &bytes, || Lsn(logged())),
            _ => items.update(id, &bytes, || Lsn(logged())),
        }
    }

    fn checkpoint(&self, upto: Lsn, claimed: Lsn) -> Result<(), PoolError> {
        self.pool.checkpoint(upto)?;
        let record = self.log.append(CHECKPOINT, 0, claimed.0);
        self.log.commit(record)
    }

    /// Every value that is not zero.
    pub(crate) fn content(&self) -> Result<HashMap<(u32, u32), u64>, PoolError> {
        let mut content = HashMap::new();
        for page in 0..self.table.pages() {
            let pin = self.table.pin(page, None)?;
            for slot in 0..VALUES {
                let at = slot as usize * STRIDE;
                let value = u64::from_le_bytes(pin[at..at + 8].try_into().unwrap());
                if value > 0 {
                    content.insert((page, slot), value);
                }
            }
        }
        Ok(content)
    }
}

/// Of all workloads together.
pub(crate) static UPDATES_WITHOUT_PAGES: AtomicU64 = AtomicU64::new(0);

/// At how many operations of the disk which record was acknowledged.
pub(crate) type Acknowledged = Vec<(usize, u64)>;

/// Why a workload ended early.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) error: PoolError,
    pub(crate) acknowledged: Acknowledged,
}

/// Makes `updates` updates of random places, acknowledges every few of them, and makes checkpoints
/// and rounds of the background writer in between. Writes that fail are left to later ones; ends
/// when the pool or the log gives up.
pub(crate) fn run(disk: &Disk, setup: &Setup, updates: u32, seed: u64) -> Result<Acknowledged, Stopped> {
    let mut acknowledged = Vec::new();
    match work(disk, setup, updates, seed, &mut acknowledged) {
        Ok(()) => Ok(acknowledged),
        Err(error) => Err(Stopped { error, acknowledged }),
    }
}

fn work(disk: &Disk, setup: &Setup, updates: u32, seed: u64, acknowledged: &mut Acknowledged) -> Result<(), PoolError> {
    let database = retry(|| Database::open(disk, setup, Vec::new()))?;
    let mut random = Random::new(seed);
    for update in 1..=updates {
        // The table grows with time.
        let page = random.below(MOST_PAGES / 4 + update * (MOST_PAGES * 3 / 4) / updates);
        let (slot, value) = (random.below(VALUES), u64::from(update));
        if setup.tuples {
            // Some places are read often, so that their pages dissolve with them.
            for at in 0..4 {
                let id = TupleId { block: random.below(database.table.pages().max(1)), item: at };
                if id.block < database.table.pages()
                    && let Some(items) = &database.items
                {
                    items.read(id, &mut [0; STRIDE])?;
                }
            }
            let id = TupleId { block: page, item: slot };
            retry(|| database.change_item(id, value, || database.log.append(page, slot, value).0))?;
        } else {
            retry(|| {
                database.change(page, |_| {
                    let lsn = database.log.append(page, slot, value).0;
                    Some(Record { lsn, page, slot, value })
                })
            })?;
        }
        if random.below(2) == 0 {
            let lsn = Lsn(database.log.end().0 - 1);
            database.log.commit(lsn)?;
            acknowledged.push((disk.operations(), lsn.0));
        }
        if update % 37 == 0 {
            retry(|| database.pool.write_back(40_000))?;
        }
        if update % 100 == 0 {
            // Up to a while ago, so that some pages stay dirty over it.
            let upto = Lsn(database.log.end().0 - u64::from(random.below(30)));
            let claimed = if setup.checkpoint_lies { database.log.end() } else { upto };
            retry(|| database.checkpoint(upto, claimed))?;
        }
    }
    if let Some(stats) = database.pool.tuple_stats() {
        UPDATES_WITHOUT_PAGES.fetch_add(stats.updates, Relaxed);
    }
    Ok(())
}

/// The same by several threads at once, while another makes checkpoints. Each thread ends when
/// something fails.
pub(crate) fn run_together(disk: &Disk, setup: &Setup, (threads, updates): (u64, u32), seed: u64) -> Acknowledged {
    let Ok(database) = retry(|| Database::open(disk, setup, Vec::new())) else { return Vec::new() };
    let (acknowledged, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (database, acknowledged, is_over) = (&database, &acknowledged, &is_over);
        let work = move |thread: u64| -> Result<(), PoolError> {
            let mut random = Random::new(seed * 100 + thread);
            for update in 1..=updates {
                let (page, slot) = (random.below(MOST_PAGES), random.below(VALUES));
                let value = u64::from(update) * threads + thread;
                let id = TupleId { block: page, item: slot };
                if let Some(items) = &database.items
                    && page < database.table.pages()
                {
                    items.read(TupleId { item: random.below(4), ..id }, &mut [0; STRIDE])?;
                    retry(|| database.change_item(id, value, || database.log.append(page, slot, value).0))?;
                } else {
                    let record = |_| {
                        let lsn = database.log.append(page, slot, value).0;
                        Some(Record { lsn, page, slot, value })
                    };
                    retry(|| database.change(page, record))?;
                }
                if random.below(2) == 0 {
                    let lsn = Lsn(database.log.end().0 - 1);
                    database.log.commit(lsn)?;
                    acknowledged.lock().unwrap().push((disk.operations(), lsn.0));
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        scope.spawn(move || {
            while !is_over.load(SeqCst) {
                let end = database.log.end();
                if retry(|| database.checkpoint(end, end)).is_err() {
                    break;
                }
                std::thread::yield_now();
            }
        });
        workers.into_iter().for_each(|worker| drop(worker.join().unwrap()));
        is_over.store(true, SeqCst);
    });
    let mut acknowledged = acknowledged.into_inner().unwrap();
    // Of what was acknowledged so far, the latest record counts.
    acknowledged.sort_unstable();
    let mut most = 0;
    acknowledged.iter_mut().for_each(|(_, lsn)| {
        most = most.max(*lsn);
        *lsn = most;
    });
    acknowledged
}

/// Tries again after a write that failed.
fn retry<R>(mut attempt: impl FnMut() -> Result<R, PoolError>) -> Result<R, PoolError> {
    loop {
        match attempt() {
            Err(PoolError::Write { .. }) => {}
            answer => return answer,
        }
    }
}

/// No page on the device may say that it is of a record that the log does not have. Torn pages say
/// nothing.
pub(crate) fn assert_not_ahead_of_log(table: &[u8], last: u64) {
    for page in table.chunks_exact(PAGE) {
        let (rest, checksum) = page.split_at(PAGE - 4);
        if checksum == crc32fast::hash(rest).to_le_bytes() {
            let lsn = u64::from_le_bytes(page[PAGE - 24..PAGE - 16].try_into().unwrap());
            assert!(lsn <= last, "a page on the device is ahead of the log: {lsn} of {last}");
        }
    }
}
