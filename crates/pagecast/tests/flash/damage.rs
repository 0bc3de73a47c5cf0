//! Crashes, bytes that anybody changed, and a device that fails.

use super::*;

/// A crash at every write of a run in which slots change hands, each torn at another place, with
/// and without writes before it that never came to the device. What the next pool finds is right,
/// or is not found.
#[test]
fn a_crash_at_every_write_leaves_no_wrong_byte() {
    let two = Two::new();
    let setup = &two.setups[0];
    let (mut hits, mut broken, mut at) = (0, 0, 0);
    loop {
        // All slots have pages of the first content.
        setup.device_faults.clear();
        setup.files.write(FILE, Vec::new());
        let pool = setup.small_pool();
        // A tier whose writer waits for the processor leaves pages out.
        let rounds = (0..20).take_while(|&round| round < 2 || view(&pool).pages <= 30);
        rounds.for_each(|_| two.read(&pool, 0));
        drop(pool);

        let lost = |write: usize| at % 3 == 1 && (write * 7 + at).is_multiple_of(5);
        let before = (0..at).map(|write| if lost(write) { WriteFault::Lost } else { WriteFault::None });
        let cut = [4096, 1, 700, 4095, 0, 4097, 6000, 8191][at % 8];
        setup.device_faults.plan_writes(before.chain([WriteFault::Torn(cut)]));
        let pool = setup.small_pool();
        assert!(view(&pool).restored > 30, "{:?}", view(&pool));
        drop(setup.open(&pool, &two.listed[0]));
        // The second content takes the place of the first, and its slots.
        (0..2).for_each(|_| two.read(&pool, 1));
        let has_crashed = view(&pool).off.is_some();
        drop(pool);

        setup.device_faults.clear();
        let pool = setup.small_pool();
        [at % 2, (at + 1) % 2, at % 2].into_iter().for_each(|which| two.read(&pool, which));
        assert_eq!(view(&pool).off, None);
        hits += pool.stats().flash_hits;
        broken += view(&pool).broken;
        pool.check();
        if !has_crashed {
            break;
        }
        at += 1;
    }
    println!("{at} crashes: {hits} pages came from flash, {broken} copies were found broken");
    assert!(at > 30 && hits > 300 && broken > 15, "{at} crashes, {hits} hits, {broken} broken");
}

/// Bytes of the file that anybody changed, anywhere, also its head and its index.
#[test]
fn a_file_that_was_damaged_gives_no_wrong_byte() {
    let setup = Setup::new(150);
    let bytes = content(220, 1);
    let listed = setup.put("a/table", bytes.clone());
    let pool = setup.pool();
    read_all(&pool, &setup.open(&pool, &listed), &bytes);
    drop(pool);
    let whole = setup.files.read(FILE.as_ref()).unwrap().to_vec();
    let slots = whole.len() - 150 * SLOT as usize;
    let mut broken = 0;
    for round in 0..60_usize {
        let mut damaged = whole.clone();
        match round % 6 {
            0 => damaged.truncate(round * whole.len() / 60),
            1 => damaged.iter_mut().skip(round * 97).step_by(PAGE as usize + 13).for_each(|byte| *byte ^= 1),
            // Slots in each other's places.
            2 => damaged[slots..].rotate_left(SLOT as usize * (round + 1)),
            // Pages in each other's places, below their headers.
            3 => damaged[slots..].rotate_left(SLOT as usize / 2),
            // The index of another file.
            4 => damaged[PAGE as usize..slots].rotate_left(32 * (round + 1)),
            _ => damaged[slots + round * 1000..].fill(0),
        }
        setup.files.write(FILE, damaged);
        let pool = setup.pool();
        let table = setup.open(&pool, &listed);
        (0..2).for_each(|_| read_settling(&pool, &table, &bytes, 8));
        broken += view(&pool).broken;
        assert_eq!(view(&pool).off, None);
    }
    assert!(broken > 100, "{broken}");
}

#[test]
fn a_device_that_fails_turns_the_tier_off_and_no_query_fails() {
    let cases: [fn(&Faults); 6] = [
        |faults| faults.plan_writes([WriteFault::Error(ErrorKind::StorageFull)]),
        |faults| faults.plan_writes((0..50).map(|_| WriteFault::None).chain([WriteFault::Error(ErrorKind::Other)])),
        |faults| faults.plan_writes((0..50).map(|_| WriteFault::None).chain([WriteFault::Panic])),
        |faults| faults.plan([Fault::None, Fault::Error(ErrorKind::Other)]),
        |faults| faults.plan([Fault::Error(ErrorKind::Other)]),
        |faults| faults.plan([Fault::None, Fault::None, Fault::Panic]),
    ];
    for (number, plan) in cases.iter().enumerate() {
        let setup = Setup::new(300);
        let bytes = content(250, 1);
        plan(&setup.device_faults);
        let pool = setup.pool();
        let table = setup.open(&pool, &setup.put("a/table", bytes.clone()));
        for _ in 0..3 {
            read_all(&pool, &table, &bytes);
        }
        let off = view(&pool).off.unwrap_or_else(|| panic!("case {number}: it goes on"));
        assert!(off.contains(FILE) && off.contains("is off") && !off.contains('\n'), "{off}");
        let (before, written) = (pool.stats().flash_hits, pool.stats().flash_bytes_written);
        read_all(&pool, &table, &bytes);
        assert_eq!((pool.stats().flash_hits, pool.stats().flash_bytes_written), (before, written));
        pool.check();
    }
}
