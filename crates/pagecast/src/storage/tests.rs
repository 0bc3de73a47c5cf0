//! One suite for all storage: memory, positional, io_uring, declared and faulty answer alike, one
//! by one and together.
#![allow(clippy::unwrap_used)]
// A read of one range takes a list of one range.
#![allow(clippy::single_range_in_vec_init)]

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pagecast_core::random::Random;

use super::*;
use crate::blocking::block_on;
use crate::{PolicySpec, Pool, PoolError, PoolOptions};

#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod seccomp_unsafe;

const PAGE: usize = 4096;

/// A device and the name of its file.
struct Backend {
    name: &'static str,
    device: Device,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// All backends, each with its own file of `content`.
fn backends(content: &[u8]) -> Vec<Backend> {
    let memory = || {
        let files = MemoryFiles::new();
        files.write("table", content);
        files
    };
    let model = DeclaredModel { bandwidth: 10_000_000_000, latency: Duration::from_micros(10), outstanding: 8 };
    let faulty = |files| FaultStorage { files, faults: Faults::default() };
    let mut backends = vec![
        ("memory", Device::new(memory(), None)),
        ("positional", Device::local()),
        ("declared", Device::declared(model)),
        ("declared memory", Device::new(memory(), Some(model))),
        ("faulty", Device::new(faulty(LocalFiles), None)),
    ];
    let ring = UringFiles::new();
    match ring.refused() {
        None => {
            backends.push(("io_uring", Device::uring()));
            let files = FaultStorage { files: ring, faults: Faults::default() };
            backends.push(("faulty io_uring", Device::new(files, None)));
        }
        Some(reason) => crate::skipped(&format!("io_uring is refused: {reason}")),
    }
    let backend = |(name, device): (&'static str, Device)| {
        let folder = tempfile::tempdir().unwrap();
        let path = if name.ends_with("memory") { "table".into() } else { folder.path().join("table") };
        if !name.ends_with("memory") {
            std::fs::write(&path, content).unwrap();
        }
        Backend { name, device, path, _folder: folder }
    };
    backends.into_iter().map(backend).collect()
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ (i >> 12) as u8).collect()
}

/// Memory for direct requests.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Self(memory, start)
    }

    fn of(bytes: &[u8]) -> Self {
        let mut aligned = Self::new(bytes.len());
        aligned.bytes().copy_from_slice(bytes);
        aligned
    }

    fn bytes(&mut self) -> &mut [u8] {
        let end = self.0.len() - PAGE + self.1;
        &mut self.0[self.1..end]
    }
}

/// One request, made once.
struct Once<'a, 'b> {
    offset: u64,
    way: Way<'a, 'b>,
    answer: Option<io::Result<usize>>,
}

enum Way<'a, 'b> {
    Read(&'a mut [IoSliceMut<'b>]),
    Write(&'a [IoSlice<'b>]),
}

impl<'a, 'b> Once<'a, 'b> {
    fn new(offset: u64, way: Way<'a, 'b>) -> Self {
        Self { offset, way, answer: None }
    }
}

impl Errand for &mut Once<'_, '_> {
    fn request(&mut self) -> Option<Request<'_>> {
        let transfer = match &mut self.way {
            Way::Read(bufs) => Transfer::Read(bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect()),
            Way::Write(bufs) => Transfer::Write(bufs.iter().map(|buf| IoSlice::new(buf)).collect()),
        };
        self.answer.is_none().then_some(Request { offset: self.offset, transfer })
    }

    fn answer(&mut self, answer: io::Result<usize>) {
        self.answer = Some(answer);
    }

    fn end(self: Box<Self>) {
        assert!(self.answer.is_some(), "it ends when it is answered");
    }
}

fn make_all(file: &dyn Storage, requests: &mut [Once<'_, '_>]) {
    let mut rest = requests.iter_mut();
    file.serve(&mut || Some(Box::new(rest.next()?)));
}

