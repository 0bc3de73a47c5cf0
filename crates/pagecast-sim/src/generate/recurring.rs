//! Reports that come back, among scans that come once.
//!
//! After the patterns of CAB (van Renen and Leis, PVLDB 16(6), 2023, section 4): steady with noise,
//! daily, short bursts, hourly peaks, and one-off work; reports after loads are our addition. CAB
//! gives arrivals per tenant. Here each *template* has arrivals of its own, for what comes back is
//! a query. Our choices, too: a table has columns and row groups, each column of a row group one
//! page; a report reads some columns of the newest row groups, and a one-off scan those of the
//! newest or of any; a load adds row groups. A tick is a millisecond. A quarter of the templates is
//! steady, a quarter keeps office hours, and each other pattern has a sixth. Those that come once
//! in the morning are not among them.
//!
//! Adversaries: of the templates `stop` come in the first half only, of `drift` the gaps grow
//! fourfold in the whole, and `lie` come at random, with a gap as wide as the mean.

use super::call::Call;
use super::program::{Beginning, COLUMNS, Program, Step};
use crate::trace::Extent;
use pagecast_core::forecast::Clock;
use pagecast_core::predictor::Run;
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId};

pub(super) const ABOUT: &str = "reports that come back among one-off scans (CAB, PVLDB 2023): days, templates, one_off (share of \
                                the scans), pattern (mix, steady, daily, mornings, bursts, peaks, loads), jitter (of the gap), \
                                workdays (of a week, for daily and mornings), grow (row groups that a load adds), tables, streams, \
                                stop, drift, lie (shares of the templates)";

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
const PATTERNS: [&str; 7] = ["mix", "steady", "daily", "mornings", "bursts", "peaks", "loads"];
/// What the templates of a mix are, each as likely as the other.
const MIX: [&str; 12] =
    ["steady", "steady", "steady", "daily", "daily", "daily", "peaks", "peaks", "bursts", "bursts", "loads", "loads"];
/// A Monday, at midnight.
const START: u64 = 1_767_571_200;

/// A table: its columns, its row groups at first, and when it is loaded.
struct Table {
    relation: RelationId,
    columns: u32,
    groups: u32,
    loads: Vec<f64>,
    grow: u32,
}

impl Table {
    fn groups_at(&self, at: f64) -> u32 {
        self.groups + self.loads.partition_point(|&load| load <= at) as u32 * self.grow
    }
}

/// What a scan reads: columns of so many row groups.
#[derive(Clone)]
struct Reads {
    table: usize,
    columns: Vec<u32>,
    groups: u32,
}

impl Reads {
    /// Of a table drawn by its size.
    fn draw(tables: &[Table], random: &mut Random) -> Self {
        let size = |table: &Table| u64::from(table.columns) * u64::from(table.groups);
        let mut at = (random.unit() * tables.iter().map(size).sum::<u64>() as f64) as u64;
        let table = tables.iter().position(|table| {
            let here = at < size(table);
            at = at.saturating_sub(size(table));
            here
        });
        let table = table.unwrap_or(0);
        let of = &tables[table];
        let mut columns = super::zipf::shuffled(of.columns, random);
        columns.truncate(2 + random.below(5) as usize);
        columns.sort_unstable();
        let share = [0.05, 0.1, 0.3, 1.0][random.below(4) as usize];
        Self { table, columns, groups: ((f64::from(of.groups) * share) as u32).max(1) }
    }

    fn pages(&self) -> u64 {
        u64::from(self.groups) * self.columns.len() as u64
    }

    /// Appends the scan: these columns of the row groups from `first` on.
    fn scan(&self, table: &Table, first: u32, template: Option<u64>, program: &mut Program) {
        let groups = first..first + self.groups;
        let block = |group: u32, column: &u32| group * table.columns + column;
        let blocks: Vec<u32> =
            groups.flat_map(|group| self.columns.iter().map(move |column| block(group, column))).collect();
        let mut runs: Vec<Run> = Vec::new();
        for (&block, position) in blocks.iter().zip(0..) {
            match runs.last_mut() {
                Some(run) if run.first + run.blocks == block => (run.blocks, run.span) = (run.blocks + 1, run.span + 1),
                _ => runs.push(Run { first: block, blocks: 1, position, span: 1 }),
            }
        }
        let length = blocks.len() as u64;
        let (relation, extent) = (table.relation, Extent::Runs(runs));
        program.push(Step::Begin(Box::new(Beginning { kind: COLUMNS, length, relation, extent, template })));
        for (block, done) in blocks.into_iter().zip(1..) {
            program.push(Step::Scan(PageId::new(relation, block)));
            if done % 16 == 0 || done == length {
                program.push(Step::Report(done));
            }
        }
        program.push(Step::End);
    }
}

