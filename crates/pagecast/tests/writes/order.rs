//! What reaches storage, when, and in which order.

use super::*;

#[test]
fn a_change_is_seen_at_once_and_on_storage_after_a_flush() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    fill(&table, 3, 9);
    assert_eq!(table.pin(3, None).unwrap()[..], [9; PAGE]);
    assert_eq!(stored(&setup.files, "table", 3), [5; PAGE], "nothing is written before it has to be");
    assert_eq!((pool.dirty(), pool.flush().unwrap().pages, pool.dirty()), (1, 1, 0));
    assert_eq!(stored(&setup.files, "table", 3), [9; PAGE]);
    assert_eq!(pool.flush().unwrap().pages, 0);
    table.verify().unwrap();
    assert_eq!(pool.open(Path::new("table")).unwrap().id(), table.id(), "our own writes leave it the same relation");
}

#[test]
fn neighbours_are_written_together_and_a_page_is_not_dirty_for_being_looked_at() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    for block in [7, 5, 6, 20, 4] {
        fill(&table, block, 1);
    }
    assert_eq!(table.pin_mut(30, None).unwrap()[0], 5);
    let written = pool.flush().unwrap();
    assert_eq!((written.pages, written.requests), (5, 2));
    assert_eq!((pool.stats().pages_written, pool.stats().failed_writes, pool.device().stats().syncs), (5, 0, 1));
}

#[test]
fn dirty_pages_are_written_when_they_have_to_leave_under_every_policy() {
    for name in ["clock", "lru", "pbm", "random", "2q", "lirs", "arc", "w-tinylfu", "s3-fifo", "watt", "cflru", "cfdc"]
    {
        let setup = setup(160_000, name);
        let pool = Pool::new(setup.options).unwrap();
        assert!(pool.frames() < 32, "{name}: there are evictions");
        let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        for round in 1..4u8 {
            for block in 0..64 {
                let mut page = table.pin_mut(block, None).unwrap();
                assert_eq!(page[0], if round == 1 { 5 } else { round - 1 }, "{name}: block {block} in round {round}");
                page.fill(round);
            }
        }
        pool.flush().unwrap();
        assert!(setup.files.read(Path::new("table")).unwrap().iter().all(|&byte| byte == 3), "{name}");
        assert_eq!((pool.pinned(), pool.dirty()), (0, 0));
    }
}

#[test]
fn no_page_is_written_before_its_log() {
    let mut setup = setup(1 << 20, "lru");
    let log = Arc::new(Counter::default());
    setup.options.log = Some(log.clone());
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    for block in 0..5 {
        let mut page = table.pin_mut(block, None).unwrap();
        page.fill(1);
        page.logged(log.append());
        assert_eq!(page.lsn(), Lsn(u64::from(block) + 1));
    }
    assert_eq!(log.durable.load(SeqCst), 0);
    assert_eq!(pool.checkpoint(Lsn(3)).unwrap().pages, 2, "those whose first change is before record 3");
    assert_eq!(log.durable.load(SeqCst), 2);
    for (broken, word) in [(1, "disk is full"), (2, "durable up to log record 4 only")] {
        log.broken.store(broken, SeqCst);
        let error = pool.flush().unwrap_err();
        assert!(matches!(error, PoolError::Log { lsn: Lsn(5), .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(stored(&setup.files, "table", 4), [5; PAGE]);
        assert_eq!(pool.dirty(), 3, "they wait in the pool");
    }
    log.broken.store(0, SeqCst);
    assert_eq!(pool.flush().unwrap().pages, 3);
}

#[test]
fn a_checkpoint_goes_by_the_first_unwritten_change() {
    let mut setup = setup(1 << 20, "lru");
    let log = Arc::new(Counter::default());
    setup.options.log = Some(log.clone());
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    for block in [0, 1, 0] {
        let mut page = table.pin_mut(block, None).unwrap();
        page.fill(1);
        page.logged(log.append());
    }
    assert_eq!(pool.checkpoint(Lsn(1)).unwrap().pages, 0);
    assert_eq!(pool.checkpoint(Lsn(2)).unwrap().pages, 1, "block 0, although its last change is record 3");
    assert_eq!(pool.dirty(), 1);
}

#[test]
fn a_change_without_a_record_is_never_written() {
    for panics in [false, true] {
        let mut setup = setup(1 << 20, "lru");
        let log = Arc::new(Counter::default());
        setup.options.log = Some(log.clone());
        let pool = Pool::new(setup.options).unwrap();
        let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        let forget = std::panic::AssertUnwindSafe(|| {
            let mut page = table.pin_mut(7, None).unwrap();
            page[0] = 1;
            page.logged(log.append());
            page[1] = 2;
            assert!(!panics, "in the middle of a change");
        });
        assert_eq!(std::panic::catch_unwind(forget).is_err(), panics);
        let error = pool.flush().unwrap_err();
        assert!(
            matches!(&error, PoolError::ReadOnly { cause } if matches!(**cause, PoolError::Unlogged { block: 7, .. }))
        );
        assert!(error.to_string().contains("table: page 7"), "{error}");
        assert!(matches!(table.pin_mut(8, None), Err(PoolError::ReadOnly { .. })));
        assert_eq!(table.pin(8, None).unwrap()[0], 5, "pages can still be read");
        assert_eq!(stored(&setup.files, "table", 7), [5; PAGE]);
    }
}

#[test]
fn the_background_writer_keeps_to_its_share_and_its_rate() {
    let mut setup = setup(1 << 20, "lru");
    setup.options.writer.dirty_share = 0.1;
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    (0..64).for_each(|block| fill(&table, block, 1));
    let allowed = pool.frames() / 10;
    assert!(allowed < 60, "there is something to do");
    assert_eq!(pool.write_back(0).unwrap().pages, 0);
    assert_eq!(pool.write_back(1 << 30).unwrap().pages, 64, "neighbours come along");
    (0..64).step_by(2).for_each(|block| fill(&table, block, 2));
    assert_eq!(pool.write_back(3 * PAGE as u64).unwrap().pages, 3);
    assert_eq!(pool.write_back(1 << 30).unwrap().pages, 29 - u64::from(allowed));
    assert_eq!(pool.write_back(1 << 30).unwrap().pages, 0);
    assert_eq!(pool.dirty(), allowed);
}

#[test]
fn a_closed_pool_is_read_only_and_all_on_storage() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    fill(&table, 1, 1);
    pool.close().unwrap();
    assert_eq!(stored(&setup.files, "table", 1), [1; PAGE]);
    assert!(matches!(table.pin_mut(1, None), Err(PoolError::Closed)));
    assert!(matches!(table.grow(1), Err(PoolError::Closed)));
    assert!(matches!(pool.open_to_write(Path::new("table"), &raw()), Err(PoolError::Closed)));
    assert_eq!(table.pin(1, None).unwrap()[0], 1);
    pool.close().unwrap();
}
