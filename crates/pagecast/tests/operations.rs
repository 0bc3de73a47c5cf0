//! What an operator sees and sets.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use std::path::Path;

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{Format, Pool, PoolOptions, Relation, WriteOptions};

const PAGE: u32 = 4096;

/// A pool of some 200 frames over two files of 400 pages; the first bytes of a page are its number.
fn pool(options: PoolOptions) -> (Pool, Relation, Relation) {
    let files = MemoryFiles::new();
    let bytes: Vec<u8> = (0..400u32).flat_map(|page| page.to_le_bytes().repeat(PAGE as usize / 4)).collect();
    files.write("a \"table\"", bytes.clone());
    files.write("other", bytes);
    let device = Device::new(files, None);
    let pool = Pool::new(options.memory(1 << 20).page_size(PAGE).device(device)).unwrap();
    let (table, other) = (pool.open(Path::new("a \"table\"")).unwrap(), pool.open(Path::new("other")).unwrap());
    (pool, table, other)
}

fn touch(relation: &Relation, blocks: std::ops::Range<u32>) {
    for block in blocks {
        assert_eq!(relation.pin(block, None).unwrap()[..4], block.to_le_bytes());
    }
}

#[test]
fn a_snapshot_counts_frames_and_relations() {
    let (pool, table, other) = pool(PoolOptions::default().count_relations(true));
    touch(&table, 0..20);
    touch(&table, 0..10);
    touch(&other, 5..6);
    let pin = table.pin(3, None).unwrap();
    let snapshot = pool.snapshot();
    let frames = snapshot.frames;
    assert_eq!((frames.resident, frames.pinned, frames.loading, frames.retired), (21, 1, 0, 0));
    assert_eq!(frames.in_use, frames.resident + frames.free);
    assert_eq!((snapshot.stats.requests, snapshot.stats.hits), (32, 11));
    let [first, second] = &snapshot.relations[..] else { panic!("two files are open") };
    assert_eq!((first.resident, first.pinned, first.pages), (20, 1, 400));
    let requests = first.requests.unwrap();
    assert_eq!((requests.requests, requests.hits, requests.waits), (31, 11, 0));
    assert_eq!((second.resident, second.requests.unwrap().requests), (1, 1));
    drop(pin);
    pool.check();
}

#[test]
fn requests_are_not_counted_by_relation_unless_asked_for() {
    let (pool, table, _) = pool(PoolOptions::default());
    touch(&table, 0..5);
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.relations[0].resident, snapshot.relations[0].requests), (5, None));
}

#[test]
fn prometheus_text_has_a_head_for_each_name_and_escapes_labels() {
    let (pool, table, _) = pool(PoolOptions::default().count_relations(true));
    touch(&table, 0..7);
    let text = pool.snapshot().prometheus().to_string();
    assert!(text.contains("pagecast_relation_pages_resident{path=\"a \\\"table\\\"\"} 7\n"), "{text}");
    assert!(text.contains("pagecast_relation_requests_total{path=\"a \\\"table\\\"\"} 7\n"), "{text}");
    let mut heads = std::collections::HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(heads.insert(name), "{name} has two heads");
            assert!(name.ends_with("_total") == (kind == "counter"), "{line}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(heads.contains(name), "{name} has no head");
            assert!(line.rsplit(' ').next().unwrap().parse::<u64>().is_ok(), "{line}");
        }
    }
}

