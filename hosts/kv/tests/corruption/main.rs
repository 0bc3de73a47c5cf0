//! Every file of a store flipped, zeroed, cut off, swapped, removed or put back from another time:
//! the store opens with all that was acknowledged, or something says which file is damaged. It is
//! never silently less.
//!
//! `PAGECAST_SECONDS` goes on for so long, with damage at random (`PAGECAST_SEED`).
//!
//! What nobody can tell is left out, and said in docs/durability.md: a page of the data file, or a
//! whole data file, that was put back from an earlier time; and of the log, sectors of the last
//! flush that are as they were before it. Only what that flush acknowledged may be missing then.
#![allow(clippy::unwrap_used)]

mod damage;
#[path = "../../../../crates/pagecast/tests/disk/mod.rs"]
mod disk;
mod store;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pagecast_core::random::Random;
use pagecast_kv::Store;

use damage::Damage;
use disk::{Disk, Files, SECTOR};
use store::{Kind, Victim, options};

/// What became of damaged stores.
#[derive(Default, Debug)]
struct Counts {
    /// Opened, with everything.
    whole: usize,
    /// Opened, with everything but what the last flush acknowledged.
    without_last: usize,
    /// Opened, and some page is damaged when it is read.
    noticed: usize,
    refused: usize,
}

impl Counts {
    fn all(&self) -> usize {
        self.whole + self.without_last + self.noticed + self.refused
    }
}

/// Opens a damaged store, and fails if it silently lacks something.
fn look(victim: &Victim, files: Files, damage: &Damage, counts: &mut Counts) {
    let disk = Disk::holding(files, 1, SECTOR);
    let names_a_file = |error: &dyn std::error::Error| {
        let text = error.to_string();
        assert!(text.contains("store/"), "{damage:?} of {:?}: names no file: {text}", victim.kind);
    };
    let store = match Store::open("store", options(&disk)) {
        Ok(store) => store,
        Err(error) => {
            counts.refused += 1;
            return names_a_file(&error);
        }
    };
    let mut is_noticed = store.check().inspect_err(|error| names_a_file(error)).is_err();
    let mut found = BTreeMap::new();
    for (key, value) in &victim.content {
        match store.get(key) {
            Ok(Some(now)) => drop(found.insert(key.clone(), now)),
            Ok(None) => {}
            Err(error) => {
                names_a_file(&error);
                is_noticed = true;
                found.insert(key.clone(), value.clone());
            }
        }
    }
    let may_lack_last = damage.takes_back() && victim.before_last.as_ref() == Some(&found);
    assert!(
        found == victim.content || may_lack_last,
        "{damage:?} of {:?}: opened without a word, and {} of {} entries are not what was acknowledged",
        victim.kind,
        victim.content.iter().filter(|(key, value)| found.get(*key) != Some(value)).count(),
        victim.content.len(),
    );
    if is_noticed {
        counts.noticed += 1;
        return;
    }
    // It goes on as a store should, unless it needs a damaged page for the first time.
    if let Err(error) = store.put(b"later", b"acknowledged") {
        names_a_file(&error);
        counts.noticed += 1;
        return;
    }
    if found == victim.content {
        counts.whole += 1;
    } else {
        counts.without_last += 1;
    }
    store.checkpoint().unwrap();
    drop(store);
    let again = Store::open("store", options(&disk)).unwrap();
    again.check().unwrap_or_else(|error| panic!("{damage:?} of {:?}: {error}", victim.kind));
    assert_eq!(again.get(b"later").unwrap().as_deref(), Some(&b"acknowledged"[..]), "{damage:?}");
    assert!(found.iter().all(|(key, value)| again.get(key).unwrap().as_ref() == Some(value)), "{damage:?}");
}

fn sweep(victim: &Victim, damages: impl Iterator<Item = Damage>) -> Counts {
    let mut counts = Counts::default();
    for damage in damages {
        let mut files = victim.files.clone();
        if damage.apply(&mut files, victim) {
            look(victim, files, &damage, &mut counts);
        }
    }
    println!("{:?}: {} damaged stores: {counts:?}", victim.kind, counts.all());
    counts
}

fn seed() -> u64 {
    std::env::var("PAGECAST_SEED").map_or(1, |seed| seed.parse().unwrap())
}

#[test]
fn whole_files_sectors_and_bits_of_every_kind_of_store() {
    let mut random = Random::new(seed());
    for kind in Kind::ALL {
        let victim = Victim::new(kind, seed());
        let counts = sweep(&victim, damage::all(&victim, &mut random));
        assert!(counts.refused > 20 && counts.whole + counts.noticed > 20, "{kind:?}: {counts:?}");
    }
}

#[test]
fn damage_at_random() {
    let seconds = std::env::var("PAGECAST_SECONDS").map_or(0, |seconds| seconds.parse().unwrap());
    let (begun, mut total) = (Instant::now(), 0);
    for round in seed().. {
        let mut random = Random::new(round);
        let victim = Victim::new(Kind::ALL[(round % Kind::ALL.len() as u64) as usize], round);
        let damages = (0..150).map(|_| Damage::draw(&victim, &mut random));
        total += sweep(&victim, damages).all();
        if begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{total} stores damaged at random, from seed {}", seed());
}