#[test]
fn requests_made_together_are_answered_each_for_itself() {
    let content = content(300 * PAGE + 1000);
    for Backend { name, device, path, .. } in backends(&content) {
        let file = device.open(&path).unwrap();
        // More than a ring holds, far apart and in no order, the last ones at and beyond the end.
        let mut memory: Vec<_> = (0..300).map(|_| (Aligned::new(PAGE), Aligned::new(2 * PAGE))).collect();
        let page = |number: usize| number * 7919 % 302;
        let mut bufs: Vec<_> =
            memory.iter_mut().map(|(a, b)| [IoSliceMut::new(a.bytes()), IoSliceMut::new(b.bytes())]).collect();
        let mut requests: Vec<_> = bufs
            .iter_mut()
            .enumerate()
            .map(|(number, bufs)| Once::new((page(number) * PAGE) as u64, Way::Read(bufs)))
            .collect();
        make_all(file.as_ref(), &mut requests);
        let answers: Vec<_> = requests.into_iter().map(|request| request.answer.unwrap().unwrap()).collect();
        for (number, ((first, rest), read)) in memory.iter_mut().zip(answers).enumerate() {
            let start = (page(number) * PAGE).min(content.len());
            let expected = &content[start..(start + 3 * PAGE).min(content.len())];
            assert_eq!(read, expected.len(), "{name}: request {number}");
            let got: Vec<u8> = first.bytes().iter().chain(rest.bytes().iter()).copied().take(read).collect();
            assert!(got == expected, "{name}: request {number}");
        }
        assert_eq!(device.stats().requests, 300, "{name}");
    }
}

#[test]
fn readings_go_on_to_the_end_however_long() {
    let content = content(2 * MAX_REQUEST + 5 * PAGE + 77);
    for Backend { name, device, path, .. } in backends(&content) {
        let file = device.open(&path).unwrap();
        let (mut all, mut some) = (Aligned::new(content.len().next_multiple_of(PAGE)), Aligned::new(3 * PAGE));
        some.bytes()[2 * PAGE..].fill(7);
        let mut bufs = [[IoSliceMut::new(all.bytes())], [IoSliceMut::new(some.bytes())]];
        let [a, b] = &mut bufs;
        let storage = file.as_ref();
        let (a, b) = (a.as_mut_slice(), b.as_mut_slice());
        let mut readings = [Reading::new(storage, 0, a), Reading::new(storage, (2 * MAX_REQUEST + 4 * PAGE) as u64, b)];
        read_all(storage, &mut readings);
        let read: Vec<_> = readings.into_iter().map(|reading| reading.outcome().0.unwrap()).collect();
        assert_eq!(read, [content.len(), PAGE + 77], "{name}");
        assert!(all.bytes()[..content.len()] == content, "{name}");
        assert!(some.bytes()[..PAGE + 77] == content[2 * MAX_REQUEST + 4 * PAGE..], "{name}");
        assert!(some.bytes()[2 * PAGE..] == [7; PAGE], "{name}: behind the end of the file");
    }
}

/// Reads and writes in random batches, against a copy in memory.
#[test]
fn a_mix_of_reads_and_writes_is_what_a_copy_says() {
    let mut random = Random::new(5);
    for Backend { name, device, path, .. } in backends(&content(200 * PAGE)) {
        let mut copy = content(200 * PAGE);
        let file = device.open_to_write(&path, false).unwrap();
        assert!(file.is_writable(), "{name}");
        for _ in 0..20 {
            // Each page at most once in a batch: the order within is open.
            let mut pages: Vec<usize> = (0..220).collect();
            (0..80).for_each(|i| pages.swap(i, i + random.below(220 - i as u32) as usize));
            let fresh: Vec<u8> = (0..PAGE).map(|_| random.below(256) as u8).collect();
            let mut written = Aligned::of(&fresh);
            let written = [IoSlice::new(written.bytes())];
            let mut memory: Vec<_> = (0..40).map(|_| Aligned::new(PAGE)).collect();
            let mut bufs: Vec<_> = memory.iter_mut().map(|page| [IoSliceMut::new(page.bytes())]).collect();
            let reads = bufs.iter_mut().zip(&pages[..40]).map(|(b, page)| (*page, Way::Read(b)));
            let writes = pages[40..80].iter().map(|page| (*page, Way::Write(&written)));
            let requests = reads.chain(writes).map(|(page, way)| Once::new((page * PAGE) as u64, way));
            let mut requests: Vec<_> = requests.collect();
            requests.swap(3, 60);
            make_all(file.as_ref(), &mut requests);
            let before = copy.clone();
            for request in requests {
                let (start, done) = (request.offset as usize, request.answer.unwrap().unwrap());
                if let Way::Write(_) = request.way {
                    assert_eq!(done, PAGE, "{name}");
                    copy.resize(copy.len().max(start + PAGE), 0);
                    copy[start..start + PAGE].copy_from_slice(&fresh);
                }
            }
            for (page, memory) in pages[..40].iter().zip(&mut memory) {
                let expected = before.get(page * PAGE..(page + 1) * PAGE);
                assert!(expected.is_none_or(|expected| expected == memory.bytes()), "{name}: page {page}");
            }
            assert_eq!(file.len(), copy.len() as u64, "{name}");
        }
        file.sync().unwrap();
        drop(file);
        let (file, mut all) = (device.open(&path).unwrap(), Aligned::new(220 * PAGE));
        assert_eq!(file.len(), copy.len() as u64, "{name}: as another finds it");
        let mut bufs = [IoSliceMut::new(all.bytes())];
        let mut readings = [Reading::new(file.as_ref(), 0, bufs.as_mut_slice())];
        read_all(file.as_ref(), &mut readings);
        drop(readings);
        assert!(all.bytes()[..copy.len()] == copy, "{name}");
    }
}

