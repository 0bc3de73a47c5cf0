//! Point reads mixed into scans: a parameter of several workloads.

use super::call::Call;
use super::program::{Program, Step, TABLE};
use super::zipf::Scrambled;
use pagecast_core::PageId;
use pagecast_core::random::Random;

/// Rows a page, as in [`super::ycsb`].
const ROWS: u32 = 7;

/// What share of all reads are point reads, and how skewed they are.
pub(super) struct Points {
    share: f64,
    skew: f64,
}

impl Points {
    /// The parameters `points` and `skew`.
    pub(super) fn of(call: &mut Call) -> Result<Self, String> {
        Ok(Self { share: call.number("points", 0.0, 0.0, 0.99)?, skew: call.number("skew", 0.99, 0.0, 3.0)? })
    }

    /// Refuses a workload that is too large with its point reads; `scanned` is the number of the
    /// others.
    pub(super) fn bounded(&self, call: &Call, scanned: u64) -> Result<(), String> {
        call.bounded((scanned as f64 / (1.0 - self.share)) as u64)
    }

    /// Puts point reads of a table of `pages` pages behind random pages of the scans, so that they
    /// make their share.
    pub(super) fn mixed_into(
        &self,
        programs: Vec<Program>,
        pages: u32,
        call: &Call,
        random: &mut Random,
    ) -> Result<Vec<Program>, String> {
        if self.share == 0.0 {
            return Ok(programs);
        }
        call.bounded(u64::from(pages) * u64::from(ROWS))?;
        let table = Scrambled::new(pages, ROWS, self.skew, random);
        Ok(programs.into_iter().map(|program| self.mixed(program, &table, random)).collect())
    }

    fn mixed(&self, program: Program, table: &Scrambled, random: &mut Random) -> Program {
        let mut mixed = Vec::with_capacity((program.len() as f64 / (1.0 - self.share)) as usize);
        for step in program {
            let of_scan = matches!(step, Step::Scan(_));
            mixed.push(step);
            while of_scan && random.unit() < self.share {
                mixed.push(Step::Point(PageId::new(TABLE, table.draw(random)), false));
            }
        }
        mixed
    }
}
