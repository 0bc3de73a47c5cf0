//! Copies of pages before they are written: of which file and of which time they are.

use super::*;

/// A pool with an area beside its files.
fn pool(setup: &Setup, folder: &str) -> Result<Pool, PoolError> {
    let area = Path::new(folder).join("area");
    Pool::new(setup.options.clone().double_write(DoubleWriteOptions::new(area)))
}

fn open(pool: &Pool, path: impl AsRef<Path>, options: &WriteOptions) -> Relation {
    pool.open_to_write(path.as_ref(), options).unwrap()
}

/// Copies that were left behind the end of the area, of a pool that was closed, are those of
/// another time.
#[test]
fn a_copy_of_before_a_close_is_never_restored() {
    let setup = setup(1 << 20, "lru");
    let first = pool(&setup, "").unwrap();
    let table = open(&first, "table", &raw());
    // The third copy of this time.
    for byte in [1, 2] {
        [8, 9].into_iter().filter(|block| byte == 2 || *block == 8).for_each(|block| {
            fill(&table, block * 2, byte);
            first.flush().unwrap();
        });
    }
    first.close().unwrap();
    drop((table, first));

    let second = pool(&setup, "").unwrap();
    let table = open(&second, "table", &raw());
    fill(&table, 18, 3);
    second.flush().unwrap();
    // The second copy arrives, and nothing after it: then the process ends.
    setup.faults.plan_writes([WriteFault::Torn(4096 + PAGE), WriteFault::Panic]);
    fill(&table, 16, 4);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| second.flush())).unwrap_err();
    drop((table, second));
    drop(pool(&setup, "").unwrap());
    assert!(stored(&setup.files, "table", 18) == [3; PAGE], "a copy of another time was restored");
}

/// Leaves a torn page 1 in a file, whose copy is whole.
fn torn(setup: &Setup, folder: &str, name: &str) {
    let pool = pool(setup, folder).unwrap();
    let table = open(&pool, Path::new(folder).join(name), &sealed());
    table.grow(2).unwrap();
    fill(&table, 1, 1);
    pool.flush().unwrap();
    fill(&table, 1, 2);
    setup.faults.plan_writes([WriteFault::None, WriteFault::Torn(512)]);
    pool.flush().unwrap_err();
}

fn first_byte(pool: &Pool, path: &str) -> Result<u8, PoolError> {
    Ok(open(pool, path, &sealed()).pin(1, None)?[0])
}

#[test]
fn files_that_were_moved_or_copied_are_repaired_where_they_are() {
    let setup = setup(1 << 20, "lru");
    torn(&setup, "one", "below/table");
    for name in ["area", "below/table"] {
        let bytes = setup.files.read(&Path::new("one").join(name)).unwrap();
        setup.files.write(Path::new("two").join(name), bytes);
    }
    let original = setup.files.read(Path::new("one/below/table")).unwrap();
    assert_eq!(first_byte(&pool(&setup, "two").unwrap(), "two/below/table").unwrap(), 2);
    assert!(setup.files.read(Path::new("one/below/table")).unwrap() == original, "the copy wrote into the original");
    assert_eq!(first_byte(&pool(&setup, "one").unwrap(), "one/below/table").unwrap(), 2);
}

/// What a batch that failed has left does not continue the records of later ones, though they end
/// where it goes on.
#[test]
fn copies_of_a_failed_batch_do_not_follow_those_of_others() {
    let setup = setup(1 << 20, "lru");
    let log = Arc::new(Counter::default());
    let options = setup.options.clone().log(log.clone()).double_write(DoubleWriteOptions::new("area"));
    let pool = Pool::new(options.clone()).unwrap();
    let table = open(&pool, "table", &raw());
    let change = |block, byte| {
        let mut page = table.pin_mut(block, None).unwrap();
        page.fill(byte);
        page.logged(log.append());
    };
    // Page 6 is dirty longest, and its copy the last of three.
    [6, 2, 4].into_iter().for_each(|block| change(block, 1));
    setup.faults.plan_writes([WriteFault::Torn(usize::MAX)]);
    pool.flush().unwrap_err();
    change(6, 2);
    assert_eq!(pool.write_back(PAGE as u64).unwrap().pages, 1);
    assert!(stored(&setup.files, "table", 6) == [2; PAGE]);
    // The copy of page 2 arrives, and nothing after it: then the process ends.
    setup.faults.plan_writes([WriteFault::Torn(4096 + PAGE), WriteFault::Panic]);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.write_back(PAGE as u64))).unwrap_err();
    drop((table, pool));
    drop(Pool::new(options).unwrap());
    assert!(stored(&setup.files, "table", 6) == [2; PAGE], "an older copy was restored");
}