#[test]
fn a_request_that_cannot_be_made_fails_alone() {
    let content = content(20 * PAGE);
    for Backend { name, device, path, .. } in backends(&content).into_iter().filter(|b| !b.name.ends_with("memory")) {
        let file = device.open(&path).unwrap();
        let mut memory: Vec<_> = (0..5).map(|_| Aligned::new(PAGE)).collect();
        let mut bufs: Vec<_> = memory.iter_mut().map(|page| [IoSliceMut::new(page.bytes())]).collect();
        let offsets = [0, PAGE as u64, 1 << 63, 3 * PAGE as u64, 4 * PAGE as u64];
        let mut requests: Vec<_> =
            bufs.iter_mut().zip(offsets).map(|(b, offset)| Once::new(offset, Way::Read(b))).collect();
        make_all(file.as_ref(), &mut requests);
        for (number, request) in requests.into_iter().enumerate() {
            match request.answer.unwrap() {
                Ok(read) => assert!(number != 2 && read == PAGE, "{name}: request {number}"),
                Err(error) => assert!(number == 2 && error.kind() != ErrorKind::Interrupted, "{name}: {error}"),
            }
        }
        assert!(memory[3].bytes() == &content[3 * PAGE..4 * PAGE], "{name}");
        assert_eq!(device.stats().failed, 1, "{name}");
    }
}

#[test]
fn faults_in_the_middle_of_a_batch_meet_their_request_only() {
    let content = content(64 * PAGE);
    for files in [Some(UringFiles::new()).filter(|files| files.refused().is_none()), None] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        std::fs::write(&path, &content).unwrap();
        let faults = Faults::default();
        let device = match files {
            Some(files) => Device::new(FaultStorage { files, faults: faults.clone() }, None),
            None => Device::new(FaultStorage { files: LocalFiles, faults: faults.clone() }, None),
        };
        let file = device.open(&path).unwrap();
        let mut memory: Vec<_> = (0..4).map(|_| Aligned::new(4 * PAGE)).collect();
        let mut bufs: Vec<_> = memory.iter_mut().map(|page| [IoSliceMut::new(page.bytes())]).collect();
        let reading = |(i, bufs)| Reading::new(file.as_ref(), (i * 4 * PAGE) as u64, bufs);
        let mut readings: Vec<_> = bufs.iter_mut().map(|b| b.as_mut_slice()).enumerate().map(reading).collect();
        // The first comes in three parts, the second is interrupted and comes then, the third
        // fails.
        faults.plan([
            Fault::Short(PAGE + 100),
            Fault::Short(2 * PAGE),
            Fault::None,
            Fault::Error(ErrorKind::Interrupted),
            Fault::None,
            Fault::Error(ErrorKind::Other),
        ]);
        read_all(file.as_ref(), &mut readings);
        let outcomes: Vec<_> = readings.into_iter().map(|reading| reading.outcome().0.ok()).collect();
        assert_eq!(outcomes, [Some(4 * PAGE), Some(4 * PAGE), None, Some(4 * PAGE)]);
        for i in [0, 1, 3] {
            assert!(memory[i].bytes() == &content[i * 4 * PAGE..(i + 1) * 4 * PAGE], "request {i}");
        }
    }
}

