//! Schedules of writing: exclusive pins, write-back, checkpoint and close, against each other and
//! against evictions.
//!
//! A page's bytes are a number and the same number again, one after the other: who sees two
//! different ones has seen a change in the middle. What is written goes to a device of a few such
//! pages, in two steps as well, and a page that is loaded comes from there.

use super::*;
use crate::cache::{Exclusive, Upgrade};
use crate::paged_file::PagedFile;
use crate::seal::Format;
use crate::storage::{Device, MemoryFiles};
use crate::write::Writer;

/// What storage has of each page; locked for a step, not for a write.
pub(super) type Disk = Arc<std::sync::Mutex<[[u8; PAGE_BYTES]; 3]>>;

fn steps(bytes: &mut [u8], value: u8) {
    bytes[..PAGE_BYTES / 2].fill(value);
    others_may_run();
    bytes[PAGE_BYTES / 2..PAGE_BYTES].fill(value);
}

pub(super) fn whole(bytes: &[u8]) -> u8 {
    let first = bytes[0];
    others_may_run();
    assert_eq!(bytes[..PAGE_BYTES], [first; PAGE_BYTES], "a change is seen in the middle");
    first
}

/// Pins a page, loaded from `disk` if need be. None if there is no frame for it at the moment.
fn pin(cache: &Arc<Cache>, disk: &Disk, block: u32) -> Option<Held> {
    match cache.request(&mut Anyone, access(block)) {
        Request::Hit(held) => Some(held),
        Request::Joined { waiter, .. } => block_on(waiter).unwrap(),
        Request::Started(mut loading, waiter) => {
            if cache.place(&mut loading, &NoScans) == Placement::Placed {
                let content = disk.lock().unwrap()[block as usize];
                loading.bytes()[..PAGE_BYTES].copy_from_slice(&content);
                others_may_run();
                loading.publish(PAGE_BYTES as u32, 0);
            } else {
                loading.give_up();
            }
            block_on(waiter).unwrap()
        }
        Request::Full => None,
    }
}

fn alone(cache: &Arc<Cache>, mut held: Held) -> Option<Exclusive> {
    let block = cache.headers[held.index() as usize].page().block();
    loop {
        match cache.upgrade(held, access(block)) {
            Upgrade::Done(exclusive) => return Some(exclusive),
            Upgrade::Draining(others) => return Some(block_on(others)),
            Upgrade::Busy(waiter) => held = block_on(waiter).unwrap()?,
            Upgrade::Full => return None,
        }
    }
}

/// Adds one to the page that `pinned` pins. False if there was no frame.
pub(super) fn add_one_to(cache: &Arc<Cache>, pinned: impl FnOnce() -> Option<Held>) -> bool {
    let Some(mut page) = pinned().and_then(|held| alone(cache, held)) else { return false };
    let before = whole(page.bytes());
    steps(page.bytes_mut(), before + 1);
    page.changed(1);
    true
}

/// Adds one to a page. False if there was no frame.
fn add_one(cache: &Arc<Cache>, disk: &Disk, block: u32) -> bool {
    add_one_to(cache, || pin(cache, disk, block))
}

/// Writes a dirty page to its place on `disk`, if it is one.
fn write(cache: &Arc<Cache>, disk: &Disk, block: u32) {
    write_at(cache, disk, block, block as usize);
}

pub(super) fn write_at(cache: &Arc<Cache>, disk: &Disk, block: u32, place: usize) {
    let Some(index) = cache.find_dirty(page(block)) else { return };
    let mut copy = [0; PAGE_BYTES];
    if let Some(writing) = cache.begin_write(index, page(block), &mut copy) {
        whole(&copy);
        for half in [0..PAGE_BYTES / 2, PAGE_BYTES / 2..PAGE_BYTES] {
            others_may_run();
            disk.lock().unwrap()[place][half.clone()].copy_from_slice(&copy[half]);
        }
        writing.done();
    }
}

fn read(cache: &Arc<Cache>, disk: &Disk, block: u32) {
    if let Some(held) = pin(cache, disk, block) {
        whole(cache.bytes(&held));
        cache.unpin(held);
    }
}