/// When templates come.
struct Arrivals {
    end: f64,
    jitter: f64,
    /// Days of the week, from Monday on, with office hours and mornings.
    workdays: u32,
    /// Shares of the templates that stop, drift and lie.
    adverse: [f64; 3],
}

impl Arrivals {
    /// The starts of a template of `pattern` on a table that is loaded at `loads`.
    fn of(&self, pattern: &str, loads: &[f64], random: &mut Random) -> Vec<f64> {
        let gap = [300.0, 900.0, HOUR, HOUR, HOUR, 4.0 * HOUR, DAY][random.below(7) as usize];
        let mut at: Vec<f64> = match pattern {
            "peaks" => self.every(HOUR, 1.0, random).into_iter().map(|at| at + random.unit() * 120.0).collect(),
            "bursts" => {
                let count = 3 + random.below(6);
                let each = 20.0 + random.unit() * 60.0;
                let firsts = self.every([4.0 * HOUR, 8.0 * HOUR, DAY][random.below(3) as usize], 1.0, random);
                let burst = |at: f64| (0..count).map(move |k| at + f64::from(k) * each);
                firsts.into_iter().flat_map(burst).map(|at| at + random.unit() * 5.0).collect()
            }
            "loads" => {
                let delay = 60.0 + random.unit() * 600.0;
                loads.iter().map(|at| at + delay * (1.0 + self.jitter * normal(random))).collect()
            }
            "daily" => {
                let from = 7.0 + random.unit() * 2.0;
                let open = |at: &f64| (from..from + 10.0).contains(&((at % DAY) / HOUR)) && self.is_workday(*at);
                self.every(gap.min(4.0 * HOUR), 1.0, random).into_iter().filter(open).collect()
            }
            "mornings" => {
                let first = (7.0 + random.unit() * 2.0) * HOUR;
                let days = self.every(DAY, 1.0, random).into_iter().map(|at| (at / DAY).floor() * DAY + first);
                let late = |at: f64| at + self.jitter * HOUR * normal(random);
                days.filter(|at| self.is_workday(*at)).map(late).collect()
            }
            _ => {
                let growth = if random.unit() < self.adverse[1] { 4.0 } else { 1.0 };
                self.every(gap, growth, random)
            }
        };
        if random.unit() < self.adverse[2] {
            let count = at.len();
            at = (0..count).map(|_| random.unit() * self.end).collect();
        }
        if random.unit() < self.adverse[0] {
            at.retain(|&at| at < self.end / 2.0);
        }
        at.retain(|&at| (0.0..self.end).contains(&at));
        at.sort_unstable_by(f64::total_cmp);
        at
    }

    fn is_workday(&self, at: f64) -> bool {
        (at / DAY) as u32 % 7 < self.workdays
    }

    /// Every `gap` seconds with noise, from a random phase on; gaps grow to `growth` times that.
    fn every(&self, gap: f64, growth: f64, random: &mut Random) -> Vec<f64> {
        let mut due = random.unit() * gap;
        let mut starts = Vec::new();
        while due < self.end {
            starts.push(due + self.jitter * gap * normal(random));
            due += gap * (1.0 + (growth - 1.0) * due / self.end);
        }
        starts
    }
}

/// About normal, with mean 0 and deviation 1: the sum of twelve.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// A scan of the workload.
struct Scan {
    at: f64,
    template: u64,
    reads: Reads,
    is_one_off: bool,
}

