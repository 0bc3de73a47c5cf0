//! Which content a relation is of: files that are opened while others are, and storage that says by
//! itself what it holds.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use std::io::{self, IoSliceMut, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::time::Duration;

use pagecast::storage::{Changed, Device, DirectIo, Generation, MemoryFiles, Opener, Storage};
use pagecast::{Pool, PoolError, PoolOptions};

fn options() -> PoolOptions {
    PoolOptions::default().memory(8 << 20)
}

/// Files whose opening waits for whatever `before` does.
struct Opening<F> {
    files: MemoryFiles,
    before: F,
}

impl<F: Fn(&Path) + Send + Sync> Opener for Opening<F> {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        (self.before)(path);
        self.files.open(path)
    }

    fn describe(&self) -> String {
        "memory, opened slowly".to_owned()
    }
}

#[test]
fn a_file_that_is_long_in_opening_holds_up_no_other() {
    let files = MemoryFiles::new();
    files.write("slow", vec![1; 100]);
    files.write("quick", vec![2; 100]);
    let pool: Arc<OnceLock<Pool>> = Arc::default();
    let opening = pool.clone();
    let before = move |path: &Path| {
        if path == Path::new("slow") {
            // Opened by another thread while this one is asked for.
            let (pool, (sender, opened)) = (opening.get().unwrap().clone(), mpsc::channel());
            std::thread::spawn(move || sender.send(pool.open("quick".as_ref()).map(drop)));
            opened.recv_timeout(Duration::from_secs(60)).expect("the other file was held up").unwrap();
        }
    };
    let made = Pool::new(options().device(Device::new(Opening { files, before }, None))).unwrap();
    pool.set(made).unwrap();
    assert_eq!(pool.get().unwrap().open("slow".as_ref()).unwrap().pin(0, None).unwrap()[0], 1);
}

#[test]
fn those_who_open_a_name_at_the_same_time_get_one_relation() {
    let files = MemoryFiles::new();
    files.write("table", vec![1; 100]);
    // All four are asked for before the first of them is there.
    let barrier = Barrier::new(4);
    let before = move |_: &Path| {
        barrier.wait();
    };
    let pool = Pool::new(options().device(Device::new(Opening { files, before }, None))).unwrap();
    let open = || {
        let table = pool.open("table".as_ref()).unwrap();
        assert_eq!(table.pin(0, None).unwrap()[0], 1);
        table.id()
    };
    let ids = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(pool.snapshot().relations.len(), 1);
}

/// A relation that is closed is closed for all who have it; pins stay; the name can be opened anew.
#[test]
fn a_closed_relation_is_read_by_nobody() {
    let files = MemoryFiles::new();
    files.write("table", vec![1; 300_000]);
    files.write("written", vec![1; 1 << 16]);
    let pool = Pool::new(options().device(Device::new(files, None))).unwrap();
    let (table, clone) = (pool.open("table".as_ref()).unwrap(), pool.open("table".as_ref()).unwrap());
    table.read_into_blocking(0, &mut Box::new_uninit_slice(300_000), None).unwrap();
    let (owned, pinned) = (clone.pin_owned(0, None).unwrap(), clone.pin(1, None).unwrap());
    table.close().unwrap();
    table.close().unwrap();
    assert_eq!((owned[0], pinned[0], pool.snapshot().frames.resident), (1, 1, 2));
    let refused = |error: PoolError| assert!(matches!(error, PoolError::RelationClosed { .. }), "{error}");
    refused(clone.pin(0, None).unwrap_err());
    refused(clone.pin(4, None).unwrap_err());
    refused(clone.read_into_blocking(0, &mut Box::new_uninit_slice(10), None).map(drop).unwrap_err());
    refused(clone.read_uncached_blocking(0..10).unwrap_err());
    refused(clone.verify().unwrap_err());
    let again = pool.open("table".as_ref()).unwrap();
    assert_ne!(again.id(), table.id());
    assert_eq!(again.pin(0, None).unwrap()[0], 1);
    // Closing the old one again says nothing of the new one.
    clone.close().unwrap();
    assert_eq!(again.pin(1, None).unwrap()[0], 1);
    assert_eq!(pool.snapshot().relations.len(), 1);
    let written = pool.open_to_write("written".as_ref(), &Default::default()).unwrap();
    assert!(matches!(written.close(), Err(PoolError::OpenToWrite { .. })));
    drop((owned, pinned));
    pool.check();
    assert_eq!(pool.pinned(), 0);
}