pub(super) fn disk() -> Disk {
    Arc::new(std::sync::Mutex::new([[0; PAGE_BYTES]; 3]))
}

/// The count of page 0 after everything is written.
fn count(cache: &Arc<Cache>, disk: &Disk) -> u8 {
    write(cache, disk, 0);
    settled(cache, 3);
    whole(&disk.lock().unwrap()[0])
}

/// Two who change a page, one who writes it, and one who takes its only frame.
fn write_back_against_change() {
    let (cache, disk) = (cache("clock(max=1,init=0)", 1), disk());
    let changers: Vec<_> = (0..2)
        .map(|_| {
            let (cache, disk) = (cache.clone(), disk.clone());
            thread::spawn(move || u8::from(add_one(&cache, &disk, 0)) + u8::from(add_one(&cache, &disk, 0)))
        })
        .collect();
    let writer = thread::spawn({
        let (cache, disk) = (cache.clone(), disk.clone());
        move || (0..2).for_each(|_| write(&cache, &disk, 0))
    });
    read(&cache, &disk, 1);
    let changes: u8 = changers.into_iter().map(|changer| changer.join().unwrap()).sum();
    writer.join().unwrap();
    assert_eq!(count(&cache, &disk), changes, "a change was lost");
}

/// A page is written while it is changed, and its frame goes to another page and back.
fn evict_against_write_back() {
    let (cache, disk) = (cache("clock(max=1,init=0)", 1), disk());
    assert!(add_one(&cache, &disk, 0));
    let writer = thread::spawn({
        let (cache, disk) = (cache.clone(), disk.clone());
        move || write(&cache, &disk, 0)
    });
    read(&cache, &disk, 1);
    let changes = 1 + u8::from(add_one(&cache, &disk, 0));
    writer.join().unwrap();
    assert_eq!(count(&cache, &disk), changes, "a change was lost");
}

/// Readers and evictions against those who want a page alone.
fn evict_against_exclusive_pin() {
    let (cache, disk) = (cache("lru", 2), disk());
    let threads: Vec<_> = (0..3)
        .map(|visitor| {
            let (cache, disk) = (cache.clone(), disk.clone());
            thread::spawn(move || match visitor {
                0 => u8::from(add_one(&cache, &disk, 0)),
                1 => {
                    read(&cache, &disk, 0);
                    u8::from(add_one(&cache, &disk, 0))
                }
                _ => {
                    [1, 0, 2].into_iter().for_each(|block| read(&cache, &disk, block));
                    0
                }
            })
        })
        .collect();
    let changes: u8 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(count(&cache, &disk), changes, "a change was lost");
}

