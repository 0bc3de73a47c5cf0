//! How scans get their rows.

use super::ClosedError;
use super::table::Table;
use super::together::Together;
use super::workload::{ScanProgram, Workload};
use crate::generate::call::Call;
use pagecast_core::cooperation::{CooperationConfig, ENOUGH_AT_WORK, Loading};
use pagecast_core::predictor::PredictorConfig;
use std::ops::Range;

/// How scans get their rows, as text `name(parameter=value,...)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// The text as it was given.
    pub name: String,
    /// The same with all parameters.
    pub full: String,
    /// Pages of each column that a scan in order asks for before it needs them.
    pub ahead: u32,
    /// Whether and how scans in order keep together.
    pub together: Together,
    /// Of scans that are delivered in any order; `None` if none is.
    pub unordered: Option<Unordered>,
}

/// How scans are delivered in any order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unordered {
    /// Who loads.
    pub loading: Loading,
    /// Registrations of one scan, each of an equal share of its rows.
    pub registrations: u32,
    /// Workers of each registration.
    pub workers: u32,
    /// With so many workers at work for each core no load begins; 0: loads never wait.
    pub enough: u32,
    /// A scan of fewer units is delivered in order.
    pub least: u32,
}

/// What a delivery may be, with its parameters.
pub const DELIVERIES: &[(&str, &str)] = &[
    ("ordered", "In the order of the table. ahead=2 (pages that are asked for ahead, of each column)"),
    ("attach", "In order from where another scan is, and then the rows in front of that. ahead=2"),
    (
        "elevator",
        "As attach, but all scans of a table keep to one cursor. window=1 (units from first to last), ahead=2",
    ),
    (
        "throttled",
        "As attach, and a scan waits for those behind. gap=2 (units), group=16 (units; who is further is not waited for), \
         slower=80% (of its other time, that a scan waits at most), ahead=2",
    ),
    (
        "unordered",
        "As the manager of cooperation says. workers=1, outstanding=2 (loads at a time), enough=4 (workers at work for each \
         core, with which no load begins; 0: loads never wait), least=0 (units; a scan of fewer goes in order), ahead=2",
    ),
    ("opportunistic", "The same, but each scan loads for itself. workers=1, least=0, ahead=2"),
    ("static", "As unordered, but a scan is registered as several, each of an equal share. scans=4, and as above"),
];

impl Delivery {
    /// Reads `name` or `name(parameter=value,...)`.
    ///
    /// # Errors
    ///
    /// An unknown name or parameter, or a value out of its range, in one line that says which there
    /// are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut call = Call::parse(text)?;
        let unordered = match call.name() {
            "ordered" | "attach" | "elevator" | "throttled" => None,
            "unordered" | "static" => {
                let outstanding = call.count("outstanding", 2, 1, 1024)?;
                Some(unordered(&mut call, Loading::Manager { outstanding })?)
            }
            "opportunistic" => Some(unordered(&mut call, Loading::Opportunistic)?),
            name => {
                let known: Vec<_> = DELIVERIES.iter().map(|known| known.0).collect();
                return Err(format!("unknown delivery `{name}`; there are {}", known.join(", ")));
            }
        };
        let together = Together::parse(&mut call)?;
        let ahead = call.count("ahead", 2, 0, 1024)?;
        Ok(Self { name: text.trim().to_owned(), full: call.finish()?, ahead, together, unordered })
    }

    /// How this scan is delivered in any order, if it is.
    pub(super) fn of(&self, table: &Table, program: &ScanProgram) -> Option<Unordered> {
        let units = table.units_of(&program.rows).len() as u32;
        self.unordered.filter(|unordered| !program.in_order && units >= unordered.least)
    }

    /// How this scan, if it is delivered in order, keeps together with others. One whose query
    /// needs the order of the table does not.
    pub(super) fn together(&self, program: &ScanProgram) -> Together {
        if program.in_order { Together::Apart } else { self.together }
    }

    /// What the predictor needs room for.
    pub(super) fn room(&self, workload: &Workload) -> Result<PredictorConfig, ClosedError> {
        let scans = self.scans(workload);
        let most = |of: fn(&Table) -> u64| workload.tables.iter().map(of).max().unwrap_or(1);
        // A scan that begins in the middle comes twice to the unit where it does.
        let of = |table: &Table| (u64::from(table.units) + 1) * table.columns.len() as u64;
        let runs: u64 = workload.tables.iter().map(of).sum();
        let chunks = most(|table| u64::from(table.units.div_ceil(32)) + 1);
        // Runs and chunks lie next to each other in one space that fragments: twice the room.
        Ok(PredictorConfig {
            scans: bounded(scans)?,
            // A join has a part in each of two tables.
            parts: bounded(2 * scans)?,
            runs: bounded(2 * scans * runs)?,
            bitset_words: bounded(2 * scans * chunks)?,
            cells: 4096,
            ..PredictorConfig::EMPTY
        })
    }

    /// What the manager needs room for.
    pub(super) fn cooperation(&self, workload: &Workload) -> Result<CooperationConfig, ClosedError> {
        let scans = self.scans(workload);
        let units: u64 = workload.tables.iter().map(|table| u64::from(table.units)).sum();
        let blocks = workload.tables.iter().map(|table| u64::from(table.unit_blocks())).max().unwrap_or(1);
        let (masks, sets) = (blocks.div_ceil(64), scans.div_ceil(64));
        let chunks = 3 * units + 2 * units.div_ceil(64);
        let needs = 4 * masks + 1 + scans * (4 + 2 * sets + masks);
        let words = bounded(2 * (scans * chunks + units * needs))?;
        Ok(CooperationConfig { scans: bounded(scans)?, units: bounded(units)?, words })
    }

    /// Registrations that may run at the same time.
    fn scans(&self, workload: &Workload) -> u64 {
        let registrations = self.unordered.map_or(1, |unordered| unordered.registrations);
        workload.streams.len().max(1) as u64 * u64::from(registrations)
    }
}

/// A number of things that memory has room for.
fn bounded(number: u64) -> Result<u32, ClosedError> {
    if number > MAX_WORDS {
        return Err(ClosedError::TooLarge);
    }
    Ok(number as u32)
}

/// Two gigabytes.
const MAX_WORDS: u64 = 1 << 28;

fn unordered(call: &mut Call, loading: Loading) -> Result<Unordered, String> {
    let registrations = if call.name() == "static" { call.count("scans", 4, 1, 64)? } else { 1 };
    let workers = if call.name() == "static" { 1 } else { call.count("workers", 1, 1, 64)? };
    let enough = if loading == Loading::Opportunistic { 0 } else { call.count("enough", ENOUGH_AT_WORK, 0, 1024)? };
    Ok(Unordered { loading, registrations, workers, enough, least: call.count("least", 0, 0, 1 << 20)? })
}

impl Unordered {
    /// The stretches of `rows` that are registered apart (Eq. 4.1).
    pub(super) fn shares(&self, rows: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let (start, length, count) = (rows.start, rows.end - rows.start, u64::from(self.registrations));
        let shares = (0..count).map(move |share| start + length * share / count..start + length * (share + 1) / count);
        shares.filter(|share| !share.is_empty())
    }
}