#[test]
#[cfg(feature = "prometheus")]
fn the_endpoint_answers_and_ends_with_its_handle() {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    let (pool, table, _) = pool(PoolOptions::default());
    touch(&table, 0..7);
    let endpoint = pagecast::metrics::Endpoint::start(&pool, 0).unwrap();
    let address = endpoint.address();
    assert!(address.ip().is_loopback());
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert!(body.contains("\npagecast_loads_total 7\n"), "{body}");
    assert!(ask("GET / HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 405 "));
    // A scraper that talks nonsense or for ever is cut off, and the next one is answered.
    let _ = ask(&"x".repeat(20 << 10));
    assert!(ask("GET /metrics HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 200 "));
    drop(endpoint);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn hot_pages_come_back_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let hot = folder.path().join("hot");
    let options = || PoolOptions::default().policy("clock".parse().unwrap());
    let (before, table, other) = pool(options());
    touch(&table, 0..60);
    touch(&other, 100..120);
    (0..3).for_each(|_| touch(&table, 10..30));
    assert_eq!(before.dump_hottest(&hot, usize::MAX).unwrap(), 80);
    assert_eq!(before.dump_hottest(&hot, 20).unwrap(), 20);

    let (after, table, _) = pool(options());
    let reloaded = after.reload(&hot).unwrap().wait();
    assert_eq!((reloaded.loaded, reloaded.failed, reloaded.no_room), (20, 0, 0), "{reloaded:?}");
    let loads = after.stats().loads;
    touch(&table, 10..30);
    assert_eq!((after.stats().loads, after.stats().hits), (loads, 20), "the hottest are the ones that were used most");
    assert_eq!(after.reload(&hot).unwrap().wait().resident, 20, "nothing is brought twice");
    after.check();
}

#[test]
fn a_reload_displaces_nothing_and_leaves_out_what_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let hot = folder.path().join("hot");
    let files = MemoryFiles::new();
    files.write("table", vec![1; 600 * PAGE as usize]);
    files.write("gone", vec![1; 20 * PAGE as usize]);
    let start = || {
        let device = Device::new(files.clone(), None);
        Pool::new(PoolOptions::default().memory(1 << 20).page_size(PAGE).device(device)).unwrap()
    };
    let open = |pool: &Pool, name: &str| pool.open(Path::new(name)).unwrap();
    let before = start();
    let [table, gone] = ["table", "gone"].map(|name| open(&before, name));
    drop(gone.read_blocking(std::slice::from_ref(&(0..gone.len())), None).unwrap());
    drop(table.read_blocking(std::slice::from_ref(&(0..80 * u64::from(PAGE))), None).unwrap());
    assert_eq!(before.dump_hottest(&hot, usize::MAX).unwrap(), 100);

    files.write("gone", vec![2; 20 * PAGE as usize]);
    let after = start();
    let [table, _] = ["table", "gone"].map(|name| open(&after, name));
    let filled = (after.frames() - 50) as u64 * u64::from(PAGE);
    drop(table.read_blocking(std::slice::from_ref(&(200 * u64::from(PAGE)..200 * u64::from(PAGE) + filled)), None));
    let reloaded = after.reload(&hot).unwrap().wait();
    assert_eq!((reloaded.loaded, reloaded.left_out, reloaded.no_room), (50, 20, 30), "{reloaded:?}");
    assert_eq!(after.stats().evictions, 0);
    after.check();
}

#[test]
fn a_dump_that_cannot_be_used_names_file_and_fault() {
    let folder = tempfile::tempdir().unwrap();
    let hot = folder.path().join("hot");
    let (pool, table, _) = pool(PoolOptions::default());
    touch(&table, 0..5);
    assert!(pool.reload(&hot).unwrap_err().to_string().contains("hot: reading the list of hot pages failed"));
    std::fs::write(&hot, b"something else that is long enough to be one").unwrap();
    let error = pool.reload(&hot).unwrap_err().to_string();
    assert!(error.ends_with("hot: not a list of hot pages, or damaged at byte 0: it begins otherwise"), "{error}");
    pool.dump_hottest(&hot, usize::MAX).unwrap();
    let larger = Pool::new(PoolOptions::default().memory(4 << 20)).unwrap();
    let error = larger.reload(&hot).unwrap_err().to_string();
    assert!(error.ends_with("hot: lists pages of 4096 bytes, and this pool's have 65536"), "{error}");
    assert!(pool.dump_hottest(&folder.path().join("no/folder"), 1).is_err());
}

fn resident(pool: &Pool, relation: &Relation) -> u32 {
    pool.snapshot().relations.iter().find(|view| view.id == relation.id()).unwrap().resident
}

fn every_policy() -> impl Iterator<Item = &'static str> {
    pagecast::policy::names().filter(|name| *name != "opt")
}