#[test]
fn a_copy_of_another_owner_is_not_restored() {
    let setup = setup(1 << 20, "lru");
    torn(&setup, "one", "table");
    let of = |owner| {
        let area = DoubleWriteOptions::new("one/area").owner(owner);
        let pool = Pool::new(setup.options.clone().double_write(area)).unwrap();
        first_byte(&pool, "one/table")
    };
    assert!(matches!(of(7), Err(PoolError::Checksum { block: 1, .. })));
    assert_eq!(of(0).unwrap(), 2);
}

#[test]
fn files_that_are_called_by_another_name_are_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let (store, link) = (folder.path().join("store"), folder.path().join("link"));
    std::fs::create_dir(&store).unwrap();
    std::os::unix::fs::symlink(&store, &link).unwrap();
    let faults = Faults::default();
    let local = || FaultStorage { files: pagecast::storage::LocalFiles, faults: faults.clone() };
    // The threads of a pool let go of the files when they end.
    let is_locked = || {
        ["area", "table"].into_iter().any(|name| {
            let file = pagecast::storage::Opener::open_to_write(&local(), &store.join(name), false);
            file.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
        })
    };
    let of = |folder: &Path| {
        while is_locked() {
            std::thread::yield_now();
        }
        let options = setup(1 << 20, "lru").options.device(Device::new(local(), None));
        let pool = Pool::new(options.double_write(DoubleWriteOptions::new(folder.join("area")))).unwrap();
        let table = pool.open_to_write(&folder.join("table"), &sealed()).unwrap();
        (pool, table)
    };
    // From the root, by way of here, and by a link.
    let away = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect::<std::path::PathBuf>();
    let relative = away.join(store.strip_prefix("/").unwrap());
    for (byte, [then, now]) in (1..).zip([[&store, &relative], [&relative, &link], [&link, &store]]) {
        let (pool, table) = of(then);
        if table.pages() == 0 {
            table.grow(2).unwrap();
            fill(&table, 1, 9);
            pool.flush().unwrap();
        }
        fill(&table, 1, byte);
        faults.plan_writes([WriteFault::None, WriteFault::Torn(512)]);
        pool.flush().unwrap_err();
        drop((table, pool));
        let (_pool, table) = of(now);
        assert_eq!(table.pin(1, None).unwrap()[0], byte, "{then:?} and then {now:?}");
    }
}

#[test]
fn a_file_elsewhere_and_an_area_of_another_version_are_refused() {
    let setup = setup(1 << 20, "lru");
    let one = pool(&setup, "one").unwrap();
    open(&one, "one/below/table", &sealed());
    for name in ["table", "one/../table", "two/table", "/table"] {
        let error = one.open_to_write(Path::new(name), &sealed()).unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains("double writes, which is one,"), "{error}");
    }
    let apart = DoubleWriteOptions::new("areas/one").folder("tables");
    let apart = Pool::new(setup.options.clone().double_write(apart)).unwrap();
    open(&apart, "tables/one", &sealed());
    torn(&setup, "two", "table");
    let area = Path::new("two/area");
    let mut bytes = setup.files.read(area).unwrap().to_vec();
    bytes[7] = 2;
    setup.files.write(area, bytes);
    let error = pool(&setup, "two").unwrap_err().to_string();
    assert!(error.starts_with("two/area") && error.contains("version 2"), "{error}");
}
