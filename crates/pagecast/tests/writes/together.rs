//! Who may change what while others look.

use super::*;

#[test]
fn a_writer_waits_for_readers_and_they_for_him() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    let reader = table.pin(0, None).unwrap();
    std::thread::scope(|scope| {
        let (asked, wait) = mpsc::channel();
        let writer = scope.spawn({
            let table = &table;
            move || {
                asked.send(()).unwrap();
                fill(table, 0, 8);
            }
        });
        wait.recv().unwrap();
        assert_eq!(reader[..], [5; PAGE]);
        drop(reader);
        writer.join().unwrap();
    });
    let page = table.pin_mut(0, None).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| table.pin(0, None).unwrap()[0]);
        let mut page = page;
        page.fill(9);
        let kept = page.downgrade().unwrap();
        assert_eq!(other.join().unwrap(), 9, "a pin to read is shared with others");
        assert_eq!(kept[0], 9);
    });
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn a_cancelled_wish_lets_readers_go_on() {
    use std::future::Future;
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    let reader = table.pin(0, None).unwrap();
    let mut wish = Box::pin(table.pin_mut_async(0, None));
    assert!(wish.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
    drop(wish);
    assert_eq!(table.pin(0, None).unwrap()[0], 5);
    drop(reader);
    fill(&table, 0, 1);
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn many_threads_add_up() {
    for name in ["clock", "lru", "pbm"] {
        let setup = setup(160_000, name);
        let pool = Pool::new(
            setup
                .options
                .writer(WriterOptions::default().interval(Duration::from_millis(1)).rate(1 << 30).dirty_share(0.1)),
        )
        .unwrap();
        let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let (pool, table) = (&pool, &table);
                scope.spawn(move || {
                    for step in 0..400u64 {
                        let block = ((thread * 7919 + step * 31) % 64) as u32;
                        if step % 3 == 0 {
                            let page = table.pin(block, None).unwrap();
                            assert_eq!(page[..8], page[PAGE - 8..], "a page is read while it is changed");
                        }
                        let mut page = table.pin_mut(block, None).unwrap();
                        let count = u64::from_le_bytes(page[..8].try_into().unwrap()) + 1;
                        page[..8].copy_from_slice(&count.to_le_bytes());
                        page[PAGE - 8..].copy_from_slice(&count.to_le_bytes());
                        if step % 100 == 7 {
                            drop(page);
                            pool.flush().unwrap();
                        }
                    }
                });
            }
        });
        pool.close().unwrap();
        let bytes = setup.files.read(Path::new("table")).unwrap();
        let fives = u64::from_le_bytes([5; 8]);
        let sum: u64 =
            bytes.chunks(PAGE).map(|page| u64::from_le_bytes(page[..8].try_into().unwrap()).wrapping_sub(fives)).sum();
        assert_eq!(sum, 2400, "{name}: an update was lost");
        assert_eq!((pool.pinned(), pool.dirty()), (0, 0), "{name}");
        pool.check();
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicU64);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn who_has_a_page_alone_leaves_no_waker_behind() {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    let reader = table.pin(0, None).unwrap();
    let wakes = Arc::new(Wakes::default());
    let mut wish = Box::pin(table.pin_mut_async(0, None));
    let waker = Waker::from(wakes.clone());
    assert!(wish.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(reader);
    assert_eq!(wakes.0.load(SeqCst), 1);
    let Poll::Ready(page) = wish.as_mut().poll(&mut Context::from_waker(&waker)) else { panic!("it is ours") };
    let pin = page.unwrap().downgrade().unwrap();
    drop((wish, waker));
    assert_eq!(Arc::strong_count(&wakes), 1, "a waker stays");
    drop(pin);
    fill(&table, 0, 1);
    assert_eq!(wakes.0.load(SeqCst), 1);
}
