//! Frames that are registered with io_uring: read right, given back, and refused.
#![cfg(all(target_os = "linux", not(pagecast_shuttle)))]
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pagecast::storage::{Device, UringFiles};
use pagecast::{Pool, PoolOptions, Relation};
use pagecast_core::random::Random;

mod seccomp_unsafe;

const PAGE: u32 = 64 << 10;
/// Frames of a chunk.
const CHUNK: u32 = (4 << 20) / PAGE;
const PAGES: u32 = 12 * CHUNK;

/// A file in which each 4096 bytes begin with the number of their page, and of their place in it.
fn table() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for part in 0..PAGES * (PAGE / 4096) {
        let mut bytes = [7; 4096];
        bytes[..4].copy_from_slice(&part.to_le_bytes());
        file.write_all(&bytes).unwrap();
    }
    file.into_inner().unwrap();
    (folder, path)
}

fn check(pool: &Pool, table: &Arc<Relation>, block: u32) {
    let page = pool.pin(table, block, None).unwrap();
    for (part, bytes) in page.chunks(4096).enumerate() {
        let number = block * (PAGE / 4096) + part as u32;
        assert!(bytes[..4] == number.to_le_bytes(), "page {block}: part {part} is of another page, or of none");
    }
}

fn memory(frames: u32) -> u64 {
    // What goes with the frames, most of it the predictor, takes less than 16 of them here.
    u64::from(frames + 16) * u64::from(PAGE)
}

/// With a pool of `chunks` chunks of frames.
fn pool(files: &UringFiles, path: &Path, chunks: u32) -> (Pool, Arc<Relation>) {
    let device = Device::new(files.clone(), None);
    let options = PoolOptions { memory: memory(chunks * CHUNK), page_size: PAGE, device, ..Default::default() };
    let pool = Pool::new(options).unwrap();
    let table = pool.open(path).unwrap();
    (pool, table)
}

fn registered() -> Option<UringFiles> {
    let files = UringFiles::registered();
    if let Some(reason) = files.refused() {
        println!("skipped: io_uring is refused: {reason}");
        return None;
    }
    Some(files)
}

/// Misses each page of the table in turn.
fn scan(pool: &Pool, table: &Arc<Relation>) {
    (0..PAGES).for_each(|block| check(pool, table, block));
}

/// Bytes that the kernel holds for rings, of the whole process.
fn held_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPin:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// One after the other: what the kernel holds is told for the whole process.
#[test]
fn frames_are_held_when_they_are_in_use_and_as_long() {
    let Some(files) = registered() else { return };
    let (_folder, path) = table();
    let before = held_bytes();
    let (pool, table) = pool(&files, &path, 4);
    assert_eq!(held_bytes(), before, "no frame is in use yet");
    (0..CHUNK / 2).for_each(|block| check(&pool, &table, block));
    assert_eq!((held_bytes(), files.registered_requests()), (before, 0), "no chunk is wholly in use");
    for _ in 0..4 {
        scan(&pool, &table);
    }
    if files.registered_requests() == 0 {
        return println!("skipped: {}", pool.device().describe());
    }
    let (full, chunk) = (held_bytes() - before, u64::from(CHUNK * PAGE));
    let threads = u64::from(pool.device().threads());
    assert!(full >= 4 * chunk && full <= 5 * chunk * threads, "{full} bytes are held");

    pool.resize(memory(CHUNK)).unwrap();
    let shrunk = held_bytes() - before;
    assert!(shrunk <= 2 * chunk * threads && shrunk < full, "{shrunk} bytes of {full} are held after the shrink");
    let requests = files.registered_requests();
    scan(&pool, &table);
    assert!(files.registered_requests() > requests, "what is left is used");

    drop((table, pool));
    // The pool's memory goes with the last of its threads that has to do with it.
    for _ in 0..1_000 {
        if held_bytes() == before {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(held_bytes(), before);
    shrink_under_load(&files, &path);
}

/// Readers of random pages meet frames that get new memory all the time.
fn shrink_under_load(files: &UringFiles, path: &Path) {
    let (pool, table) = pool(files, path, 6);
    scan(&pool, &table);
    let (requests, done) = (files.registered_requests(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (pool, table, mut random) = (&pool, &table, Random::new(reader));
                scope.spawn(move || (0..2_000).for_each(|_| check(pool, table, random.below(PAGES))))
            })
            .collect();
        let (pool, done) = (&pool, &done);
        let resizer = scope.spawn(move || {
            for chunks in [6, 2, 5, 3].into_iter().cycle() {
                // In the middle of a chunk.
                pool.resize(memory(chunks * CHUNK) - u64::from(CHUNK / 3 * PAGE)).unwrap();
                pool.give_back_idle();
                std::thread::sleep(Duration::from_millis(3));
                if done.load(Relaxed) {
                    break;
                }
            }
        });
        // All have ended before one of them is asked how.
        let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        done.store(true, Relaxed);
        resizer.join().unwrap();
        ended.into_iter().for_each(|reader| reader.unwrap());
    });
    let made = files.registered_requests() - requests;
    println!("{made} of {} requests by registered buffers", pool.device().stats().requests);
    assert!(made > 0 && pool.pinned() == 0);
    scan(&pool, &table);
}

/// Operations of `io_uring_register` (of the kernel's interface).
const REGISTER_BUFFERS: u32 = 15;
const UPDATE_BUFFERS: u32 = 16;

#[test]
fn a_kernel_that_refuses_to_register_is_read_through_by_address_and_named() {
    let (_folder, path) = table();
    for operation in [REGISTER_BUFFERS, UPDATE_BUFFERS] {
        std::thread::scope(|scope| {
            let path = &path;
            scope.spawn(move || {
                let call = libc::SYS_io_uring_register;
                if let Err(error) = seccomp_unsafe::refuse(call, Some(operation), libc::ENOMEM) {
                    return println!("skipped: no filter can be set here: {error}");
                }
                // Its threads are started from here, and are refused as well.
                let Some(files) = registered() else { return };
                let (pool, table) = pool(&files, path, 4);
                scan(&pool, &table);
                scan(&pool, &table);
                let described = pool.device().describe();
                assert!(described.contains("registering is refused: ") && described.contains("memory"), "{described}");
                assert_eq!(files.registered_requests(), 0);
            });
        });
    }
}
