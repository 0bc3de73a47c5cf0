//! Corruption sweep: every file of a store flipped, zeroed, cut, swapped or removed, at every
//! border of a record and of a block and at random places. The store opens with all that was
//! acknowledged, or it refuses, then or when the damaged page is read, and says which file and
//! where. It never answers with less. (The idea is SQLite's corruption tests.)
//!
//! What no format can tell apart is said here, and looked for nowhere else: of a process that was
//! killed, nobody has noted where the log ends. Damage of its last flush looks as one that was torn
//! and never acknowledged. So do zeros or another block in the place of the last one, zeros from
//! some record to the end, and a file from an earlier time. Then the store opens as it was at an
//! earlier moment, and goes on from there.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pagecast_core::random::Random;
use pagecast_kv::Store;

use super::disk::{Disk, End, Files, SECTOR};
use super::rounds::rounds;
use super::workload::{Content, FOLDER, draw, options};

const BLOCK: usize = 4096;
const FILES: [&str; 4] = ["log.0", "log.1", "data", "double"];

/// A store whose process is gone.
struct Left {
    files: Files,
    /// As they were some time before, and those of another store.
    earlier: Files,
    sister: Files,
    /// What it held, one after the other; all of it was acknowledged.
    done: Vec<Content>,
    /// Whether the process had the time to note where its log ends.
    is_noted: bool,
    how: String,
}

/// Stores that were dropped, closed, and killed, of which some had just written all pages; with
/// records in one file of the log or in both.
fn stores(seed: u64) -> Vec<Left> {
    let mut left = Vec::new();
    for updates in [30, 95, 130] {
        for how in ["dropped", "killed", "killed when its pages were written", "closed"] {
            let disk = Disk::new(seed, SECTOR);
            let store = Store::open(FOLDER, options(&disk, seed.is_multiple_of(2)).sync_commits(true)).unwrap();
            let (mut random, mut done) = (Random::new(seed), vec![Content::new()]);
            let mut earlier = Files::new();
            for update in 0..updates {
                if update == updates * 2 / 3 {
                    earlier = disk.files();
                }
                let (next, batch) = draw(&mut random, &done[done.len() - 1]);
                store.write(&batch).unwrap();
                done.push(next);
            }
            if how.ends_with("written") {
                store.pool().flush().unwrap();
            }
            let is_killed = how.starts_with("killed");
            let killed = disk.after(End::Killed, &mut random);
            match how {
                "closed" => store.close().unwrap(),
                _ => drop(store),
            }
            let files = if is_killed { killed.files() } else { disk.files() };
            let (is_noted, how) = (!is_killed, format!("{how} after {updates} updates"));
            left.push(Left { files, earlier, sister: Files::new(), done, is_noted, how });
        }
    }
    for at in 0..left.len() {
        left[at].sister = left[(at + 4) % left.len()].files.clone();
    }
    left
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flipped(u8),
    ZeroedSector,
    ZeroedBlock,
    ZeroedToEnd,
    Cut,
    SwappedBlocks,
    CopiedBlock,
}

const DAMAGES: [Damage; 9] = [
    Damage::Flipped(0),
    Damage::Flipped(3),
    Damage::Flipped(7),
    Damage::ZeroedSector,
    Damage::ZeroedBlock,
    Damage::ZeroedToEnd,
    Damage::Cut,
    Damage::SwappedBlocks,
    Damage::CopiedBlock,
];

impl Damage {
    /// How many acknowledged updates it may take from the log of a process that was killed: the
    /// last one, and more where it meets the block in which the records end.
    fn most_lost(self, log: &[u8], at: usize) -> usize {
        let last = records(log).last().map_or(0, |end| end / BLOCK);
        match self {
            Self::ZeroedToEnd => usize::MAX,
            Self::ZeroedBlock if at / BLOCK == last => usize::MAX,
            Self::SwappedBlocks | Self::CopiedBlock if (at / BLOCK..at / BLOCK + 2).contains(&last) => usize::MAX,
            _ => 1,
        }
    }

    /// Does it at a place of a file.
    fn apply(self, file: &mut Vec<u8>, at: usize) {
        let unit = |unit: usize, len: usize| at / unit * unit..(at / unit * unit + unit).min(len);
        let len = file.len();
        match self {
            Self::Flipped(bit) => file[at] ^= 1 << bit,
            Self::ZeroedSector => file[unit(SECTOR, len)].fill(0),
            Self::ZeroedBlock => file[unit(BLOCK, len)].fill(0),
            Self::ZeroedToEnd => file[at..].fill(0),
            Self::Cut => file.truncate(at),
            Self::SwappedBlocks | Self::CopiedBlock => {
                let (here, next) = (unit(BLOCK, len), (at / BLOCK + 1) * BLOCK);
                if next + BLOCK <= len && here.len() == BLOCK {
                    let before = file[here.clone()].to_vec();
                    file.copy_within(next..next + BLOCK, here.start);
                    if matches!(self, Self::SwappedBlocks) {
                        file[next..next + BLOCK].copy_from_slice(&before);
                    }
                }
            }
        }
    }
}

