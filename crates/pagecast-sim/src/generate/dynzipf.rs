//! Imitations of WATT's dynZipfRO and of its variant with concurrent scans.
//!
//! The trace itself is not public. What is known: 2 million reads of 20,000 pages, half of them
//! point reads; one page takes above 2 % of all accesses and the ten hottest 4.5 %; hot pages have
//! staggered lifetimes; one full sequential scan at a time, almost back to back (Vöhringer and
//! Leis, WATT, VLDB 2023, and its slides). Khalaji et al., PVLDB 18(13) 2025, section 5.1: the same
//! reads with up to 16 concurrent scans.
//!
//! Our choices, calibrated to those moments, hence `-like`: one page stays hottest for good. The
//! other point reads are Zipf with exponent 1, and the page that has a rank gives way to a random
//! one after a seventeenth of the trace; ranks take turns, so that no two change at the same time.
//! The concurrent variant starts its scans evenly apart.

use super::call::Call;
use super::program::{Program, Step, TABLE, scan};
use super::zipf::Zipf;
use pagecast_core::PageId;
use pagecast_core::random::Random;

pub(super) const ABOUT: &str = "half point reads with drifting hot pages, half full scans one after the other (WATT's \
                                dynZipfRO, by its published moments): reads, pages, skew, report";
pub(super) const ABOUT_CS: &str = "the same with concurrent scans (dynZipfRO-CS of PVLDB 2025): reads, pages, skew, \
                                   report, scans (at a time)";

/// The share of all point reads that goes to the one page that stays hot: 2.1 % of all reads.
const STEADY: f64 = 0.042;
/// A rank keeps its page for this part of the trace.
const LIFETIMES: f64 = 17.0;

pub(super) fn serial(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let shape = Shape::of(call)?;
    Ok(vec![shape.points(random), shape.scans(1, 0)])
}

pub(super) fn concurrent(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let shape = Shape::of(call)?;
    let streams = call.count("scans", 16, 1, 1024)?;
    let mut programs = vec![shape.points(random)];
    programs.extend((0..streams).map(|number| shape.scans(streams, number)));
    Ok(programs)
}

struct Shape {
    reads: u32,
    pages: u32,
    skew: f64,
    report: u32,
}

impl Shape {
    fn of(call: &mut Call) -> Result<Self, String> {
        let reads = call.count("reads", 2_000_000, 2, 1 << 26)?;
        let pages = call.count("pages", 20_000, 2, 1 << 24)?;
        let skew = call.number("skew", 1.0, 0.0, 3.0)?;
        let report = call.count("report", 16, 1, 1 << 20)?;
        Ok(Self { reads, pages, skew, report })
    }

    /// The point reads: half of all.
    fn points(&self, random: &mut Random) -> Program {
        let (zipf, count) = (Zipf::new(self.pages, self.skew), self.reads / 2);
        let lifetime = f64::from(count) / LIFETIMES;
        // Each rank has its own phase and, from one lifetime to the next, its own page, by a hash
        // of rank and number.
        let salt = random.next();
        let page_of = |rank: u32, at: u32| {
            let phase = f64::from(rank) * 0.618_033_988_75 % 1.0;
            let life = (f64::from(at) / lifetime + phase) as u64;
            Random::new(salt ^ (u64::from(rank) << 32 | life)).below(self.pages - 1) + 1
        };
        let read = |at| {
            let block = if random.unit() < STEADY { 0 } else { page_of(zipf.draw(random), at) };
            Step::Point(PageId::new(TABLE, block), false)
        };
        (0..count).map(read).collect()
    }

    /// The scans of stream `number` of `streams`: together they make the other half of the reads,
    /// each at a pace that makes all of them as fast as the point reads.
    fn scans(&self, streams: u32, number: u32) -> Program {
        let mut program = vec![Step::Pace(streams)];
        // The scans go round: number k belongs to stream k modulo streams.
        let (whole, rest) = ((self.reads - self.reads / 2) / self.pages, (self.reads - self.reads / 2) % self.pages);
        if number > 0 {
            program.push(Step::Wait(u64::from(self.pages) * u64::from(number)));
        }
        for of in 0..whole + u32::from(rest > 0) {
            if of % streams == number {
                scan(&mut program, TABLE, 0, if of < whole { self.pages } else { rest }, self.report);
            }
        }
        program
    }
}
