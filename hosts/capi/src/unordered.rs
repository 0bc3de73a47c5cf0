//! Scans that read in any order, and the leases of what they read.

use std::task::Poll;

use pagecast::predictor::ScanKind;
use pagecast::{Lease, Relation, Unit, UnorderedSpec};

use crate::pointers::{array, borrow, give, output, take};
use crate::pool::PoolHandle;
use crate::relation::RelationHandle;
use crate::scan::ScanHandle;
use crate::status::{Failure, Status, answer};

/// A chunk that was handed out to be read.
pub struct LeaseHandle(Lease);

/// What a scan reads at once: some pages of a stretch of a relation. Scans that have the same
/// stretch (relation, first, pages) share what is read of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// The relation.
    pub relation: *const RelationHandle,
    /// The first page of the stretch.
    pub first: u32,
    /// How many pages the stretch has.
    pub pages: u32,
    /// Which of them are read: bit i of word w stands for page first + 64 * w + i, in as many words
    /// as `pages` takes. Null: all of them.
    pub need: *const u64,
}

/// Announces a scan that reads its chunks in any order: chunks that are in memory come first, and
/// what is loaded serves as many scans as possible. `kind` is as of pagecast_scan_register, and of
/// unordered scans only; `workers` is how many threads take chunks at once.
///
/// # Safety
///
/// (C1), (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_register_unordered(
    pool: *const PoolHandle,
    kind: u8,
    workers: u32,
    chunks: *const Chunk,
    chunk_count: usize,
    scan: *mut *mut ScanHandle,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C2).
        let out = unsafe { output(scan, "scan") }?;
        // SAFETY: (C3).
        let chunks = unsafe { array(chunks, chunk_count, "chunks") }?;
        let mut needs = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            // SAFETY: (C1).
            let relation = unsafe { borrow(chunk.relation, "relation") }?.of(pool)?;
            let unit = chunk.unit(relation)?;
            let need = if chunk.need.is_null() {
                whole(unit.blocks)
            } else {
                // SAFETY: (C3).
                unsafe { array(chunk.need, unit.blocks.div_ceil(64) as usize, "need") }?.to_vec()
            };
            needs.push((unit, need));
        }
        let chunks: Vec<_> =
            needs.iter().map(|(unit, need)| pagecast::Chunk { unit: *unit, need, joined: false }).collect();
        let spec = UnorderedSpec { kind: ScanKind(kind), workers, chunks: &chunks };
        out.set(give(ScanHandle::of_unordered(pool.register_unordered(&spec)?)));
        Ok(())
    })
}

impl Chunk {
    fn unit(&self, relation: &Relation) -> Result<Unit, Failure> {
        let (pages, end) = (relation.pages(), u64::from(self.first) + u64::from(self.pages));
        if end > u64::from(pages) {
            let path = relation.path().display();
            let message = format!("{path}: a chunk ends at page {end}, but the file has {pages} pages");
            return Err(Failure::new(Status::OutOfBounds, message));
        }
        Ok(Unit { relation: relation.id(), first: self.first, blocks: self.pages })
    }
}

/// The need of all of so many pages.
fn whole(pages: u32) -> Vec<u64> {
    let mut words = vec![u64::MAX; pages.div_ceil(64) as usize];
    if let Some(last) = words.last_mut().filter(|_| !pages.is_multiple_of(64)) {
        *last = (1 << (pages % 64)) - 1;
    }
    words
}

/// Writes to `lease` the next chunk of a scan that reads in any order; null when all chunks have
/// been consumed. If there is none yet, it waits, or returns PAGECAST_STATUS_NOT_YET if `wait` is
/// 0. Any thread.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_take(scan: *const ScanHandle, wait: u8, lease: *mut *mut LeaseHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let scan = unsafe { borrow(scan, "scan") }?.unordered()?;
        // SAFETY: (C2).
        let out = unsafe { output(lease, "lease") }?;
        let taken = match wait {
            0 => scan.try_take(),
            _ => Poll::Ready(scan.take_blocking()),
        };
        let Poll::Ready(taken) = taken else {
            return Err(Failure::new(Status::NotYet, "no chunk is ready yet: take again, or wait"));
        };
        out.set(taken.map_or(std::ptr::null_mut(), |lease| give(LeaseHandle(lease))));
        Ok(())
    })
}

/// Says that the scan does not need a chunk any more. One that is handed out stays so.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_remove(scan: *const ScanHandle, chunk: u32) -> Status {
    answer(|| {
        // SAFETY: (C1).
        unsafe { borrow(scan, "scan") }?.unordered()?.remove(chunk);
        Ok(())
    })
}

/// Writes to `chunk` which chunk it is, from 0, in the order of registration.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_lease_chunk(lease: *const LeaseHandle, chunk: *mut u32) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let lease = &unsafe { borrow(lease, "lease") }?.0;
        // SAFETY: (C2).
        unsafe { output(chunk, "chunk") }?.set(lease.chunk());
        Ok(())
    })
}

/// Says that all pages of the chunk have been asked for: the scan wants them no more.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_lease_asked(lease: *const LeaseHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        unsafe { borrow(lease, "lease") }?.0.asked();
        Ok(())
    })
}

/// The chunk has been read, and is not handed out again. The lease ends.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_lease_consumed(lease: *mut LeaseHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        unsafe { take(lease, "lease") }?.0.consumed();
        Ok(())
    })
}

/// The chunk has not been read, and is handed out again. The lease ends.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_lease_return(lease: *mut LeaseHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        drop(unsafe { take(lease, "lease") }?);
        Ok(())
    })
}
