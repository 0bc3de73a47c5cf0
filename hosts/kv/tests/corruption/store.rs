//! Stores to be damaged.

use std::collections::BTreeMap;

use pagecast::storage::Device;
use pagecast_core::random::Random;
use pagecast_kv::{Options, Store};

use super::disk::{Disk, End, Files, SECTOR};

pub(crate) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// What has happened to a store before it is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The power was cut while the log was in its first file.
    FirstFile,
    /// The power was cut while both files of the log were needed.
    BothFiles,
    /// The power was cut after a checkpoint.
    Checkpointed,
    /// It was closed.
    Closed,
    /// It was opened and closed many times, and the power was cut in the last session.
    Sessions,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::FirstFile, Self::BothFiles, Self::Checkpointed, Self::Closed, Self::Sessions];
}

pub(crate) struct Victim {
    pub(crate) kind: Kind,
    pub(crate) files: Files,
    /// All that was acknowledged.
    pub(crate) content: Content,
    /// What it was before the last flush of the log, unless pages tell.
    pub(crate) before_last: Option<Content>,
    /// The files some time before.
    pub(crate) earlier: Files,
    /// Those of another store.
    pub(crate) sister: Files,
}

pub(crate) fn options(disk: &Disk) -> Options {
    let device = Device::new(disk.clone(), None);
    Options::default().memory(300_000).log_size(32 << 10).tuples(None).device(device)
}

struct Writer {
    disk: Disk,
    store: Option<Store>,
    random: Random,
    content: Content,
    before_last: Content,
}

impl Writer {
    fn new(seed: u64) -> Self {
        let (disk, random) = (Disk::new(seed, SECTOR), Random::new(seed));
        let mut writer = Self { disk, store: None, random, content: Content::new(), before_last: Content::new() };
        writer.open();
        writer
    }

    fn open(&mut self) {
        self.store = Some(Store::open("store", options(&self.disk)).unwrap());
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// So many acknowledged puts, each of them a flush.
    fn put(&mut self, count: usize) {
        for _ in 0..count {
            let key = format!("{:04}", self.random.below(300)).into_bytes();
            let value = vec![self.random.below(256) as u8; 40 + self.random.below(160) as usize];
            self.store().put(&key, &value).unwrap();
            self.before_last = self.content.clone();
            self.content.insert(key, value);
        }
    }

    fn close(&mut self) {
        self.store.take().unwrap().close().unwrap();
    }
}

impl Victim {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let (mut writer, mut sister) = (Writer::new(seed), Writer::new(!seed));
        let both = [&mut writer, &mut sister];
        let mut earlier = Files::new();
        for writer in both {
            match kind {
                Kind::FirstFile => writer.put(20),
                _ => writer.put(250),
            }
            earlier = std::mem::replace(&mut earlier, writer.disk.files());
            match kind {
                Kind::FirstFile => writer.put(40),
                Kind::BothFiles => writer.put(180),
                Kind::Checkpointed => {
                    writer.store().checkpoint().unwrap();
                    writer.store().flush().unwrap();
                    writer.put(3);
                }
                Kind::Closed => {
                    writer.put(50);
                    writer.close();
                }
                Kind::Sessions => {
                    for _ in 0..8 {
                        writer.put(15);
                        writer.close();
                        writer.open();
                    }
                    writer.put(30);
                }
            }
            if earlier.is_empty() {
                earlier = writer.disk.files();
            }
        }
        let files = |writer: &Writer| writer.disk.after(End::PowerLost, &mut Random::new(seed)).files();
        Self {
            kind,
            files: files(&writer),
            before_last: (kind != Kind::Closed).then(|| writer.before_last.clone()),
            content: writer.content.clone(),
            earlier,
            sister: files(&sister),
        }
    }
}