#[test]
fn a_capped_relation_takes_its_frames_and_no_others() {
    for policy in every_policy() {
        let (pool, table, other) = pool(PoolOptions::default().policy(policy.parse().unwrap()));
        touch(&table, 0..60);
        other.cap(Some(10)).unwrap();
        touch(&other, 0..400);
        assert_eq!((resident(&pool, &other), resident(&pool, &table)), (10, 60), "{policy}");
        touch(&other, 390..400);
        assert_eq!(pool.stats().hits, 10, "{policy}: the ten pages that came last are there");
        other.cap(None).unwrap();
        touch(&other, 0..50);
        assert!(resident(&pool, &other) > 40, "{policy}: the bound is gone");
        pool.check();
    }
}

#[test]
fn pinned_pages_exceed_a_cap_until_they_are_unpinned() {
    let (pool, table, _) = pool(PoolOptions::default());
    touch(&table, 0..40);
    table.cap(Some(5)).unwrap();
    let pins: Vec<_> = (0..20).map(|block| table.pin(block, None).unwrap()).collect();
    touch(&table, 100..130);
    assert!((20..=21).contains(&resident(&pool, &table)), "{}", resident(&pool, &table));
    drop(pins);
    touch(&table, 200..201);
    assert_eq!(resident(&pool, &table), 5);
    pool.check();
}

#[test]
fn a_capped_scan_leaves_the_others_pages() {
    use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};

    let (pool, table, other) = pool(PoolOptions::default().policy("lru".parse().unwrap()));
    touch(&table, 0..100);
    let runs = [Run { first: 0, blocks: 400, position: 0, span: 400 }];
    let parts = [Part { relation: other.id(), pages: Pages::Runs(&runs) }];
    let scan = pool.register(&ScanSpec { kind: ScanKind(0), length: 400, parts: &parts }).unwrap();
    scan.cap(Some(8));
    for block in 0..400 {
        drop(other.pin(block, Some(scan.id())).unwrap());
    }
    assert_eq!((resident(&pool, &other), resident(&pool, &table)), (8, 100));
    drop(scan);
    touch(&other, 0..100);
    assert!(resident(&pool, &other) > 90, "the bound ended with the scan");
    pool.check();
}

#[test]
fn scans_of_one_share_leave_the_others_pages() {
    use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};

    let (pool, table, other) = pool(PoolOptions::default().policy("lru".parse().unwrap()));
    touch(&table, 0..100);
    let runs = [Run { first: 0, blocks: 400, position: 0, span: 400 }];
    let parts = [Part { relation: other.id(), pages: Pages::Runs(&runs) }];
    let spec = ScanSpec { kind: ScanKind(0), length: 400, parts: &parts };
    let share = pool.share(8);
    // The second begins where the first has ended, with what it left behind.
    for _ in 0..2 {
        let scan = share.register(&spec).unwrap();
        for block in 0..400 {
            drop(other.pin(block, Some(scan.id())).unwrap());
        }
        assert_eq!((resident(&pool, &other), resident(&pool, &table)), (8, 100));
    }
    // Two at once have it together.
    let scans = [share.register(&spec).unwrap(), share.register(&spec).unwrap()];
    for block in 0..400 {
        let scan = &scans[block as usize / 10 % 2];
        drop(other.pin(block, Some(scan.id())).unwrap());
    }
    assert_eq!((resident(&pool, &other), resident(&pool, &table)), (8, 100));
    drop(share);
    touch(&other, 0..100);
    assert!(resident(&pool, &other) > 90, "the bound ended with the share");
    pool.check();
}

#[test]
fn kept_pages_stay_under_every_policy_while_others_can_leave() {
    for policy in every_policy() {
        let (pool, table, other) = pool(PoolOptions::default().policy(policy.parse().unwrap()));
        table.reserve(30).unwrap();
        touch(&table, 0..30);
        (0..3).for_each(|_| touch(&other, 0..400));
        assert_eq!(resident(&pool, &table), 30, "{policy}");
        // All frames for pages that are kept: then one of them leaves.
        table.reserve(1000).unwrap();
        touch(&table, 0..400);
        touch(&other, 0..5);
        table.reserve(0).unwrap();
        (0..4).for_each(|_| touch(&other, 0..400));
        assert!(resident(&pool, &table) < 200, "{policy}: like any others");
        pool.check();
    }
}

