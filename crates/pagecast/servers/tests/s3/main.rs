//! The pool over an S3 server (versitygw) on loopback: the program is `$VERSITYGW`, or found in
//! PATH. Without it the tests say `skipped`.
#![allow(clippy::unwrap_used)]

mod proxy;
mod server;

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, parse_url_opts};
use pagecast::storage::{FaultStore, MeteredStore, ObjectFault, ObjectOptions, Objects};
use pagecast::{Pool, PoolError, PoolOptions, PooledStore, Relation};
use proxy::{Fault, Proxy};
use server::{Server, client};

const PAGE: u64 = 4096;
const URL: &str = "s3://bucket";

/// A store of the server, and a pool over it.
struct Setup {
    faults: FaultStore,
    store: Arc<dyn ObjectStore>,
    objects: Objects,
    pool: Pool,
    server: Server,
}

impl Setup {
    fn new() -> Option<Self> {
        let server = Server::start()?;
        let faults = server.store("not-to-be-shown");
        Some(Self {
            store: Arc::new(faults.clone()),
            faults,
            objects: Objects::start(ObjectOptions::default()).unwrap(),
            pool: Pool::new(PoolOptions::default().memory(256 << 20).page_size(PAGE as u32)).unwrap(),
            server,
        })
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> ObjectMeta {
        self.store.put(&name.into(), bytes.into()).await.unwrap();
        let listed: Vec<_> = self.store.list(None).try_collect().await.unwrap();
        listed.into_iter().find(|meta| meta.location.as_ref() == name).unwrap()
    }

    fn open(&self, listed: &ObjectMeta) -> Relation {
        self.pool.open_storage(&self.objects.storage(&self.store, URL, listed)).unwrap()
    }
}

fn bytes(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect()
}

#[tokio::test]
async fn bytes_are_the_objects_and_come_once() {
    let Some(setup) = Setup::new() else { return };
    let data = bytes(20_000_003);
    let table = setup.open(&setup.put("a/table", data.clone()).await);
    let ranges = [0..1, 4095..9_000_000, 19_000_000..20_000_003];
    for _ in 0..2 {
        let read = table.read(&ranges, None).await.unwrap();
        for (range, part) in ranges.iter().zip(&read.data) {
            assert!(part[..] == data[range.start as usize..range.end as usize], "{range:?}");
        }
    }
    let (asked, stats) = (setup.faults.requests(), setup.pool.stats());
    println!("{} GETs for {} bytes, {} of them over gaps", asked.gets, stats.bytes_read, stats.gap_bytes);
    assert!(asked.gets <= 8 && asked.heads == 0, "{asked:?}");
    assert_eq!(asked.gets, setup.pool.device().stats().requests);
}

/// Of a server that is right about conditions, and as of those that ignore them and list without
/// ETags.
#[tokio::test]
async fn a_thousand_scans_under_which_the_object_is_overwritten() {
    let content = |round: usize| vec![(round % 251) as u8; 3 * PAGE as usize];
    for (ignores_conditions, lists_without_tags) in [(false, false), (true, false), (true, true)] {
        let Some(setup) = Setup::new() else { return };
        if ignores_conditions {
            setup.faults.ignore_conditions();
        }
        if lists_without_tags {
            setup.faults.list_without_tags();
        }
        let (mut whole, mut ended) = (0, 0);
        for round in 0..1000_usize {
            let table = setup.open(&setup.put("table", content(round)).await);
            // Before the first, second or third request of the scan, or after them all.
            let faults = std::iter::repeat_n(ObjectFault::None, round % 4);
            setup.faults.plan(faults.chain([ObjectFault::Overwritten(content(round + 1).into())]));
            let mut all = Vec::new();
            let mut failed = None;
            for block in 0..3 {
                match table.read(&[block * PAGE..(block + 1) * PAGE], None).await {
                    Ok(read) => all.extend(read.data.into_iter().flatten()),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            while setup.faults.unplan() {}
            assert!(all.windows(2).all(|two| two[0] == two[1]), "round {round}: two contents in one scan");
            // A listing without tags tells no more than size and second: of several contents of one
            // second the first that was read is the one, until a read finds another.
            let is_old = all.first().is_none_or(|&byte| usize::from(byte) == round % 251);
            assert!(is_old || lists_without_tags, "round {round}: not the old content");
            match failed {
                None => whole += 1,
                Some(error) => {
                    ended += 1;
                    assert!(matches!(error, PoolError::Changed { .. }), "{error}");
                    assert!(error.to_string().contains("s3://bucket/table"), "{error}");
                }
            }
        }
        println!("{whole} scans read one content, {ended} ended by the object's name");
        assert!(lists_without_tags || (whole, ended) == (250, 750), "{whole} {ended}");
        setup.pool.check();
    }
}

#[tokio::test]
async fn what_the_network_breaks_is_made_good_or_fails_by_its_name() {
    let Some(setup) = Setup::new() else { return };
    let data = bytes(40 * PAGE);
    let listed = setup.put("table", data.clone()).await;
    let proxy = Proxy::start(setup.server.port);
    let metered = MeteredStore::new(Arc::new(client(proxy.port, "not-to-be-shown").build().unwrap()), None);
    let store: Arc<dyn ObjectStore> = Arc::new(metered.clone());
    let (mut right, mut failed) = (0, 0);
    for round in 0..200_u64 {
        // A page of its own each time, so that each read is a request.
        let pool = Pool::new(PoolOptions::default().memory(8 << 20).page_size(PAGE as u32)).unwrap();
        let table = pool.open_storage(&setup.objects.storage(&store, URL, &listed)).unwrap();
        proxy.plan(match round % 5 {
            0 => vec![Fault::Refused, Fault::Refused],
            1 => vec![Fault::Reset],
            2 => vec![Fault::Cut(1000 + 13 * round as usize)],
            3 => vec![Fault::TooLong(10)],
            _ => vec![Fault::Late(20)],
        });
        let range = (round % 40) * PAGE..(round % 40 + 1) * PAGE;
        match table.read(&[range.clone()], None).await {
            Ok(read) => {
                right += 1;
                assert!(read.data[0][..] == data[range.start as usize..range.end as usize], "round {round}");
            }
            Err(error) => {
                failed += 1;
                assert!(error.to_string().contains("s3://bucket/table"), "{error}");
            }
        }
        proxy.unplan();
        pool.check();
    }
    let (seen, asked) = (proxy.seen(), metered.stats().requests);
    println!("{right} right, {failed} failed; {} GETs asked, {seen} requests seen, 80 of them refused", asked.gets);
    assert!(right >= 160, "{right} right, {failed} failed");
    assert!(seen >= asked.gets + 80, "the client tries again what is refused: {seen} and {asked:?}");
}

/// What `pagecast sql --data s3://bucket/...` tells the client.
#[tokio::test]
async fn variables_lead_to_the_store() {
    let Some(setup) = Setup::new() else { return };
    setup.put("folder/table", bytes(10)).await;
    let endpoint = format!("http://127.0.0.1:{}", setup.server.port);
    let options = |secret: &'static str| {
        [
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("endpoint", endpoint.clone()),
            ("allow_http", "true".to_owned()),
        ]
    };
    let url = "s3://bucket/folder".parse().unwrap();
    let (store, prefix) = parse_url_opts(&url, options("not-to-be-shown")).unwrap();
    assert_eq!(store.list(Some(&prefix)).try_collect::<Vec<_>>().await.unwrap().len(), 1);
    let (store, prefix) = parse_url_opts(&url, options("wrong")).unwrap();
    let error = store.list(Some(&prefix)).try_collect::<Vec<_>>().await.unwrap_err();
    let said = pagecast::storage::store_message(&error);
    assert!(said.contains("SignatureDoesNotMatch") && said.lines().count() == 1, "{said}");
    assert!(!said.contains("wrong"), "{said}");
    println!("{said}");
    let (store, prefix) = parse_url_opts(&"s3://nobody/x".parse().unwrap(), options("not-to-be-shown")).unwrap();
    let error = store.list(Some(&prefix)).try_collect::<Vec<_>>().await.unwrap_err();
    let said = pagecast::storage::store_message(&error);
    assert!(said.contains("NoSuchBucket"), "{said}");
}

#[tokio::test]
async fn a_whole_object_is_confirmed_without_its_bytes() {
    let Some(setup) = Setup::new() else { return };
    let pooled = PooledStore::new(setup.pool.clone(), setup.objects.clone(), URL, setup.store.clone());
    let data = bytes(3_000_000);
    setup.put("log", data.clone()).await;
    pooled.head(&"log".into()).await.unwrap();
    for _ in 0..2 {
        assert!(pooled.get(&"log".into()).await.unwrap().bytes().await.unwrap()[..] == data);
    }
    let read = setup.pool.device().stats().bytes_read;
    assert!(read < 2 * data.len() as u64, "{read}");
    setup.put("log", vec![7; 10]).await;
    assert!(pooled.get(&"log".into()).await.unwrap().bytes().await.unwrap()[..] == [7; 10]);
}

#[tokio::test]
async fn an_error_names_the_object_and_no_secret() {
    let Some(setup) = Setup::new() else { return };
    let listed = setup.put("table", bytes(PAGE)).await;
    let wrong: Arc<dyn ObjectStore> = Arc::new(setup.server.store("a-wrong-secret"));
    let table = setup.pool.open_storage(&setup.objects.storage(&wrong, URL, &listed)).unwrap();
    let error = table.read(&[0..10], None).await.unwrap_err().to_string();
    assert!(error.contains("s3://bucket/table"), "{error}");
    assert!(!error.contains("secret") && !error.contains("not-to-be-shown"), "{error}");
    assert!(error.contains("SignatureDoesNotMatch") && error.lines().count() == 1, "{error}");
    println!("{error}");
    assert!(Path::new(&table.path()).starts_with("s3://bucket"));
}
