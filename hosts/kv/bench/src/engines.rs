//! The stores that are compared, behind one face.

use std::path::Path;

use bf_tree::{BfTree, LeafReadResult, ScanReturnField};
use fjall::{Database as Fjall, Keyspace, KeyspaceCreateOptions};
use pagecast::TupleOptions;
use pagecast::storage::{DeclaredModel, Device};
use pagecast_kv::{Options, Store};
use redb::{Database as Redb, Durability, ReadableDatabase, TableDefinition};

pub const NAMES: [&str; 5] = ["pagecast-kv", "pagecast-kv-pages", "bf-tree", "redb", "fjall"];

/// A store. All of them return from a write before it is safe from a crash.
pub trait Engine: Sync {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool;
    fn put(&self, key: &[u8], value: &[u8]);
    /// Reads up to `count` entries from `key` on; how many there were.
    fn scan(&self, key: &[u8], count: usize) -> usize;
    /// Writes many entries.
    fn load(&self, entries: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) {
        entries.for_each(|(key, value)| self.put(&key, &value));
    }
    /// After loading: nothing of it is left to be written.
    fn settle(&self);
    /// Bytes of its memory, as far as it says.
    fn memory(&self) -> u64;
    /// What else it says of itself.
    fn describe(&self) -> String {
        String::new()
    }
}

/// Opens a new store in an empty folder, with so much memory. pagecast's device is `model`; the
/// others' reads are as slow after [`declare`](crate::slow_reads_unsafe::declare).
pub fn open(
    name: &str,
    folder: &Path,
    memory: u64,
    model: Option<DeclaredModel>,
    policy: &str,
) -> Option<Box<dyn Engine>> {
    let device = model.map_or_else(Device::local, Device::declared);
    Some(match name {
        "pagecast-kv" | "pagecast-kv-pages" => {
            let tuples = (name == "pagecast-kv").then(TupleOptions::default);
            let options = Options::default().memory(memory).sync_commits(false).device(device).tuples(tuples);
            Box::new(Store::open(folder, options.policy(policy.parse().ok()?)).expect("pagecast-kv"))
        }
        "redb" => {
            let mut builder = Redb::builder();
            builder.set_cache_size(memory as usize);
            let database = builder.create(folder.join("redb"));
            Box::new(database.expect("redb"))
        }
        "bf-tree" => {
            let mut config = bf_tree::Config::new(folder.join("bf-tree"), memory as usize);
            config.storage_backend(bf_tree::StorageBackend::StdDirect).cb_min_record_size(64);
            Box::new(BfTree::with_config(config, None).expect("bf-tree"))
        }
        "fjall" => {
            // What is not written yet comes on top; after loading there is nothing.
            let database = Fjall::builder(folder).cache_size(memory).open().expect("fjall");
            let options = || KeyspaceCreateOptions::default().max_memtable_size(memory / 4);
            let keyspace = database.keyspace("bench", options).expect("fjall");
            Box::new(Lsm { database, keyspace, memory })
        }
        _ => return None,
    })
}

impl Engine for Store {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        self.get_with(key, |found| value.extend_from_slice(found)).expect("get").is_some()
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.put(key, value).expect("put");
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        self.range(key..).take(count).filter(Result::is_ok).count()
    }

    fn settle(&self) {
        self.checkpoint().expect("checkpoint");
    }

    fn memory(&self) -> u64 {
        self.pool().memory().total
    }

    fn describe(&self) -> String {
        let tuples = self.pool().tuple_stats().map(|stats| format!("{stats:?}"));
        format!("{} frames, {} bytes; {}", self.pool().frames(), self.pool().memory().total, tuples.unwrap_or_default())
    }
}

impl Engine for BfTree {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.resize(4096, 0);
        matches!(self.read(key, value), LeafReadResult::Found(_))
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.insert(key, value);
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        let mut entry = [0; 4096];
        let mut scan = self.scan_with_count(key, count, ScanReturnField::KeyAndValue).expect("scan");
        let mut found = 0;
        while scan.next(&mut entry).is_some() {
            found += 1;
        }
        found
    }

    fn settle(&self) {}

    fn memory(&self) -> u64 {
        self.config().get_cb_size_byte() as u64
    }
}

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("bench");

impl Engine for Redb {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        let read = self.begin_read().expect("read");
        let table = read.open_table(TABLE).expect("table");
        let Some(found) = table.get(key).expect("get") else { return false };
        value.clear();
        value.extend_from_slice(found.value());
        true
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.put_all(&mut std::iter::once((key.to_vec(), value.to_vec())), Durability::None);
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        let read = self.begin_read().expect("read");
        let table = read.open_table(TABLE).expect("table");
        table
            .range(key..)
            .expect("range")
            .take(count)
            .filter(|entry| entry.as_ref().is_ok_and(|entry| !entry.1.value().is_empty()))
            .count()
    }

    fn load(&self, entries: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) {
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            self.put_all(&mut entries.by_ref().take(10_000), Durability::Immediate);
        }
    }

    fn settle(&self) {
        self.put_all(&mut std::iter::empty(), Durability::Immediate);
    }

    fn memory(&self) -> u64 {
        // It does not say; what it was given.
        crate::MEMORY
    }
}

trait PutAll {
    fn put_all(&self, entries: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>, durability: Durability);
}

impl PutAll for Redb {
    fn put_all(&self, entries: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>, durability: Durability) {
        let mut write = self.begin_write().expect("write");
        write.set_durability(durability).expect("durability");
        {
            let mut table = write.open_table(TABLE).expect("table");
            for (key, value) in entries {
                table.insert(&key[..], &value[..]).expect("insert");
            }
        }
        write.commit().expect("commit");
    }
}

struct Lsm {
    database: Fjall,
    keyspace: Keyspace,
    memory: u64,
}

impl Engine for Lsm {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        let Some(found) = self.keyspace.get(key).expect("get") else { return false };
        value.clear();
        value.extend_from_slice(&found);
        true
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.keyspace.insert(key, value).expect("insert");
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        self.keyspace.range(key.to_vec()..).take(count).filter_map(|entry| entry.into_inner().ok()).count()
    }

    fn settle(&self) {
        self.keyspace.rotate_memtable_and_wait().expect("flush");
        self.keyspace.major_compact().expect("compaction");
        self.database.persist(fjall::PersistMode::SyncAll).expect("persist");
    }

    fn memory(&self) -> u64 {
        self.memory
    }
}
