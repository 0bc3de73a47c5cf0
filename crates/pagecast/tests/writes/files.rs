//! Files: how they grow, and what is refused or found damaged.

use super::*;

#[test]
fn a_file_grows_by_pages_of_zeros() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    assert!(matches!(table.pin_mut(0, None), Err(PoolError::NoPage { block: 0, pages: 0, .. })));
    assert_eq!((table.grow(3).unwrap(), table.grow(2).unwrap(), table.pages()), (0, 3, 5));
    let mut page = table.pin_mut(4, None).unwrap();
    assert_eq!(page[..], [0; PAGE - SEAL_BYTES as usize]);
    assert_eq!(page.lsn(), Lsn::NONE);
    page.fill(3);
    page.logged(Lsn(12));
    drop(page);
    pool.flush().unwrap();
    let again = Pool::new(setup_like(&pool).device(pool.device().clone())).unwrap();
    let table = again.open_to_write(Path::new("new"), &sealed()).unwrap();
    let page = table.pin(4, None).unwrap();
    assert_eq!((page[0], page.lsn(), page.len()), (3, Lsn(12), PAGE - SEAL_BYTES as usize));
    let ranges = std::slice::from_ref(&(0..10));
    assert!(matches!(table.read_blocking(ranges, None), Err(PoolError::Sealed { .. })));
}

fn setup_like(pool: &Pool) -> PoolOptions {
    PoolOptions::default().memory(1 << 20).page_size(pool.page_size()).writer(by_hand())
}

#[test]
fn damaged_misplaced_and_lost_pages_are_named() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options.clone()).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    table.grow(4).unwrap();
    (0..4).for_each(|block| fill(&table, block, block as u8));
    pool.close().unwrap();
    let mut bytes = setup.files.read(Path::new("new")).unwrap().to_vec();
    bytes[PAGE + 100] ^= 4;
    bytes.copy_within(3 * PAGE.., 2 * PAGE);
    setup.files.write("new", bytes);
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    assert_eq!(table.pin(0, None).unwrap()[0], 0);
    let error = table.pin(1, None).unwrap_err();
    assert!(matches!(error, PoolError::Checksum { block: 1, .. }), "{error}");
    assert!(error.to_string().starts_with("new: page 1"), "{error}");
    let error = table.pin(2, None).unwrap_err();
    assert!(matches!(error, PoolError::Misplaced { block: 2, found: 3, .. }), "{error}");
    setup.faults.plan([Fault::Error(ErrorKind::Other)]);
    assert!(matches!(table.pin_mut(3, None), Err(PoolError::Io { .. })));
    assert_eq!(table.pin_mut(3, None).unwrap()[0], 3);
}

#[test]
fn files_that_are_not_what_is_said_are_refused() {
    let setup = setup(1 << 20, "lru");
    setup.files.write("odd", vec![0; PAGE + 1]);
    let pool = Pool::new(setup.options.clone()).unwrap();
    let refused = |name: &str, options: WriteOptions| {
        let error = pool.open_to_write(Path::new(name), &options).unwrap_err();
        assert!(error.to_string().starts_with(name), "{error}");
        error
    };
    assert!(matches!(refused("odd", raw()), PoolError::PartialPage { len: 4097, .. }));
    let more = raw().pages(65);
    assert!(matches!(refused("table", more), PoolError::Shorter { pages: 64, declared: 65, .. }));
    assert!(matches!(refused("none", raw()), PoolError::Open { .. }));
    let readable = pool.open(Path::new("table")).unwrap();
    assert!(matches!(readable.pin_mut(0, None), Err(PoolError::NotWritable { .. })));
    assert!(matches!(readable.grow(1), Err(PoolError::NotWritable { .. })));
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    assert!(matches!(readable.pin(0, None), Err(PoolError::Changed { .. })), "it is another relation now");
    drop(table);

    for (ours, theirs) in [(8192, 4096), (4096, 16384)] {
        let options = |page_size| setup.options.clone().page_size(page_size);
        let pool = Pool::new(options(ours)).unwrap();
        let name = format!("of {ours}");
        let table = pool.open_to_write(Path::new(&name), &sealed()).unwrap();
        table.grow(8).unwrap();
        (0..8).for_each(|block| fill(&table, block, 1));
        pool.close().unwrap();
        let error = Pool::new(options(theirs)).unwrap().open_to_write(Path::new(&name), &sealed()).unwrap_err();
        assert!(matches!(error, PoolError::OtherPageSize { given, found, .. } if (given, found) == (theirs, ours)));
    }
}

#[test]
fn local_files_are_written_past_the_cache_and_by_one_pool_at_a_time() {
    for device in [Device::local(), Device::uring()] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let options = setup(1 << 20, "lru")
            .options
            .double_write(DoubleWriteOptions::new(folder.path().join("area")))
            .device(device);
        let pool = Pool::new(options.clone()).unwrap();
        println!("{}", pool.device().describe());
        let table = pool.open_to_write(&path, &sealed()).unwrap();
        let first = table.grow(100).unwrap();
        for block in first..first + 100 {
            let mut page = table.pin_mut(block, None).unwrap();
            page.fill(block as u8);
            page.logged(Lsn(u64::from(block) + 1));
        }
        let written = pool.flush().unwrap();
        assert_eq!(written.requests, 1, "neighbours are one request");
        fill(&table, first, 77);
        pool.close().unwrap();
        table.verify().unwrap();

        let other = Pool::new(options.double_write(None).device(Device::local())).unwrap();
        let refused = other.open_to_write(&path, &sealed()).unwrap_err();
        assert!(refused.to_string().contains("somebody else has it open to write"), "{refused}");
        drop((table, pool));
        // The threads of the first pool let go of the file when they end.
        let table = loop {
            match other.open_to_write(&path, &sealed()) {
                Ok(table) => break table,
                Err(_) => std::thread::yield_now(),
            }
        };
        assert_eq!(table.pages(), first + 100);
        for block in first + 1..first + 100 {
            let page = table.pin(block, None).unwrap();
            assert_eq!((page[0], page.lsn()), (block as u8, Lsn(u64::from(block) + 1)));
        }
        assert_eq!(table.pin(first, None).unwrap()[100], 77);
    }
}

/// A file is removed and made anew under its name while a page of it is pinned, and changed after
/// that: nothing waits for the page for ever.
#[test]
fn a_file_that_is_made_anew_takes_its_pages_with_it() {
    for alone in [false, true] {
        let setup = setup(1 << 20, "lru");
        let pool = Pool::new(setup.options).unwrap();
        let old = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        [1, 2].into_iter().for_each(|block| fill(&old, block, 9));
        let (reader, writer) = match alone {
            false => (Some(old.pin(1, None).unwrap()), None),
            true => (None, Some(old.pin_mut(1, None).unwrap())),
        };
        setup.files.write("table", vec![6; 64 * PAGE]);
        let new = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        assert_ne!(new.id(), old.id());
        if let Some(mut page) = writer {
            page.fill(8);
        }
        fill(&new, 3, 7);
        assert_eq!(pool.flush().unwrap().pages, 1);
        drop(reader);
        assert_eq!(pool.write_back(1 << 20).unwrap().pages, 0);
        pool.close().unwrap();
        assert_eq!((pool.dirty(), pool.snapshot().frames.unwritten), (0, 0));
        let stored = [1, 2, 3].map(|block| stored(&setup.files, "table", block)[0]);
        assert_eq!(stored, [6, 6, 7], "a page of the former file is in the new one");
        pool.check();
    }
}
