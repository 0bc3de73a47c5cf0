//! Items that are changed, most of them without their pages.

use super::*;

/// Where pages have all frames, an item is changed in its page. It is learned from as an item.
#[test]
fn the_share_learns_from_changes_of_items_too() {
    const PAGES: u32 = 4000;
    let options = options(400, 0.0).tuples(TupleOptions::default());
    let pool = Pool::new(options.device(Device::new(MemoryFiles::new(), None))).unwrap();
    let tuples = sealed(&pool, PAGES);
    assert_eq!(pool.tuple_stats().unwrap().share, 0.0);
    let mut random = Random::new(5);
    for step in 0..60_000 {
        let block = random.below(PAGES);
        let (id, bytes) = (TupleId { block, item: block % ROWS }, row(block, block % ROWS, step as u8));
        tuples.update(id, &bytes, || Lsn(2 + step)).unwrap();
    }
    let stats = pool.tuple_stats().unwrap();
    assert!(stats.share >= 0.5 && stats.updates > 10_000, "{stats:?}");
}

/// The rows of the file must be these, in pages as of records that say so.
fn check_file(files: &MemoryFiles, expected: &[u8]) {
    let file = files.read("table".as_ref()).unwrap();
    for (at, &generation) in expected.iter().enumerate() {
        let (block, item) = (at as u32 / ROWS, at as u32 % ROWS);
        let from = block as usize * PAGE + item as usize * ROW;
        assert_eq!(file[from..from + ROW], row(block, item, generation), "page {block}, item {item}");
    }
}

#[test]
fn items_are_changed_without_their_pages_and_reach_the_file() {
    const PAGES: u32 = 1000;
    let files = MemoryFiles::new();
    let pool = Pool::new(options(200, 0.7).device(Device::new(files.clone(), None))).unwrap();
    let tuples = sealed(&pool, PAGES);
    let mut session = pool.session();
    let mut random = Random::new(3);
    let mut expected = vec![1u8; (PAGES * ROWS) as usize];
    for step in 0..60_000u64 {
        let (block, item) = (random.below(PAGES), random.below(3) * 7);
        let (at, id) = ((block * ROWS + item) as usize, TupleId { block, item });
        let generation = random.below(200) as u8;
        match step % 10 {
            0 => tuples.update(id, &row(block, item, generation), || Lsn(step)).unwrap(),
            1 => tuples.write(id, &row(block, item, generation), || Lsn(step)).unwrap(),
            2 if step % 100 == 2 => {
                let page = session.pin(tuples.relation(), block, None).unwrap();
                assert_eq!(page[item as usize * ROW..][..ROW], row(block, item, expected[at]));
                continue;
            }
            _ => {
                read(&mut session, &tuples, block, item, expected[at]);
                continue;
            }
        }
        expected[at] = generation;
        if step % 20_000 == 19_990 {
            pool.checkpoint(Lsn(step + 1)).unwrap();
            check_file(&files, &expected);
        }
    }
    let stats = pool.tuple_stats().unwrap();
    assert!(stats.updates > 3_000, "{stats:?}");
    assert!(pool.dirty() >= stats.changed);
    drop(session);
    pool.close().unwrap();
    assert_eq!((pool.dirty(), pool.tuple_stats().unwrap().changed), (0, 0));
    let late = tuples.update(TupleId { block: 0, item: 0 }, &[0; ROW], || unreachable!());
    assert!(matches!(late, Err(PoolError::Closed)), "{late:?}");
    check_file(&files, &expected);
    pool.check();
}