#[test]
fn writes_made_together_go_on_until_they_are_done_and_fail_each_by_itself() {
    for Backend { name, device, path, .. } in backends(&[]) {
        let file = device.open_to_write(&path, true).unwrap();
        let mut memory: Vec<_> = (0..50u8).map(|byte| Aligned::of(&vec![byte; 2 * PAGE])).collect();
        // The last one longer than a request may be.
        memory.push(Aligned::of(&content(MAX_REQUEST + PAGE)));
        let bytes: Vec<&[u8]> = memory.iter_mut().map(|page| &*page.bytes()).collect();
        let offset = |number: usize| (number * 3 * PAGE) as u64;
        let writes = bytes.iter().enumerate().map(|(i, bytes)| Storing::new(file.as_ref(), offset(i), bytes));
        let mut writes: Vec<_> = writes.collect();
        write_all(file.as_ref(), &mut writes);
        writes.into_iter().for_each(|write| write.outcome().unwrap());
        assert_eq!((device.stats().requests, file.len()), (52, offset(50) + bytes[50].len() as u64), "{name}");
        let mut back = Aligned::new(file.len() as usize);
        let read = &mut [IoSliceMut::new(back.bytes())];
        make_all(file.as_ref(), &mut [Once::new(0, Way::Read(read))]);
        for (number, expected) in bytes.iter().enumerate() {
            let start = offset(number) as usize;
            let end = (start + expected.len()).min(MAX_REQUEST);
            assert!(back.bytes()[start..end] == expected[..end - start], "{name}: write {number}");
        }
    }
    let (files, faults) = (MemoryFiles::new(), Faults::default());
    let device = Device::new(FaultStorage { files, faults: faults.clone() }, None);
    let file = device.open_to_write("table".as_ref(), true).unwrap();
    let page = [7; 10];
    let mut writes: Vec<_> = (0..3).map(|i| Storing::new(file.as_ref(), i * 10, &page)).collect();
    faults.plan_writes([WriteFault::Short(4), WriteFault::None, WriteFault::Torn(3), WriteFault::Short(0)]);
    write_all(file.as_ref(), &mut writes);
    let outcomes: Vec<_> = writes.into_iter().map(|write| write.outcome().err().map(|error| error.kind())).collect();
    assert_eq!(outcomes, [None, Some(ErrorKind::Other), Some(ErrorKind::WriteZero)]);
}

fn pool(device: &Device, memory: u64) -> Pool {
    let policy = PolicySpec::parse("lru").unwrap();
    Pool::new(PoolOptions::default().memory(memory).page_size(PAGE as u32).policy(policy).device(device.clone()))
        .unwrap()
}

#[test]
fn a_pool_reads_the_same_bytes_over_every_backend() {
    let content = content(500 * PAGE + 123);
    for Backend { name, device, path, .. } in backends(&content) {
        let pool = pool(&device, 400_000);
        let table = pool.open(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let (table, content) = (&table, &content);
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    for _ in 0..20 {
                        // Pages far apart: many requests at once.
                        let ranges: Vec<_> = (0..30)
                            .map(|_| u64::from(random.below(500 * PAGE as u32)))
                            .map(|start| start..(start + 100).min(table.len()))
                            .collect();
                        let read = table.read_blocking(&ranges, None).unwrap();
                        for (range, data) in ranges.iter().zip(&read.data) {
                            assert!(data == &content[range.start as usize..range.end as usize], "{name}");
                        }
                    }
                });
            }
        });
        assert_eq!(pool.pinned(), 0, "{name}");
        assert!(pool.stats().evictions > 0, "{name}");
    }
}

