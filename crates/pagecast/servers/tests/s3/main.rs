//! The pool over S3 servers on loopback: versitygw is right about conditions, s3s-fs ignores them.
//! The programs are `$VERSITYGW` and `$S3S_FS`, or found in PATH. Without one its tests say
//! `skipped`.
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
use server::{Kind, Server, client};

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
        Self::with(Kind::Versitygw)
    }

    fn with(kind: Kind) -> Option<Self> {
        let server = Server::start(kind)?;
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
    for setup in [Kind::Versitygw, Kind::S3sFs].into_iter().filter_map(Setup::with) {
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
        assert!(asked.gets <= 4 && asked.heads == 0, "{asked:?}");
        assert_eq!(asked.gets, setup.pool.device().stats().requests);
    }
}

/// Of a server that is right about conditions, as of those that ignore them and list without ETags,
/// and of one that does.
#[tokio::test]
async fn a_thousand_scans_under_which_the_object_is_overwritten() {
    for (kind, ignores_conditions, lists_without_tags) in [
        (Kind::Versitygw, false, false),
        (Kind::Versitygw, true, false),
        (Kind::Versitygw, true, true),
        (Kind::S3sFs, false, false),
    ] {
        let Some(setup) = Setup::with(kind) else { continue };
        if ignores_conditions {
            setup.faults.ignore_conditions();
        }
        if lists_without_tags {
            setup.faults.list_without_tags();
        }
        let has_tags = setup.put("table", vec![7]).await.e_tag.is_some();
        let (mut whole, mut ended) = (0, 0);
        for round in 0..1000 {
            match overwritten(&setup, round, has_tags).await {
                None => whole += 1,
                Some(error) => {
                    ended += 1;
                    assert!(matches!(error, PoolError::Changed { .. }), "{error}");
                    assert!(error.to_string().contains("s3://bucket/table"), "{error}");
                }
            }
        }
        println!("{kind:?}, tags {has_tags}: {whole} scans read one content, {ended} ended by the object's name");
        assert!(!has_tags || (whole, ended) == (250, 750), "{whole} {ended}");
        setup.pool.check();
    }
}

/// A scan of three requests, the object being overwritten before one of them or after them all:
/// the error that ended it.
async fn overwritten(setup: &Setup, round: usize, has_tags: bool) -> Option<PoolError> {
    let content = |round: usize| vec![(round % 251) as u8; 3 * PAGE as usize];
    let table = setup.open(&setup.put("table", content(round)).await);
    let faults = std::iter::repeat_n(ObjectFault::None, round % 4);
    setup.faults.plan(faults.chain([ObjectFault::Overwritten(content(round + 1).into())]));
    let (mut all, mut failed) = (Vec::new(), None);
    for block in 0..3 {
        match table.read(&[block * PAGE..(block + 1) * PAGE], None).await {
            Ok(read) => all.extend(read.data.into_iter().flatten()),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    while setup.faults.unplan() {}
    assert!(all.windows(2).all(|two| two[0] == two[1]), "round {round}: two contents in one scan");
    // A listing without tags tells no more than size and second: of several contents of one second
    // the first that was read is the one, until a read finds another.
    let is_old = all.first().is_none_or(|&byte| usize::from(byte) == round % 251);
    assert!(is_old || !has_tags, "round {round}: not the old content");
    failed
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

/// Of every provider, as the command asks them: what cannot be had is named, and no secret is.
#[tokio::test]
async fn errors_of_every_provider_name_what_is_wrong_and_no_secret() {
    // A port that nobody listens at.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let text = |pairs: &[(&str, &str)]| pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect::<Vec<_>>();
    let open = ("allow_http", "true");
    let s3 = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("AWS_SESSION_TOKEN", "hunter2"),
        ("AWS_REGION", "us-east-1"),
        ("endpoint", &endpoint),
        open,
    ];
    let azure = [("AZURE_STORAGE_ACCOUNT_NAME", "me"), ("endpoint", &endpoint), open];
    let key = ("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==");
    let signed = ("AZURE_STORAGE_SAS_KEY", "?sv=2023&sig=hunter2");
    let account = r#""private_key": "hunter2", "private_key_id": "hunter2", "client_email": "me""#;
    let open_account = format!("{{{account}, \"disable_oauth\": true, \"gcs_base_url\": \"{endpoint}\"}}");
    let gcs = |key: &str| text(&[("GOOGLE_SERVICE_ACCOUNT_KEY", key), open]);
    let user = format!("http://me:hunter2@127.0.0.1:{port}/folder/t.parquet?sig=hunter2");
    let asked = [
        ("s3://bucket/folder", text(&s3), "bucket"),
        ("az://bucket/folder", text(&[&azure[..], &[key]].concat()), "bucket"),
        ("az://bucket/folder", text(&[&azure[..], &[signed]].concat()), "REDACTED"),
        (
            "az://bucket/folder",
            text(&[&azure[..], &[("AZURE_STORAGE_ACCOUNT_KEY", "hunter2!")]].concat()),
            "Access Key",
        ),
        ("gs://bucket/folder", gcs(&open_account), "bucket"),
        ("gs://bucket/folder", gcs(r#"{"private_key": "hunter2", "client_email"#), "service account"),
        ("gs://bucket/folder", gcs(&format!("{{{account}}}")), "pem"),
        (&user, text(&[open]), "folder"),
    ];
    // At the same time, since a client tries again for a minute.
    let asked = asked.map(|(url, settings, word)| async move {
        let error = match parse_url_opts(&url.parse().unwrap(), settings) {
            Ok((store, prefix)) => store.get(&prefix).await.map(drop).unwrap_err(),
            Err(error) => error,
        };
        let said = pagecast::storage::store_message(&error);
        println!("{said}");
        assert!(!said.contains("hunter2") && !said.contains("aHVudGVyMg"), "{said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{word}: {said}");
    });
    futures::future::join_all(asked).await;
}
