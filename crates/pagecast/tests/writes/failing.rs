//! What is said and kept when storage or log fail.

use super::*;

#[test]
fn a_failed_sync_ends_all_writing() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    fill(&table, 1, 1);
    setup.faults.plan_syncs([WriteFault::Error(ErrorKind::StorageFull)]);
    let error = pool.flush().unwrap_err();
    assert!(matches!(&error, PoolError::ReadOnly { cause } if matches!(**cause, PoolError::Sync { .. })), "{error}");
    assert!(error.to_string().contains("table"), "{error}");
    for again in [pool.flush().err(), pool.close().err(), table.pin_mut(1, None).err()] {
        assert!(matches!(again, Some(PoolError::ReadOnly { .. })), "a later sync that works does not hide it");
    }
    assert_eq!(table.pin(1, None).unwrap()[0], 1);
}

#[test]
fn a_failed_write_leaves_its_pages_dirty_and_names_the_file() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    [1, 2, 9].into_iter().for_each(|block| fill(&table, block, 1));
    setup.faults.plan_writes([WriteFault::Torn(5000)]);
    let error = pool.flush().unwrap_err();
    assert!(matches!(&error, PoolError::Write { offset: 4096, len: 8192, .. }), "{error}");
    assert!(error.to_string().contains("table"), "{error}");
    assert_eq!((pool.dirty(), pool.snapshot().frames.unwritten), (2, 2), "the other request was made");
    assert_eq!((pool.stats().pages_written, pool.stats().failed_writes), (1, 2));
    setup.faults.plan_writes([
        WriteFault::Short(1),
        WriteFault::Error(ErrorKind::Interrupted),
        WriteFault::Short(5000),
    ]);
    assert_eq!(pool.flush().unwrap().pages, 2);
    assert_eq!(stored(&setup.files, "table", 2), [1; PAGE]);
    setup.faults.plan_writes([WriteFault::Panic]);
    fill(&table, 1, 2);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.flush())).is_err());
    assert_eq!((pool.dirty(), pool.flush().unwrap().pages), (1, 1));
}

#[test]
fn when_nothing_can_be_written_a_pin_says_why_and_a_read_goes_past() {
    let setup = setup(160_000, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    (0..pool.frames()).for_each(|block| fill(&table, block, 1));
    setup.faults.plan_writes([WriteFault::Error(ErrorKind::StorageFull); 200]);
    let error = table.pin(63, None).unwrap_err();
    assert!(matches!(&error, PoolError::Write { .. }), "{error}");
    let last = 63 * PAGE as u64..64 * PAGE as u64;
    let read = table.read_blocking(std::slice::from_ref(&last), None).unwrap();
    assert_eq!((read.data[0][0], read.stats.bypassed_bytes), (5, PAGE as u64));
    setup.faults.clear();
    assert_eq!(table.pin(63, None).unwrap()[0], 5);
}

#[test]
fn a_torn_page_is_whole_again_after_a_double_write() {
    let setup = setup(1 << 20, "lru");
    let options = setup.options.clone().double_write(DoubleWriteOptions::new("area"));
    let pool = Pool::new(options.clone()).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    table.grow(4).unwrap();
    (0..4).for_each(|block| fill(&table, block, 1));
    pool.flush().unwrap();
    (1..3).for_each(|block| fill(&table, block, 2));
    setup.faults.plan_writes([WriteFault::None, WriteFault::Torn(PAGE + 512)]);
    pool.flush().unwrap_err();
    drop(pool);
    let without = Pool::new(setup.options.clone()).unwrap();
    let table = without.open_to_write(Path::new("new"), &sealed()).unwrap();
    assert!(matches!(table.pin(2, None), Err(PoolError::Checksum { block: 2, .. })));
    drop(without);
    let pool = Pool::new(options).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    let firsts: Vec<_> = (0..4).map(|block| table.pin(block, None).unwrap()[0]).collect();
    assert_eq!(firsts, [1, 2, 2, 1]);
}

/// The failed batch has left whole copies behind those of the next, which is shorter; they are
/// older.
#[test]
fn copies_of_a_batch_that_failed_are_not_taken_for_later_ones() {
    let setup = setup(1 << 20, "lru");
    let log = Arc::new(Counter::default());
    let double_write = Some(DoubleWriteOptions::new("area"));
    let options = setup.options.clone().log(log.clone()).double_write(double_write);
    let pool = Pool::new(options.clone()).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    let change = |block, byte| {
        let mut page = table.pin_mut(block, None).unwrap();
        page.fill(byte);
        page.logged(log.append());
    };
    // Page 2 is dirty longest, and comes after page 0 in the batch.
    change(2, 1);
    change(0, 1);
    setup.faults.plan_writes([WriteFault::Torn(usize::MAX)]);
    assert!(matches!(pool.flush(), Err(PoolError::Write { path, .. }) if path == Path::new("area")));
    assert!(stored(&setup.files, "table", 2) == [5; PAGE], "nothing is in place");
    change(2, 2);
    assert_eq!(pool.write_back(PAGE as u64).unwrap().pages, 1);
    assert!(stored(&setup.files, "table", 2) == [2; PAGE]);
    drop((table, pool));
    drop(Pool::new(options).unwrap());
    assert!(stored(&setup.files, "table", 2) == [2; PAGE], "an older copy was restored");
}