/// Where the records of a log file begin and end, as its format says.
fn records(file: &[u8]) -> Vec<usize> {
    const MARK: usize = 20;
    let place = |at: usize| BLOCK + at / (BLOCK - 2 * MARK) * BLOCK + MARK + at % (BLOCK - 2 * MARK);
    let bytes: Vec<u8> =
        file.chunks_exact(BLOCK).skip(1).flat_map(|block| &block[MARK..BLOCK - MARK]).copied().collect();
    let (mut at, mut places) = (0, Vec::new());
    while let Some(length) = bytes.get(at..at + 4).map(|length| u32::from_le_bytes(length.try_into().unwrap())) {
        places.push(place(at));
        if length == 0 || at + 8 + length as usize > bytes.len() {
            break;
        }
        at += 8 + length as usize;
    }
    places
}

/// The places of a file that are tried: around each border, and some others.
fn places(name: &str, file: &[u8], random: &mut Random) -> Vec<usize> {
    let borders = if name.starts_with("log") { records(file) } else { (0..file.len()).step_by(BLOCK).collect() };
    let around = borders.into_iter().flat_map(|at| [at.wrapping_sub(1), at, at + 4, at + 9]);
    let fields = (0..68).step_by(4).chain([512, 520, 528]).chain((BLOCK..BLOCK + 20).step_by(4));
    let others = (0..32).map(|_| random.below(file.len().max(1) as u32) as usize);
    let all: BTreeSet<_> = around.chain(fields).chain(others).filter(|&at| at < file.len()).collect();
    all.into_iter().collect()
}

/// What came of damaged stores.
#[derive(Default, Debug)]
struct Outcomes {
    variants: usize,
    whole: usize,
    refused: usize,
    refused_at_a_page: usize,
    /// Of a killed process, as it was at an earlier moment.
    earlier: usize,
}

impl Outcomes {
    /// Opens a damaged store. If its process was killed, `most_lost` updates may be missing.
    fn try_open(&mut self, left: &Left, files: Files, most_lost: usize, what: &str) {
        self.variants += 1;
        let what = format!("{}, {what}", left.how);
        let disk = Disk::holding(files, 1, SECTOR);
        let attempt = || {
            let store = Store::open(FOLDER, options(&disk, false))?;
            let checked = store.check();
            let content: Result<Content, _> = store.iter().collect();
            let names = |error: &pagecast_kv::Error| assert_names_a_place(error, true, &what);
            checked.as_ref().err().into_iter().for_each(names);
            Ok::<_, pagecast_kv::Error>((checked.is_ok(), content))
        };
        let outcome = catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| panic!("{what}: a panic"));
        match outcome {
            Err(error) => {
                assert_names_a_place(&error, false, &what);
                self.refused += 1;
            }
            Ok((_, Err(error))) => {
                assert_names_a_place(&error, true, &what);
                self.refused_at_a_page += 1;
            }
            Ok((is_sound, Ok(content))) if content == left.done[left.done.len() - 1] => {
                self.whole += usize::from(is_sound);
                self.refused_at_a_page += usize::from(!is_sound);
                goes_on(&disk, &content, &what);
            }
            Ok((is_sound, Ok(content))) => {
                let lost = left.done.iter().rev().position(|done| *done == content);
                let may_be_lost = if left.is_noted { 0 } else { most_lost };
                // Pages may have a part of what the log has lost, and that is said.
                let is_said = !is_sound && lost.is_none() && may_be_lost > 0;
                let is_earlier = lost.is_some_and(|lost| lost <= may_be_lost);
                assert!(is_said || is_earlier, "{what}: opens without the last {lost:?}");
                self.earlier += 1;
                goes_on(&disk, &content, &what);
            }
        }
    }
}

/// What opened goes on as a store should: what is put into it now is there after a crash, and so is
/// what it had.
fn goes_on(disk: &Disk, content: &Content, what: &str) {
    let open = |disk| Store::open(FOLDER, options(disk, true)).unwrap_or_else(|error| panic!("{what}: {error}"));
    // All over the tree.
    let new = |first: u32| (format!("{:03} later", first * 70).into_bytes(), vec![7; 300]);
    let (store, later) = (open(disk), (0..10).map(new).collect::<Content>());
    for (key, value) in &later {
        // It may need a page that is damaged for the first time: a free one.
        if let Err(error) = store.put(key, value) {
            return assert_names_a_place(&error, true, what);
        }
    }
    if let Err(error) = store.flush() {
        return assert_names_a_place(&error, true, what);
    }
    let after = disk.after(End::Killed, &mut Random::new(1));
    drop(store);
    let store = open(&after);
    for (key, value) in content.iter().chain(&later) {
        match store.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{what}: an entry is missing later"),
            Err(error) => assert_names_a_place(&error, true, what),
        }
    }
    if let Err(error) = store.check() {
        assert_names_a_place(&error, true, what);
    }
}