#[test]
fn changes_stay_while_the_pool_shrinks_and_grows() {
    const PAGES: u32 = 2000;
    let files = MemoryFiles::new();
    let options = options(400, 0.8).max_memory(8 << 20).device(Device::new(files.clone(), None));
    let (least, most) = (options.memory, 8 << 20);
    let pool = Pool::new(options).unwrap();
    let tuples = sealed(&pool, PAGES);
    let mut session = pool.session();
    let mut random = Random::new(5);
    let mut expected = vec![1u8; (PAGES * ROWS) as usize];
    for (round, size) in (0..).zip([most, least, least + (1 << 20), most, least - (1 << 20), most]) {
        for step in 0..8_000 {
            let (block, item) = (random.below(PAGES), random.below(2));
            let at = (block * ROWS + item) as usize;
            if step % 4 == 0 {
                expected[at] = round as u8 + 2;
                let bytes = row(block, item, expected[at]);
                tuples.write(TupleId { block, item }, &bytes, || Lsn(100 + round)).unwrap();
            } else {
                read(&mut session, &tuples, block, item, expected[at]);
            }
        }
        assert!(pool.tuple_stats().unwrap().changed > 0);
        pool.resize(size).unwrap();
        assert!(pool.memory().total <= size);
    }
    pool.flush().unwrap();
    check_file(&files, &expected);
    drop(session);
    pool.check();
}

#[test]
fn a_panic_while_a_change_is_logged_leaves_the_item_as_it_was() {
    let files = MemoryFiles::new();
    let pool = Pool::new(options(100, 0.6).device(Device::new(files, None))).unwrap();
    let tuples = sealed(&pool, 600);
    let mut session = pool.session();
    for block in (0..4).flat_map(|_| 0..600) {
        read(&mut session, &tuples, block, 4, 1);
    }
    let before = pool.tuple_stats().unwrap();
    assert!(before.mini_pages > 100);
    std::panic::set_hook(Box::new(|_| {}));
    let mut panicked = 0;
    for block in 0..600 {
        // Pages that are resident would make the pool read-only, as any change that is not logged.
        let is_resident = session.try_copy(tuples.relation(), block, 0, &mut [0], None).is_some();
        let update = || tuples.update(TupleId { block, item: 4 }, &[9; ROW], || panic!("the log does"));
        panicked += u32::from(!is_resident && std::panic::catch_unwind(std::panic::AssertUnwindSafe(update)).is_err());
        if pool.tuple_stats().unwrap().merged > before.merged {
            break;
        }
    }
    let _ = std::panic::take_hook();
    assert!(panicked > 10, "{panicked}");
    assert_eq!(pool.tuple_stats().unwrap().changed, 0);
    for block in 0..600 {
        read(&mut session, &tuples, block, 4, 1);
    }
    drop(session);
    pool.check();
}

#[test]
fn many_threads_read_and_change_the_same_items() {
    const PAGES: u32 = 600;
    let (pool, _) = pool(150, 0.6, PAGES);
    let relation = pool.open_to_write("table".as_ref(), &WriteOptions::default()).unwrap();
    let tuples = pool.tuples(&relation, LAYOUT).unwrap();
    // Each row counts up: nobody may see it go back.
    let counts: Arc<Vec<AtomicU32>> = Arc::new((0..PAGES).map(|_| AtomicU32::new(0)).collect());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (pool, tuples, counts) = (&pool, &tuples, counts.clone());
            scope.spawn(move || {
                let (mut session, mut random) = (pool.session(), Random::new(seed));
                for _ in 0..30_000 {
                    let block = random.below(PAGES);
                    let id = TupleId { block, item: 2 };
                    if random.below(30) == 0 {
                        let mut page = tuples.relation().pin_mut(block, None).unwrap();
                        let at = 24 + 2 * ROW;
                        let next = u32::from_le_bytes(page[at + 8..at + 12].try_into().unwrap()).wrapping_add(1);
                        page[at + 8..at + ROW].copy_from_slice(&next.to_le_bytes().repeat(30));
                        counts[block as usize].store(next, Relaxed);
                        continue;
                    }
                    let least = counts[block as usize].load(Relaxed);
                    let seen = session.with_tuple(tuples, id, |row| row[8..].to_vec()).unwrap().unwrap();
                    let value = u32::from_le_bytes(seen[..4].try_into().unwrap());
                    assert!(seen.chunks(4).all(|word| word == value.to_le_bytes()), "a row of two changes: {seen:?}");
                    assert!(least == 0 || value >= least, "page {block} went back from {least} to {value}");
                }
            });
        }
    });
    let stats = pool.tuple_stats().unwrap();
    assert!(stats.hits > 1000, "{stats:?}");
    pool.flush().unwrap();
    pool.check();
}