#[test]
fn seventeen_relations_cannot_be_kept() {
    let files = MemoryFiles::new();
    (0..17).for_each(|n| files.write(format!("{n}"), vec![0; PAGE as usize]));
    let options = PoolOptions::default().memory(1 << 20).page_size(PAGE).device(Device::new(files, None));
    let pool = Pool::new(options).unwrap();
    let open: Vec<_> = (0..17).map(|n| pool.open(format!("{n}").as_ref()).unwrap()).collect();
    open[..16].iter().for_each(|relation| relation.reserve(1).unwrap());
    assert!(open[16].reserve(1).unwrap_err().to_string().starts_with("16: no frames can be reserved: 16 relations"));
    open[3].reserve(0).unwrap();
    open[16].reserve(1).unwrap();
}

#[test]
fn a_file_that_was_written_comes_back_warm_if_the_dump_follows_the_close() {
    let folder = tempfile::tempdir().unwrap();
    let hot = folder.path().join("hot");
    let files = MemoryFiles::new();
    let start = || {
        let device = Device::new(files.clone(), None);
        Pool::new(PoolOptions::default().memory(1 << 20).page_size(PAGE).device(device)).unwrap()
    };
    let options = WriteOptions::default().create(true).format(Format::Sealed);
    let before = start();
    let table = before.open_to_write(Path::new("written"), &options).unwrap();
    table.grow(10).unwrap();
    let mut page = table.pin_mut(4, None).unwrap();
    page[0] = 9;
    assert_eq!(before.snapshot().frames.pinned, 1);
    drop(page);
    before.close().unwrap();
    assert_eq!(before.snapshot().frames.unwritten, 0);
    assert_eq!(before.dump_hottest(&hot, usize::MAX).unwrap(), 1);
    drop((table, before));

    let after = start();
    let table = after.open_to_write(Path::new("written"), &options).unwrap();
    assert_eq!(after.reload(&hot).unwrap().wait().loaded, 1);
    assert_eq!(table.pin(4, None).unwrap()[0], 9);
    assert_eq!(after.stats().hits, 1);
}

/// A table is rewritten again and again while it is read: 50 of its 500 files go each time.
#[test]
fn files_that_nobody_opens_any_more_are_let_go() {
    let files = MemoryFiles::new();
    let memory = PoolOptions::default().memory(1 << 20).page_size(PAGE);
    let pool = Pool::new(memory.device(Device::new(files.clone(), None))).unwrap();
    let open = |name: &str| {
        files.read(Path::new(name)).map(drop).unwrap_or_else(|_| files.write(name, vec![1; PAGE as usize]));
        pool.open(Path::new(name)).unwrap()
    };
    let (held, resident) = (open("held"), open("resident").id());
    for round in 0..400 {
        let ids = || (round * 50..round * 50 + 500).map(|number| open(&number.to_string()).id()).collect::<Vec<_>>();
        assert_eq!(ids(), ids(), "what is in use stays");
        assert_eq!(open("resident").pin(0, None).unwrap()[0], 1);
    }
    let open_now = pool.snapshot().relations.len();
    assert!(open_now < 5_000, "{open_now} files are open");
    assert_eq!((open("held").id(), open("resident").id()), (held.id(), resident));
    pool.check();
}

/// Each file is read once, and removed.
#[test]
fn files_that_are_gone_are_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::new(PoolOptions::default().memory(1 << 20).page_size(PAGE)).unwrap();
    for number in 0..5_000 {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, [1; 10]).unwrap();
        drop(pool.open(&path).unwrap());
        std::fs::remove_file(path).unwrap();
    }
    let open_now = pool.snapshot().relations.len();
    assert!(open_now <= 1_024, "{open_now} files are open");
}