/// Threads that read while another closes: each gets its bytes or is told, and no frame is lost.
#[test]
fn relations_are_closed_while_others_read_them() {
    let files = MemoryFiles::new();
    files.write("table", vec![1; 40 << 16]);
    let pool = Pool::new(options().memory(2 << 20).device(Device::new(files, None))).unwrap();
    let (done, reads) = (std::sync::atomic::AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (pool, done, reads) = (&pool, &done, &reads);
            scope.spawn(move || {
                let mut block = thread;
                while !done.load(Relaxed) {
                    let table = pool.open("table".as_ref()).unwrap();
                    block = (block + 7) % 40;
                    match table.pin_owned(block, None) {
                        Ok(page) => assert_eq!((page[0], page[65_535]), (1, 1)),
                        Err(error) => {
                            assert!(matches!(error, PoolError::RelationClosed { .. } | PoolError::NoFrame { .. }))
                        }
                    }
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        // Readers may begin late on a machine that is busy.
        let mut closed = 0;
        while closed < 300 || reads.load(Relaxed) < 300 {
            pool.open("table".as_ref()).unwrap().close().unwrap();
            closed += 1;
            std::thread::yield_now();
        }
        done.store(true, Relaxed);
    });
    pool.check();
    assert_eq!((pool.pinned(), pool.snapshot().frames.loading), (0, 0));
    let again = pool.open("table".as_ref()).unwrap();
    again.read_into_blocking(0, &mut Box::new_uninit_slice(40 << 16), None).unwrap();
}

/// What a store holds under one name, and how often it was asked what that is.
#[derive(Default)]
struct Store {
    now: Mutex<Vec<u8>>,
    tag: AtomicU32,
    looked: AtomicU32,
}

impl Store {
    fn put(&self, bytes: Vec<u8>) {
        *self.now.lock().unwrap() = bytes;
        self.tag.fetch_add(1, Relaxed);
    }

    /// As a listing tells it.
    fn listed(self: &Arc<Self>, modified: i128) -> Arc<dyn Storage> {
        let tag = self.tag.load(Relaxed);
        let size = self.now.lock().unwrap().len() as u64;
        let generation = Generation::of_object(size, modified, Some(&tag.to_string()));
        Arc::new(Object { store: self.clone(), name: "store://table".into(), generation, tag })
    }
}

struct Object {
    store: Arc<Store>,
    name: PathBuf,
    generation: Generation,
    tag: u32,
}

impl Storage for Object {
    fn path(&self) -> &Path {
        &self.name
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn current(&self) -> io::Result<Generation> {
        self.store.looked.fetch_add(1, Relaxed);
        Ok(self.generation)
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let now = self.store.now.lock().unwrap();
        if self.store.tag.load(Relaxed) != self.tag {
            return Err(Changed { how: "its tag is another one".to_owned() }.into());
        }
        (&now[now.len().min(offset as usize)..]).read_vectored(bufs)
    }

    fn compares_reads(&self) -> bool {
        true
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }
}

#[test]
fn what_compares_its_answers_is_not_looked_at() {
    let (store, pool) = (Arc::new(Store::default()), Pool::new(options()).unwrap());
    store.put(vec![1; 300_000]);
    let table = pool.open_storage(&store.listed(5)).unwrap();
    assert_eq!(pool.open_storage(&store.listed(5)).unwrap().id(), table.id());
    assert_eq!(table.pin(0, None).unwrap()[0], 1);

    store.put(vec![2; 300_000]);
    assert_eq!(table.pin(0, None).unwrap()[0], 1, "what is resident is of the generation that was opened");
    for _ in 0..2 {
        let error = table.pin(3, None).map(drop).unwrap_err();
        assert!(matches!(error, PoolError::Changed { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("store://table") && error.contains("its tag is another one"), "{error}");
    }
    assert!(table.read_blocking(std::slice::from_ref(&(200_000..300_000)), None).is_err());
    assert_eq!(pool.open_storage(&store.listed(6)).unwrap().pin(3, None).unwrap()[0], 2);
    assert_eq!(store.looked.load(Relaxed), 0);
}

#[test]
fn a_newer_generation_takes_the_place_of_an_older_one_and_not_the_other_way() {
    let (store, pool) = (Arc::new(Store::default()), Pool::new(options()).unwrap());
    store.put(vec![1; 100]);
    let old = store.listed(5);
    let first = pool.open_storage(&old).unwrap();
    drop(first.pin(0, None).unwrap());
    store.put(vec![2; 100]);
    let second = pool.open_storage(&store.listed(6)).unwrap();
    assert_ne!(first.id(), second.id());
    assert!(matches!(first.pin(0, None).map(drop), Err(PoolError::Changed { .. })));

    // Whoever was planned with the old listing ends, and those of the new one go on.
    let error = pool.open_storage(&old).unwrap_err().to_string();
    assert!(error.contains("store://table") && error.contains("a newer one"), "{error}");
    assert_eq!(second.pin(0, None).unwrap()[0], 2);

    // Where nobody knows the time, what was opened last is taken for the newest.
    store.put(vec![3; 100]);
    assert_eq!(pool.open_storage(&store.listed(0)).unwrap().pin(0, None).unwrap()[0], 3);
    assert!(second.pin(0, None).is_err());
    pool.check();
}