pub(super) fn make(call: &mut Call, random: &mut Random) -> Result<Vec<Program>, String> {
    let days = call.count("days", 3, 1, 365)?;
    let templates = call.count("templates", 60, 1, 10_000)?;
    let one_off = call.number("one_off", 0.5, 0.0, 0.95)?;
    let word = |text: &str| PATTERNS.iter().position(|word| *word == text);
    let expected = format!("one of {}", PATTERNS.join(", "));
    let pattern = call.value("pattern", 0, word, &expected, |at| PATTERNS[*at].to_owned())?;
    let jitter = call.number("jitter", 0.01, 0.0, 10.0)?;
    let workdays = call.count("workdays", 7, 1, 7)?;
    let grow = call.count("grow", 0, 0, 1000)?;
    let tables = call.count("tables", 12, 1, 1000)?;
    let streams = call.count("streams", 4, 1, 1024)?;
    let mut share = |name| call.number(name, 0.0, 0.0, 1.0);
    let adverse = [share("stop")?, share("drift")?, share("lie")?];
    // Before anything is made: starts every five minutes, of few pages each.
    call.bounded((f64::from(templates) * f64::from(days) * 288.0 * 16.0 / (1.0 - one_off)) as u64)?;
    let arrivals = Arrivals { end: f64::from(days) * DAY, jitter, workdays, adverse };
    let tables = draw_tables(tables, grow, &arrivals, random);
    let mut scans = reports(templates, PATTERNS[pattern], &tables, &arrivals, random);
    let others = (scans.len() as f64 * one_off / (1.0 - one_off)) as u64;
    for number in 0..others {
        let (at, reads) = (random.unit() * arrivals.end, Reads::draw(&tables, random));
        scans.push(Scan { at, template: u64::from(templates) + 1 + number, reads, is_one_off: true });
    }
    scans.sort_by(|a, b| a.at.total_cmp(&b.at));
    call.bounded(scans.iter().map(|scan| scan.reads.pages()).sum())?;
    let mut programs = dealt(&scans, &tables, streams, random);
    programs.push(loader(&tables));
    Ok(programs)
}

fn draw_tables(count: u32, grow: u32, arrivals: &Arrivals, random: &mut Random) -> Vec<Table> {
    let table = |number| {
        let columns = [8, 12, 16, 24][random.below(4) as usize];
        let groups = (4.0 + 0.8 * normal(random)).exp().min(10_000.0) as u32 + 8;
        let loads = arrivals.every([HOUR, 4.0 * HOUR, DAY][random.below(3) as usize], 1.0, random);
        Table { relation: RelationId(number + 1), columns, groups, loads, grow }
    };
    (0..count).map(table).collect()
}

/// All runs of the templates, which are numbered from 1 on.
fn reports(count: u32, pattern: &str, tables: &[Table], arrivals: &Arrivals, random: &mut Random) -> Vec<Scan> {
    let mut scans = Vec::new();
    for template in 1..=u64::from(count) {
        let reads = Reads::draw(tables, random);
        let pattern = if pattern == "mix" { MIX[random.below(12) as usize] } else { pattern };
        let starts = arrivals.of(pattern, &tables[reads.table].loads, random);
        scans.extend(starts.into_iter().map(|at| Scan { at, template, reads: reads.clone(), is_one_off: false }));
    }
    scans
}

/// What each stream does: a scan goes to the one that was free first.
fn dealt(scans: &[Scan], tables: &[Table], streams: u32, random: &mut Random) -> Vec<Program> {
    let mut programs: Vec<(f64, Program)> = (0..streams).map(|_| (0.0, Vec::new())).collect();
    programs[0].1.push(Step::Clock(Box::new(Clock { start: START, ticks_per_second: 1000 })));
    for Scan { at, template, reads, is_one_off } in scans {
        let (free, program) = programs.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a stream");
        // A page takes ten milliseconds if all are missed.
        *free = free.max(*at) + reads.pages() as f64 / 100.0;
        let table = &tables[reads.table];
        let newest = table.groups_at(*at) - reads.groups;
        let first = if *is_one_off && random.below(2) > 0 { random.below(newest + 1) } else { newest };
        program.push(Step::Wait((at * 1000.0) as u64));
        reads.scan(table, first, Some(*template), program);
    }
    programs.into_iter().map(|(_, program)| program).collect()
}

/// A stream of its own loads the tables.
fn loader(tables: &[Table]) -> Program {
    let mut loads: Vec<_> =
        tables.iter().flat_map(|table| table.loads.iter().map(|&at| (at.max(0.0), table.relation))).collect();
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    loads.into_iter().flat_map(|(at, relation)| [Step::Wait((at * 1000.0) as u64), Step::Changed(relation)]).collect()
}
