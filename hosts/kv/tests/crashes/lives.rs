//! Life cycles: a store lives through many sessions, which end in every way, is moved and copied,
//! and has at each beginning what was acknowledged before.

use std::path::Path;

use pagecast_core::random::Random;
use pagecast_kv::{Error, Store};

use super::disk::{Disk, ENDS, Files, SECTOR};
use super::rounds::rounds;
use super::workload::{Content, content, draw, options};

/// Where a store lies in turn.
const FOLDERS: [&str; 3] = ["store", "/elsewhere/store", "here/../there"];

struct Life {
    disk: Disk,
    folder: usize,
    random: Random,
    /// What the store may hold: what was acknowledged last, and what was done since.
    possible: Vec<Content>,
    ends: [usize; 4],
}

impl Life {
    /// Opens the store; what it holds.
    fn open(&mut self) -> (Store, Content) {
        let options = options(&self.disk, self.random.below(2) == 0);
        let store = Store::open(FOLDERS[self.folder], options).unwrap();
        store.check().unwrap();
        let found = content(&store);
        assert!(self.possible.contains(&found), "no acknowledged moment had these {} entries", found.len());
        (store, found)
    }

    fn session(&mut self) {
        let before = self.disk.operations();
        let (store, mut now) = self.open();
        // What a killed process has left is safe when the store is open again.
        let (mut done, mut acknowledged) = (vec![now.clone()], vec![(self.disk.operations(), 0)]);
        for _ in 0..self.random.below(40) {
            let (next, batch) = draw(&mut self.random, &now);
            match store.write(&batch) {
                // Of so small a store, and nothing of it is there.
                Err(Error::BatchTooLarge { .. }) => continue,
                written => written.unwrap(),
            }
            now = next;
            done.push(now.clone());
            let update = done.len() - 1;
            if self.random.below(2) == 0 {
                store.flush().unwrap();
                acknowledged.push((self.disk.operations(), update));
            }
            if self.random.below(30) == 0 {
                store.checkpoint().unwrap();
            }
        }
        let end = self.random.below(4) as usize;
        self.ends[end] += 1;
        match end {
            0 => {
                store.close().unwrap();
                self.possible = vec![now];
            }
            1 => {
                // The last commits go with the log's last flush.
                drop(store);
                self.possible = vec![now];
            }
            how => {
                let operation = before + self.random.below((self.disk.operations() - before) as u32 + 1) as usize;
                let mut replay = self.disk.replay();
                (0..operation).for_each(|_| replay.step());
                self.disk = replay.after(ENDS[how - 2], &mut self.random);
                drop(store);
                if let Some(&(_, last)) = acknowledged.iter().rev().find(|&&(at, _)| at <= operation) {
                    self.possible = done.split_off(last);
                }
            }
        }
    }

    /// The files go to another folder, or a copy of them does and the original is never used again.
    fn move_or_copy(&mut self) {
        let files = self.disk.files();
        let to = self.random.below(FOLDERS.len() as u32) as usize;
        let moved = |path: &Path| Path::new(FOLDERS[to]).join(path.file_name().unwrap());
        let is_copied = self.random.below(2) == 0;
        let mut left = if is_copied { files.clone() } else { Files::new() };
        let of_store = files.iter().filter(|(path, _)| path.parent() == Some(Path::new(FOLDERS[self.folder])));
        left.extend(of_store.map(|(path, bytes)| (moved(path), bytes.clone())));
        self.disk = Disk::holding(left, self.random.next(), SECTOR);
        self.folder = to;
    }
}

/// Lives of 24 sessions. How many ended in which way: closed, dropped, killed, without power.
fn lives(seeds: impl Iterator<Item = u64>) -> [usize; 4] {
    let mut ends = [0; 4];
    for seed in seeds {
        let mut life = Life {
            disk: Disk::new(seed, SECTOR),
            folder: 0,
            random: Random::new(seed),
            possible: vec![Content::new()],
            ends,
        };
        for _ in 0..24 {
            life.session();
            if life.random.below(4) == 0 {
                life.move_or_copy();
            }
        }
        life.open();
        ends = life.ends;
    }
    ends
}

#[test]
fn a_store_lives_through_many_sessions() {
    let [closed, dropped, killed, cut] = lives(rounds(24));
    println!("sessions: {closed} closed, {dropped} dropped, {killed} killed, {cut} without power");
    assert!(closed.min(dropped).min(killed).min(cut) > 0);
}
