//! What a query tells of its reads.

use std::ops::Range;

use pagecast::predictor::{self, Pages, ScanKind, ScanSpec};
use pagecast::{Scan, ScanId, UnorderedScan};

use crate::pointers::{array, borrow, give, output, take};
use crate::pool::PoolHandle;
use crate::relation::RelationHandle;
use crate::status::{Failure, Status, answer};

/// A scan that the pool knows of.
pub struct ScanHandle(AnyScan);

enum AnyScan {
    Ordered(Scan),
    Unordered(UnorderedScan),
}

impl ScanHandle {
    pub(crate) fn of_unordered(scan: UnorderedScan) -> Self {
        Self(AnyScan::Unordered(scan))
    }

    pub(crate) fn id(&self) -> ScanId {
        match &self.0 {
            AnyScan::Ordered(scan) => scan.id(),
            AnyScan::Unordered(scan) => scan.id(),
        }
    }

    /// The scan, if it reads in an order of its own.
    fn ordered(&self) -> Result<&Scan, Failure> {
        match &self.0 {
            AnyScan::Ordered(scan) => Ok(scan),
            AnyScan::Unordered(_) => Err(Failure::argument("`scan` was registered to read in any order")),
        }
    }

    /// The scan, if it reads in any order.
    pub(crate) fn unordered(&self) -> Result<&UnorderedScan, Failure> {
        match &self.0 {
            AnyScan::Unordered(scan) => Ok(scan),
            AnyScan::Ordered(_) => Err(Failure::argument("`scan` was registered to read in an order of its own")),
        }
    }
}

/// Neighbouring pages that a scan reads one after the other: page first + i at position + span * i
/// / pages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first page, from 0.
    pub first: u32,
    /// How many pages, at least 1.
    pub pages: u32,
    /// Where on the scan's axis the first page lies.
    pub position: u64,
    /// How many positions the pages cover.
    pub span: u64,
}

/// The pages of one relation that a scan reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The relation.
    pub relation: *const RelationHandle,
    /// Its runs, in the order of their first page.
    pub runs: *const Run,
    /// How many runs.
    pub run_count: usize,
}

/// Announces a scan over an axis of `length` positions (bytes or rows, say). `kind` is a number
/// below 8 of the caller's: scans of a kind are expected to be equally fast. The scan may read
/// without this; the policy then does not know what it will want.
///
/// # Safety
///
/// (C1), (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_register(
    pool: *const PoolHandle,
    kind: u8,
    length: u64,
    parts: *const Part,
    part_count: usize,
    scan: *mut *mut ScanHandle,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let pool = &unsafe { borrow(pool, "pool") }?.pool;
        // SAFETY: (C2).
        let out = unsafe { output(scan, "scan") }?;
        // SAFETY: (C3).
        let parts = unsafe { array(parts, part_count, "parts") }?;
        let mut runs = Vec::with_capacity(parts.len());
        for part in parts {
            // SAFETY: (C3).
            let given = unsafe { array(part.runs, part.run_count, "runs") }?;
            runs.push(given.iter().map(Run::as_predictor).collect::<Vec<_>>());
        }
        let parts = parts.iter().zip(&runs).map(|(part, runs)| {
            // SAFETY: (C1).
            let relation = unsafe { borrow(part.relation, "relation") }?;
            Ok(predictor::Part { relation: relation.0.id(), pages: Pages::Runs(runs) })
        });
        let parts = parts.collect::<Result<Vec<_>, Failure>>()?;
        let scan = pool.register(&ScanSpec { kind: ScanKind(kind), length, parts: &parts })?;
        out.set(give(ScanHandle(AnyScan::Ordered(scan))));
        Ok(())
    })
}

impl Run {
    fn as_predictor(&self) -> predictor::Run {
        predictor::Run { first: self.first, blocks: self.pages, position: self.position, span: self.span }
    }
}

/// All positions before `position` are done. Several threads of one scan may report; the furthest
/// position counts.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_report(scan: *const ScanHandle, position: u64) -> Status {
    answer(|| {
        // SAFETY: (C1).
        unsafe { borrow(scan, "scan") }?.ordered()?.report(position);
        Ok(())
    })
}

/// Bounds the resident pages that this scan had loaded to `frames`; 0 lifts the bound. A scan that
/// reads everything once then leaves the rest of the pool alone.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_cap(scan: *const ScanHandle, frames: u32) -> Status {
    answer(|| {
        // SAFETY: (C1).
        unsafe { borrow(scan, "scan") }?.ordered()?.cap((frames > 0).then_some(frames));
        Ok(())
    })
}

/// Asks the pool to bring `length` bytes from `offset` of the relation before the scan reads them,
/// and writes to `pages` how many pages are on their way because of that. Does not wait. Pages that
/// are there, that find no room in the pool's prefetch share, that would displace what a scan
/// wants, or that are of another pool, are left out.
///
/// # Safety
///
/// (C1), (C2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_prefetch(
    scan: *const ScanHandle,
    relation: *const RelationHandle,
    offset: u64,
    length: u64,
    pages: *mut u32,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let scan = unsafe { borrow(scan, "scan") }?.ordered()?;
        // SAFETY: (C1).
        let relation = &unsafe { borrow(relation, "relation") }?.0;
        // SAFETY: (C2).
        let out = unsafe { output(pages, "pages") }?;
        let range = range_of(offset, length)?;
        out.set(scan.prefetch(relation, std::slice::from_ref(&range))?);
        Ok(())
    })
}

/// The bytes of a file that C means.
fn range_of(offset: u64, length: u64) -> Result<Range<u64>, Failure> {
    let end = offset.checked_add(length);
    let end = end.ok_or_else(|| Failure::new(Status::OutOfBounds, "`offset` + `length` is no file offset"))?;
    Ok(offset..end)
}

/// The scan has ended, or was given up. One that reads in any order ends when its leases have
/// ended, too.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_scan_finish(scan: *mut ScanHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        drop(unsafe { take(scan, "scan") }?);
        Ok(())
    })
}