#[test]
fn a_file_that_is_cut_off_is_named() {
    for Backend { name, device, path, .. } in backends(&content(300 * PAGE)) {
        if name.ends_with("memory") {
            continue;
        }
        let pool = pool(&device, 1 << 20);
        let table = pool.open(&path).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100 * PAGE as u64 + 5).unwrap();
        let ranges: Vec<_> = (0..60).map(|i| i * 5 * PAGE as u64..(i * 5 + 1) * PAGE as u64).collect();
        let error = table.read_blocking(&ranges, None).unwrap_err();
        assert!(matches!(&error, PoolError::Changed { path: named, .. } if *named == path), "{name}: {error}");
        assert_eq!(pool.pinned(), 0, "{name}");
    }
}

#[test]
fn a_pool_that_goes_with_requests_under_way_leaves_them_their_memory() {
    let expected = content(2000 * PAGE);
    for Backend { name, device, path, .. } in backends(&expected) {
        for round in 0..10 {
            let pool = pool(&device, 4 << 20);
            let table = pool.open(&path).unwrap();
            let page = |i: u64| (i * 9 + round) * PAGE as u64;
            let ranges: Vec<_> = (0..200).map(|i| page(i)..page(i) + PAGE as u64).collect();
            let mut read = Box::pin(table.read(&ranges, None));
            let begun = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            drop((pool, table));
            // Every other one is left alone with its requests; the others have all that they need.
            if round % 2 == 0 {
                continue;
            }
            let result = match begun {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => block_on(read).unwrap(),
            };
            for (range, data) in ranges.iter().zip(&result.data) {
                assert!(data == &expected[range.start as usize..range.end as usize], "{name}: {range:?}");
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn where_the_kernel_forbids_rings_requests_are_positional_and_the_device_says_why() {
    let content = content(300 * PAGE);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    std::fs::write(&path, &content).unwrap();
    let check = |device: &Device, word: &str| {
        let pool = pool(device, 1 << 20);
        let table = pool.open(&path).unwrap();
        let ranges: Vec<_> = (0..100).map(|i| i * 3 * PAGE as u64..(i * 3 + 1) * PAGE as u64).collect();
        let read = table.read_blocking(&ranges, None).unwrap();
        for (range, data) in ranges.iter().zip(&read.data) {
            assert!(data == &content[range.start as usize..range.end as usize]);
        }
        let described = device.describe();
        assert!(
            described.contains("positional because io_uring is refused") && described.contains(word),
            "{described}"
        );
    };
    // As under a container's filter.
    let forbid = |call| seccomp_unsafe::refuse(call, None, libc::EPERM);
    std::thread::scope(|scope| {
        scope.spawn(|| match forbid(libc::SYS_io_uring_setup) {
            Ok(()) => check(&Device::uring(), "not permitted"),
            Err(error) => crate::skipped(&format!("no filter can be set here: {error}")),
        });
        // A ring can be made, but not used.
        scope.spawn(|| match forbid(libc::SYS_io_uring_enter) {
            Ok(()) => check(&Device::uring(), "not permitted"),
            Err(error) => crate::skipped(&format!("no filter can be set here: {error}")),
        });
        // The ring worked when the device was made.
        let device = Device::uring();
        scope.spawn(move || {
            if device.describe().contains("refused") {
                return crate::skipped(&device.describe());
            }
            match forbid(libc::SYS_io_uring_enter) {
                Ok(()) => check(&device, "not permitted"),
                Err(error) => crate::skipped(&format!("no filter can be set here: {error}")),
            }
        });
    });
}

/// A file that another thread makes longer whenever somebody has just looked at it.
struct Growing(Arc<dyn Storage>);

impl Storage for Growing {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn generation(&self) -> Generation {
        self.0.generation()
    }

    fn current(&self) -> io::Result<Generation> {
        let now = self.0.current()?;
        self.0.set_len(self.0.len() + PAGE as u64)?;
        Ok(now)
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_at(offset, bufs)
    }

    fn direct(&self) -> DirectIo {
        self.0.direct()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn is_writable(&self) -> bool {
        true
    }
}

#[test]
fn a_file_that_grows_while_it_is_looked_at_has_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = Device::local().open_to_write(&folder.path().join("table"), true).unwrap();
    let growing = Growing(file);
    for _ in 0..3 {
        growing.verify_unchanged().unwrap();
    }
}