/// Somebody who wants a page alone goes away before it comes.
fn wish_is_cancelled() {
    let (cache, disk) = (cache("lru", 1), disk());
    let other = thread::spawn({
        let (cache, disk) = (cache.clone(), disk.clone());
        move || {
            read(&cache, &disk, 0);
            add_one(&cache, &disk, 0)
        }
    });
    if let Some(held) = pin(&cache, &disk, 0) {
        match cache.upgrade(held, access(0)) {
            Upgrade::Draining(wish) => {
                let mut wish = Box::pin(wish);
                let _ = wish.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            Upgrade::Done(exclusive) => drop(exclusive),
            Upgrade::Busy(waiter) => drop(waiter),
            Upgrade::Full => {}
        }
    }
    let changes = u8::from(other.join().unwrap());
    assert_eq!(count(&cache, &disk), changes);
}

/// A writer over a file of three pages, and the file.
fn writer(cache: &Arc<Cache>) -> (Arc<Writer>, MemoryFiles) {
    let files = MemoryFiles::new();
    files.write("table", vec![0; 3 * 4096]);
    let device = Device::new(files.clone(), None);
    let writer = Arc::new(Writer::new(cache.clone(), None, &device, None, 4096).unwrap());
    let storage = device.open_to_write("table".as_ref(), false).unwrap();
    writer.add(&Arc::new(PagedFile::new(RELATION, storage, Format::Raw, 4096, false).unwrap()));
    (writer, files)
}

/// As [`Pool::pin_mut`](crate::Pool::pin_mut) does it: changes a page unless the pool is closed.
fn add_one_if_open(cache: &Arc<Cache>, writer: &Writer, disk: &Disk) -> bool {
    if writer.latch.may_change().is_err() {
        return false;
    }
    let Some(mut page) = pin(cache, disk, 0).and_then(|held| alone(cache, held)) else { return false };
    if writer.latch.may_change().is_err() {
        return false;
    }
    let before = whole(page.bytes());
    steps(page.bytes_mut(), before + 1);
    page.changed(1);
    true
}

/// Closing against two who change a page and a round of the background writer.
fn close_against_everything() {
    let (cache, disk) = (cache("lru", 2), disk());
    let (writer, files) = writer(&cache);
    let changers: Vec<_> = (0..2)
        .map(|_| {
            let (cache, writer, disk) = (cache.clone(), writer.clone(), disk.clone());
            thread::spawn(move || u8::from(add_one_if_open(&cache, &writer, &disk)))
        })
        .collect();
    let background = thread::spawn({
        let writer = writer.clone();
        move || writer.round(1 << 20, 0.0).unwrap()
    });
    writer.close().unwrap();
    let at_close = files.read("table".as_ref()).unwrap()[0];
    let changes: u8 = changers.into_iter().map(|changer| changer.join().unwrap()).sum();
    background.join().unwrap();
    assert_eq!(at_close, changes, "a change came after the close, or was not written by it");
    assert!(cache.dirty().is_empty());
    settled(&cache, 1);
}

/// A checkpoint while the page is changed and written by others: what was changed before it is on
/// storage after it.
fn checkpoint_against_changes() {
    let (cache, disk) = (cache("lru", 2), disk());
    let (writer, files) = writer(&cache);
    assert!(add_one(&cache, &disk, 0));
    let other = thread::spawn({
        let (cache, disk) = (cache.clone(), disk.clone());
        move || assert!(add_one(&cache, &disk, 0))
    });
    let background = thread::spawn({
        let writer = writer.clone();
        move || writer.round(1 << 20, 0.0).unwrap()
    });
    writer.checkpoint(None).unwrap();
    let written = whole(&files.read("table".as_ref()).unwrap());
    assert!(written >= 1, "the checkpoint left a change that came before it");
    other.join().unwrap();
    background.join().unwrap();
    writer.checkpoint(None).unwrap();
    assert_eq!(whole(&files.read("table".as_ref()).unwrap()), 2);
}

#[test]
fn write_back_and_new_changes_lose_nothing() {
    explore(3_000, write_back_against_change);
    explore(3_000, evict_against_write_back);
}

#[test]
fn exclusive_pins_exclude_readers_evictions_and_each_other() {
    explore(3_000, evict_against_exclusive_pin);
    explore(3_000, wish_is_cancelled);
}

#[test]
fn closing_is_after_all_changes_or_before() {
    explore(3_000, close_against_everything);
}

#[test]
fn a_checkpoint_has_what_came_before_it() {
    explore(3_000, checkpoint_against_changes);
}

#[test]
fn mistake_of_a_page_that_leaves_while_it_is_written_is_caught() {
    must_be_caught(mistake::CLAIM_WHILE_WRITING, &["a change"], 6_000, evict_against_write_back);
}

#[test]
fn mistake_of_a_page_that_is_clean_when_its_write_ends_is_caught() {
    must_be_caught(mistake::CLEARED_LATE, &["a change was lost"], 10_000, write_back_against_change);
}

#[test]
fn mistake_of_a_page_that_is_had_alone_beside_readers_is_caught() {
    must_be_caught(mistake::NOT_DRAINED, &["a change"], 6_000, evict_against_exclusive_pin);
}

#[test]
fn mistake_of_a_close_that_looks_before_it_shuts_is_caught() {
    must_be_caught(mistake::CLOSED_LATE, &["a change came after"], 10_000, close_against_everything);
}
