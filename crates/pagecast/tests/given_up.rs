//! Requests that nobody waits for any more, and those who join them at the last moment.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]
#![allow(clippy::single_range_in_vec_init)]

use std::future::Future;
use std::io::{self, IoSliceMut, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pagecast::storage::{DirectIo, Errand, Generation, Storage, Transfer};
use pagecast::{Pool, PoolError, PoolOptions, Relation};

const LEN: u64 = 300_000;

/// Storage far away, whose errands wait until the test makes them go on.
#[derive(Default)]
struct Far {
    name: PathBuf,
    errands: Mutex<Vec<Box<dyn Errand + Send>>>,
}

impl Far {
    /// The next errand that comes.
    fn next(&self) -> Box<dyn Errand + Send> {
        let begin = Instant::now();
        loop {
            if let Some(errand) = self.errands.lock().unwrap().pop() {
                return errand;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is asked for");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Makes all the requests of an errand.
    fn run(&self, mut errand: Box<dyn Errand + Send>) {
        while let Some(mut request) = errand.request() {
            let answer = request.run(self);
            drop(request);
            errand.answer(answer);
        }
        errand.end();
    }
}

impl Storage for Far {
    fn path(&self) -> &Path {
        &self.name
    }

    fn generation(&self) -> Generation {
        Generation::of_object(LEN, 1, Some("tag"))
    }

    fn current(&self) -> io::Result<Generation> {
        Ok(self.generation())
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&vec![7; (LEN - offset) as usize][..]).read_vectored(bufs)
    }

    fn starts_errands(&self) -> bool {
        true
    }

    fn start(self: Arc<Self>, errand: Box<dyn Errand + Send>) {
        self.errands.lock().unwrap().push(errand);
    }

    fn compares_reads(&self) -> bool {
        true
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<u8, PoolError>> + 'a>>;

fn poll(asking: &mut Asking<'_>) -> Poll<Result<u8, PoolError>> {
    asking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Asks, goes away, and asks again between the storage's last look at the errand and its end.
fn joined_at_the_end<'a>(far: &Far, mut ask: impl FnMut() -> Asking<'a>) {
    let mut first = ask();
    assert!(poll(&mut first).is_pending());
    let mut errand = far.next();
    assert!(matches!(errand.request().unwrap().transfer, Transfer::Read(_)));
    drop(first);
    assert!(errand.request().is_none(), "nobody waits");
    let mut second = ask();
    assert!(poll(&mut second).is_pending());
    errand.end();
    far.run(far.next());
    let begin = Instant::now();
    loop {
        match poll(&mut second) {
            Poll::Ready(byte) => return assert_eq!(byte.unwrap(), 7),
            Poll::Pending => assert!(begin.elapsed() < Duration::from_secs(60), "nobody answers"),
        }
    }
}

fn opened() -> (Arc<Far>, Pool, Relation) {
    let far = Arc::new(Far { name: "far://table".into(), ..Far::default() });
    let pool = Pool::new(PoolOptions::default().memory(8 << 20)).unwrap();
    let storage: Arc<dyn Storage> = far.clone();
    let table = pool.open_storage(&storage).unwrap();
    (far, pool, table)
}

#[test]
fn who_joins_a_page_that_was_given_up_has_it() {
    let (far, pool, table) = opened();
    joined_at_the_end(&far, || Box::pin(async { table.pin_async(1, None).await.map(|page| page[0]) }));
    pool.check();
}

#[test]
fn who_joins_a_read_that_was_given_up_has_its_bytes() {
    let (far, pool, table) = opened();
    let range = [70_000..70_001];
    joined_at_the_end(&far, || Box::pin(async { table.read(&range, None).await.map(|read| read.data[0][0]) }));
    pool.check();
}
