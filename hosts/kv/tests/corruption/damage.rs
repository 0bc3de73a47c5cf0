//! Ways to damage a store.

use std::path::PathBuf;

use pagecast_core::random::Random;

use super::disk::{Files, SECTOR};
use super::store::Victim;

const NAMES: [&str; 4] = ["log.0", "log.1", "data", "double"];
const PAGE: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Flip {
        name: &'static str,
        offset: usize,
        bit: u8,
    },
    Zero {
        name: &'static str,
        offset: usize,
        length: usize,
    },
    Garbage {
        name: &'static str,
        offset: usize,
        length: usize,
        byte: u8,
    },
    Cut {
        name: &'static str,
        length: usize,
    },
    Remove {
        name: &'static str,
    },
    /// Two pieces of a file change places.
    Swap {
        name: &'static str,
        one: usize,
        other: usize,
        length: usize,
    },
    /// Two files change places.
    Exchange {
        name: &'static str,
        with: &'static str,
    },
    /// A file is a copy of another.
    Copy {
        name: &'static str,
        of: &'static str,
    },
    /// A file is one of another store.
    Sister {
        name: &'static str,
    },
    /// A file, or a piece of it, is as it was before.
    Earlier {
        name: &'static str,
        offset: usize,
        length: usize,
    },
}

use Damage::{Copy, Cut, Earlier, Exchange, Flip, Garbage, Remove, Sister, Swap, Zero};

fn path(name: &str) -> PathBuf {
    PathBuf::from(format!("store/{name}"))
}

impl Damage {
    /// Does it; whether it has changed anything.
    pub(crate) fn apply(&self, files: &mut Files, victim: &Victim) -> bool {
        let before = files.clone();
        match *self {
            Flip { name, offset, bit } => {
                if let Some(byte) = files.get_mut(&path(name)).and_then(|file| file.get_mut(offset)) {
                    *byte ^= 1 << bit;
                }
            }
            Zero { name, offset, length } => fill(files, name, offset, length, 0),
            Garbage { name, offset, length, byte } => fill(files, name, offset, length, byte),
            Cut { name, length } => {
                if let Some(file) = files.get_mut(&path(name)) {
                    file.truncate(length);
                }
            }
            Remove { name } => drop(files.remove(&path(name))),
            Swap { name, one, other, length } => {
                if let Some(file) = files.get_mut(&path(name))
                    && one.max(other) + length <= file.len()
                {
                    let piece = file[one..one + length].to_vec();
                    file.copy_within(other..other + length, one);
                    file[other..other + length].copy_from_slice(&piece);
                }
            }
            Exchange { name, with } => {
                let (one, other) = (files.remove(&path(name)), files.remove(&path(with)));
                files.extend(one.map(|file| (path(with), file)));
                files.extend(other.map(|file| (path(name), file)));
            }
            Copy { name, of } => {
                let copy = files.get(&path(of)).cloned();
                files.extend(copy.map(|file| (path(name), file)));
            }
            Sister { name } => files.extend(victim.sister.get(&path(name)).map(|file| (path(name), file.clone()))),
            Earlier { name, offset, length } => {
                if let (Some(file), Some(earlier)) = (files.get_mut(&path(name)), victim.earlier.get(&path(name))) {
                    let end = (offset + length).min(file.len()).min(earlier.len());
                    if offset < end {
                        file[offset..end].copy_from_slice(&earlier[offset..end]);
                    }
                }
            }
        }
        *files != before
    }

    /// Whether it may look as if a flush had never been made.
    pub(crate) fn takes_back(&self) -> bool {
        // Zeros are what is behind the end of a log.
        matches!(
            self,
            Zero { name: "log.0" | "log.1", .. }
                | Garbage { name: "log.0" | "log.1", byte: 0, .. }
                | Swap { name: "log.0" | "log.1", .. }
                | Earlier { name: "log.0" | "log.1", .. }
        )
    }

    pub(crate) fn draw(victim: &Victim, random: &mut Random) -> Self {
        let name = NAMES[random.below(4) as usize];
        let len = victim.files.get(&path(name)).map_or(1, Vec::len).max(1) as u32;
        let offset = random.below(len) as usize;
        let unit = [1, SECTOR, PAGE][random.below(3) as usize];
        let length = (1 + random.below(4) as usize) * unit;
        let whole = offset / unit * unit;
        match random.below(8) {
            0..3 => Flip { name, offset, bit: random.below(8) as u8 },
            3 => Zero { name, offset: whole, length },
            4 => Garbage { name, offset: whole, length, byte: random.below(256) as u8 },
            5 => Swap { name, one: whole, other: random.below(len) as usize / unit * unit, length: unit },
            6 if name != "data" => Earlier { name, offset: whole, length },
            _ => Cut { name, length: whole },
        }
    }
}

fn fill(files: &mut Files, name: &str, offset: usize, length: usize, byte: u8) {
    if let Some(file) = files.get_mut(&path(name)) {
        let end = (offset + length).min(file.len());
        file[offset.min(end)..end].fill(byte);
    }
}

/// Whole files, then every sector and every page, then bits.
pub(crate) fn all(victim: &Victim, random: &mut Random) -> impl Iterator<Item = Damage> {
    let mut all = Vec::new();
    for name in NAMES {
        let len = victim.files.get(&path(name)).map_or(0, Vec::len);
        all.extend([Remove { name }, Zero { name, offset: 0, length: len }, Sister { name }]);
        all.extend(
            [
                0,
                1,
                SECTOR - 1,
                SECTOR,
                PAGE - 1,
                PAGE,
                2 * PAGE,
                len / 2,
                len.saturating_sub(PAGE),
                len.saturating_sub(SECTOR),
                len.saturating_sub(1),
            ]
            .map(|length| Cut { name, length }),
        );
        all.extend(NAMES.iter().filter(|&&with| with > name).map(|&with| Exchange { name, with }));
        all.extend(NAMES.iter().filter(|&&of| of != name).map(|&of| Copy { name, of }));
        if name != "data" {
            all.push(Earlier { name, offset: 0, length: len });
        }
        // What a sector of the log says of itself, its records and its end; a header's fields.
        for sector in (0..len).step_by(SECTOR) {
            let unit = if name.starts_with("log") { 1 } else { PAGE / SECTOR };
            if sector / SECTOR % unit != 0 {
                continue;
            }
            let size = unit * SECTOR;
            all.extend([Zero { name, offset: sector, length: size }]);
            all.extend([0, 5, 12, 17, 24, 27, size / 2, size - 13, size - 1].map(|at| {
                let bit = random.below(8) as u8;
                Flip { name, offset: sector + at, bit }
            }));
            all.push(Swap { name, one: sector, other: random.below(len as u32) as usize / size * size, length: size });
            if name != "data" {
                all.push(Earlier { name, offset: sector, length: size });
            }
        }
    }
    // A part of them, so that the test is short; another one each time that its seed is.
    let (many, mut random) = (all.len(), Random::new(random.next()));
    all.into_iter()
        .enumerate()
        .filter(move |(at, _)| *at < 40 || many < 600 || random.below(many as u32) < 600)
        .map(|(_, damage)| damage)
}