/// An error says which file, and which page, byte, format or size of it.
fn assert_names_a_place(error: &pagecast_kv::Error, of_a_page: bool, what: &str) {
    let said = error.to_string();
    let names_file = FILES.iter().any(|name| said.contains(&format!("{FOLDER}/{name}")));
    assert!(names_file, "{what}: no file is named: {said}");
    let names_place = ["byte", "page", "format", "is not a file", "bytes"].iter().any(|word| said.contains(word));
    let is_gone = said.contains("cannot be opened") || said.contains("cannot open");
    assert!(names_place || is_gone && !of_a_page, "{what}: no place is named: {said}");
}

/// Damages each file at each place, in `share` of all ways.
fn sweep(left: &Left, random: &mut Random, share: usize, outcomes: &mut Outcomes) {
    for name in FILES {
        let path = Path::new(FOLDER).join(name);
        let places = places(name, &left.files[&path], random);
        for (number, at) in places.into_iter().enumerate() {
            for (way, damage) in DAMAGES.into_iter().enumerate() {
                if !(number + way).is_multiple_of(share) {
                    continue;
                }
                let mut files = left.files.clone();
                let Some(file) = files.get_mut(&path) else { continue };
                let most_lost = if name.starts_with("log") { damage.most_lost(file, at) } else { 0 };
                damage.apply(file, at);
                outcomes.try_open(left, files, most_lost, &format!("{name}: {damage:?} at {at}"));
            }
        }
    }
}

/// Files that are missing, empty, zeroed, or have the place of another.
fn whole_files(left: &Left, outcomes: &mut Outcomes) {
    let path = |name: &str| Path::new(FOLDER).join(name);
    for name in FILES {
        // That a page, or all of them, were put back from another time, nobody can tell.
        if name != "data" {
            let mut files = left.files.clone();
            files.insert(path(name), left.earlier[&path(name)].clone());
            outcomes.try_open(left, files, usize::MAX, &format!("{name} was put back from an earlier time"));
        }
        let mut changes: Vec<(String, Option<Vec<u8>>)> = vec![
            (format!("{name} is another store's"), Some(left.sister[&path(name)].clone())),
            (format!("{name} is removed"), None),
            (format!("{name} is emptied"), Some(Vec::new())),
            (format!("{name} is zeroed"), Some(vec![0; left.files[&path(name)].len()])),
        ];
        for other in FILES.into_iter().filter(|&other| other != name) {
            changes.push((format!("{other} is in the place of {name}"), Some(left.files[&path(other)].clone())));
            let mut files = left.files.clone();
            files.insert(path(name), left.files[&path(other)].clone());
            files.insert(path(other), left.files[&path(name)].clone());
            outcomes.try_open(left, files, 0, &format!("{name} and {other} have changed places"));
        }
        for (what, bytes) in changes {
            let mut files = left.files.clone();
            match bytes {
                Some(bytes) => drop(files.insert(path(name), bytes)),
                None => drop(files.remove(&path(name))),
            }
            outcomes.try_open(left, files, 0, &what);
        }
    }
}

/// Pages may be of later records than the log has, if its end was lost. What is written then is
/// redone after the next crash nevertheless, and the store's check says what has happened.
#[test]
fn what_is_written_after_a_lost_end_is_redone() {
    let disk = Disk::new(1, SECTOR);
    let store = Store::open(FOLDER, options(&disk, false).sync_commits(true)).unwrap();
    // So many that the root is no leaf: that is looked at when the store opens.
    (0..40).for_each(|number| store.put(format!("{number:03}").as_bytes(), &[1; 900]).unwrap());
    store.checkpoint().unwrap();
    store.put(b"020", &[2; 900]).unwrap();
    store.pool().flush().unwrap();
    let mut files = disk.after(End::Killed, &mut Random::new(1)).files();
    drop(store);
    let log = files.get_mut(&Path::new(FOLDER).join("log.0")).unwrap();
    let places = records(log);
    Damage::Flipped(0).apply(log, places[places.len() - 2]);

    let disk = Disk::holding(files, 1, SECTOR);
    let store = Store::open(FOLDER, options(&disk, false)).unwrap();
    assert_names_a_place(&store.check().unwrap_err(), true, "a page is of a record that is lost");
    store.put(b"020", &[3; 900]).unwrap();
    store.flush().unwrap();
    let after = disk.after(End::Killed, &mut Random::new(2));
    drop(store);
    let store = Store::open(FOLDER, options(&after, false)).unwrap();
    assert_eq!(store.get(b"020").unwrap(), Some(vec![3; 900]));
}

#[test]
fn damage_is_named_and_never_taken_for_less() {
    let share = if std::env::var("DURABILITY_SECONDS").is_ok() { 1 } else { 12 };
    let mut outcomes = Outcomes::default();
    for seed in rounds(1) {
        let mut random = Random::new(seed);
        for left in stores(seed) {
            sweep(&left, &mut random, share, &mut outcomes);
            whole_files(&left, &mut outcomes);
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.whole > 100 && outcomes.refused > 100 && outcomes.refused_at_a_page > 10, "{outcomes:?}");
}
