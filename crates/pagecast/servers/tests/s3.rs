//! The pool over an S3 server (versitygw) on loopback: the program is `$VERSITYGW`, or found in
//! PATH. Without it the tests say `skipped`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use pagecast::storage::{FaultStore, ObjectFault, ObjectOptions, Objects};
use pagecast::{Pool, PoolError, PoolOptions, PooledStore, Relation};
use tempfile::TempDir;

const PAGE: u64 = 4096;
const URL: &str = "s3://bucket";

/// A server with one empty bucket, which ends with its test.
struct Server {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Server {
    fn start() -> Option<Self> {
        let program = std::env::var("VERSITYGW").unwrap_or_else(|_| "versitygw".to_owned());
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("data/bucket")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let started = Command::new(&program)
            .args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "--keep-alive", "posix"])
            .arg(folder.path().join("data"))
            .env("ROOT_ACCESS_KEY", "test")
            .env("ROOT_SECRET_KEY", "not-to-be-shown")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            // Past the capture of output, so that nobody takes it for passed.
            writeln!(std::io::stderr(), "skipped: no S3 server: {program} cannot be started").unwrap();
            return None;
        };
        let mut server = Self { child, port, _folder: folder };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "{program} ended at once");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn store(&self, secret: &str) -> FaultStore {
        let s3 = AmazonS3Builder::new()
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_bucket_name("bucket")
            .with_access_key_id("test")
            .with_secret_access_key(secret);
        FaultStore::new(s3.build().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A store of the server, and a pool over it.
struct Setup {
    faults: FaultStore,
    store: Arc<dyn ObjectStore>,
    objects: Objects,
    pool: Pool,
    _server: Server,
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
            _server: server,
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

#[tokio::test]
async fn a_thousand_scans_under_which_the_object_is_overwritten() {
    let Some(setup) = Setup::new() else { return };
    let content = |round: usize| vec![(round % 251) as u8; 3 * PAGE as usize];
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
        assert!(all.iter().all(|&byte| usize::from(byte) == round % 251), "round {round}: not the old content");
        match failed {
            None => whole += 1,
            Some(error) => {
                ended += 1;
                assert!(matches!(error, PoolError::Changed { .. }), "{error}");
                assert!(error.to_string().contains("s3://bucket/table"), "{error}");
            }
        }
    }
    println!("{whole} scans read the old content, {ended} ended by the object's name");
    assert_eq!((whole, ended), (250, 750));
    setup.pool.check();
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
    let wrong: Arc<dyn ObjectStore> = Arc::new(setup._server.store("a-wrong-secret"));
    let table = setup.pool.open_storage(&setup.objects.storage(&wrong, URL, &listed)).unwrap();
    let error = table.read(&[0..10], None).await.unwrap_err().to_string();
    assert!(error.contains("s3://bucket/table"), "{error}");
    assert!(!error.contains("secret") && !error.contains("not-to-be-shown"), "{error}");
    assert!(error.contains("SignatureDoesNotMatch") && error.lines().count() == 1, "{error}");
    println!("{error}");
    assert!(Path::new(&table.path()).starts_with("s3://bucket"));
}
