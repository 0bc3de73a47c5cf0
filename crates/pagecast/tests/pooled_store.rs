//! A store over the pool: the store's own bytes, few requests, and never what was there before.
#![cfg(all(feature = "object-store", not(pagecast_shuttle)))]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use pagecast::storage::{FaultStore, ObjectFault, ObjectOptions, Objects, StoreRequests};
use pagecast::{Pool, PoolOptions, PooledStore};

fn setup() -> (FaultStore, PooledStore, Pool) {
    let faults = FaultStore::new(InMemory::new());
    let pool = Pool::new(PoolOptions::default().memory(64 << 20)).unwrap();
    let objects = Objects::start(ObjectOptions::default()).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(faults.clone());
    (faults, PooledStore::new(pool.clone(), objects, "mem://here", store), pool)
}

fn bytes(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ seed) as u8).collect()
}

#[tokio::test]
async fn every_way_of_reading_gives_the_stores_bytes() {
    let (faults, pooled, pool) = setup();
    let (location, data) = (Path::from("a/table"), bytes(9_000_001, 3));
    faults.put(&location, data.clone().into()).await.unwrap();
    for range in [
        GetRange::Bounded(0..1),
        GetRange::Bounded(65_535..8_500_000),
        GetRange::Bounded(8_999_000..99_000_000),
        GetRange::Offset(8_000_000),
        GetRange::Suffix(70_000),
    ] {
        let options = || GetOptions { range: Some(range.clone()), ..GetOptions::default() };
        let (expected, got) = (
            faults.get_opts(&location, options()).await.unwrap(),
            pooled.get_opts(&location, options()).await.unwrap(),
        );
        assert_eq!((&expected.meta, &expected.range), (&got.meta, &got.range));
        assert!(expected.bytes().await.unwrap() == got.bytes().await.unwrap(), "{range:?}");
    }
    let ranges = [0..5, 70_000..300_000, 8_999_999..9_000_001];
    assert!(
        faults.get_ranges(&location, &ranges).await.unwrap() == pooled.get_ranges(&location, &ranges).await.unwrap()
    );
    assert!(pooled.get(&location).await.unwrap().bytes().await.unwrap()[..] == data);
    assert!(pooled.get_range(&location, 9_000_001..9_000_002).await.is_err());

    faults.put(&"empty".into(), Vec::new().into()).await.unwrap();
    assert!(pooled.get(&"empty".into()).await.unwrap().bytes().await.unwrap().is_empty());
    assert!(matches!(pooled.get(&"none".into()).await, Err(Error::NotFound { .. })));
    pool.check();
}

#[tokio::test]
async fn what_was_listed_is_asked_for_once() {
    let (faults, pooled, _pool) = setup();
    let location = Path::from("a/table");
    faults.put(&location, bytes(500_000, 1).into()).await.unwrap();
    assert_eq!(pooled.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 1);
    for _ in 0..3 {
        pooled.get_ranges(&location, &[0..100, 400_000..500_000]).await.unwrap();
        pooled.get_range(&location, 450_000..450_001).await.unwrap();
    }
    assert_eq!(faults.requests(), StoreRequests { gets: 1, heads: 0, lists: 1 });
}

#[tokio::test]
async fn a_body_comes_in_few_requests_and_at_most_one_ahead() {
    let (faults, pooled, _pool) = setup();
    let (location, data) = (Path::from("a/log"), bytes(30 << 20, 9));
    faults.put(&location, data.clone().into()).await.unwrap();
    pooled.head(&location).await.unwrap();
    let before = faults.requests().gets;
    let mut body = pooled.get_opts(&location, GetOptions::default()).await.unwrap().into_stream();
    let first = body.try_next().await.unwrap().unwrap();
    assert_eq!(first.len(), 1 << 20);
    // The second may be on its way while nobody asks for it, and the third is not. The first of all
    // asks whether the object is the one that is known.
    assert!((2..=3).contains(&(faults.requests().gets - before)));
    let rest: Vec<_> = body.try_collect().await.unwrap();
    assert!([&first[..], &rest.concat()].concat() == data);
    assert_eq!(faults.requests().gets - before, 7, "the object as it is now, 1, 2, 4, 8, 8 and 7 MiB");
}

#[tokio::test]
async fn a_whole_object_is_the_one_that_is_there_now() {
    let (faults, pooled, pool) = setup();
    let location = Path::from("log");
    for round in 0..3 {
        faults.put(&location, bytes(200_000, round).into()).await.unwrap();
        // Twice: a listing that is old, and one that is true.
        for _ in 0..2 {
            let got = pooled.get(&location).await.unwrap().bytes().await.unwrap();
            assert!(got[..] == bytes(200_000, round), "round {round}");
            pooled.head(&location).await.unwrap();
        }
    }
    let read = pool.device().stats().bytes_read;
    assert!(pooled.get(&location).await.unwrap().bytes().await.unwrap()[..] == bytes(200_000, 2));
    assert_eq!(pool.device().stats().bytes_read, read, "it is in the pool");
}

#[tokio::test]
async fn ranges_are_of_what_was_listed_or_fail() {
    let (faults, pooled, _pool) = setup();
    let location = Path::from("a/table");
    faults.put(&location, bytes(500_000, 1).into()).await.unwrap();
    pooled.head(&location).await.unwrap();
    pooled.get_range(&location, 0..10).await.unwrap();
    faults.plan([ObjectFault::Overwritten(bytes(500_000, 2).into())]);
    let error = pooled.get_range(&location, 400_000..400_010).await.unwrap_err();
    assert!(matches!(error, Error::Precondition { .. }), "{error}");
    assert!(error.to_string().contains("a/table"), "{error}");
    // Nobody vouches for the old one any more.
    let new = pooled.get_range(&location, 400_000..400_010).await.unwrap();
    assert!(new[..] == bytes(500_000, 2)[400_000..400_010]);
    // What is written through it is known at once.
    pooled.put(&location, bytes(500_000, 4).into()).await.unwrap();
    assert!(pooled.get_range(&location, 0..9).await.unwrap()[..] == bytes(9, 4));
    // So is what is written by parts, from its end on.
    let mut upload = pooled.put_multipart(&location).await.unwrap();
    upload.put_part(bytes(500_000, 5).into()).await.unwrap();
    assert!(pooled.get_range(&location, 0..9).await.unwrap()[..] == bytes(9, 4));
    upload.complete().await.unwrap();
    assert!(pooled.get_range(&location, 0..9).await.unwrap()[..] == bytes(9, 5));
    pooled.put(&location, bytes(500_000, 4).into()).await.unwrap();
    pooled.copy(&location, &"b".into()).await.unwrap();
    pooled.delete(&location).await.unwrap();
    assert!(matches!(pooled.get_range(&location, 0..9).await, Err(Error::NotFound { .. })));
    assert!(pooled.get_range(&"b".into(), 0..9).await.unwrap()[..] == bytes(9, 4));
}
