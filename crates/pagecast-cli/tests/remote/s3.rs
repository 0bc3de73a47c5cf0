//! `--data s3://bucket/folder` against servers of the field.

use std::process::Command;

use object_store::ObjectStoreExt;

use crate::server::{Kind, Server};
use crate::{assert_fails, closed_port, data, pagecast, rows, said, sql};

const QUERY: &str = "SELECT count(*), sum(l_quantity), max(l_comment) FROM lineitem WHERE l_tax > 0.01";

/// A server whose bucket has the data in `folder`.
async fn serving(kind: Kind) -> Option<(Server, String)> {
    let server = Server::start(kind)?;
    let store = server.store("not-to-be-shown");
    for entry in std::fs::read_dir(data()).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("folder/{}", path.file_name().unwrap().to_str().unwrap());
        store.put(&name.as_str().into(), std::fs::read(&path).unwrap().into()).await.unwrap();
    }
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    Some((server, endpoint))
}

fn with_keys(mut command: Command, key: &str, secret: &str) -> Command {
    command.env("AWS_ACCESS_KEY_ID", key).env("AWS_SECRET_ACCESS_KEY", secret).env("AWS_REGION", "us-east-1");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_by_variables_and_by_profiles() {
    for kind in [Kind::Versitygw, Kind::S3sFs] {
        let Some((_server, endpoint)) = serving(kind).await else { continue };
        let expected = said(&mut sql(data().to_str().unwrap(), &["-c", QUERY]));
        let query = |more: &[&str]| sql("s3://bucket/folder", &[more, &["-c", QUERY]].concat());
        let by_variables = said(&mut with_keys(query(&["--endpoint", &endpoint]), "test", "not-to-be-shown"));
        assert!(rows(&expected).len() == 2 && rows(&by_variables) == rows(&expected), "{by_variables}");
        for word in [" GET", "1 HEAD", "$"] {
            assert!(by_variables.contains(word), "no {word} in {by_variables}");
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let keys = "aws_access_key_id = test\naws_secret_access_key = not-to-be-shown\n";
        let other = "aws_access_key_id = test\naws_secret_access_key = hunter2\n";
        let settings = format!("region = us-east-1\nendpoint_url = {endpoint}\n");
        let write = |name: &str, text: String| std::fs::write(home.path().join(".aws").join(name), text).unwrap();
        write("credentials", format!("[default]\n{other}[work]\n{keys}"));
        write("config", format!("[default]\n{settings}[profile work]\n{settings}"));
        let by_profile = |name: &str| {
            let mut command = query(&[]);
            command.env("HOME", home.path()).env("AWS_PROFILE", name);
            command
        };
        let of_work = said(&mut by_profile("work"));
        assert_eq!(rows(&of_work), rows(&expected));
        assert_fails(&mut by_profile("default"), 1, &["s3://bucket/folder", "AWS_SECRET_ACCESS_KEY"]);
        let mut unknown = by_profile("nobody");
        unknown.env("AWS_METADATA_ENDPOINT", format!("http://127.0.0.1:{}", closed_port()));
        assert_fails(&mut unknown, 1, &["s3://bucket/folder", "`nobody`", "AWS_ACCESS_KEY_ID"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_name_objects_and_read_them_once() {
    let Some((_server, endpoint)) = serving(Kind::Versitygw).await else { return };
    let statements = "CREATE EXTERNAL TABLE again STORED AS CSV LOCATION 's3://bucket/folder/people.csv' \
         OPTIONS ('format.has_header' 'true'); \
         SELECT count(*), max(again.name) FROM again JOIN people USING (id); \
         SELECT count(*) FROM 's3://bucket/folder/people.csv' WHERE id > 49; \
         SELECT sum(l_tax) FROM lineitem; SELECT sum(l_tax) FROM lineitem";
    let command = sql("s3://bucket/folder", &["--endpoint", &endpoint, "-c", statements]);
    let text = said(&mut with_keys(command, "test", "not-to-be-shown"));
    assert!(text.contains("| 100      | n99") && text.contains("| 50 "), "{text}");
    let figures: Vec<_> = text.lines().filter(|line| line.contains("row in")).collect();
    let last = figures.last().unwrap();
    assert!(last.contains(" 0 B read") && !last.contains("GET"), "the second time all is in the pool: {text}");
    let absent = sql("s3://bucket/folder", &["--endpoint", &endpoint, "-c", "SELECT 1 FROM 's3://bucket/no.csv'"]);
    assert_fails(&mut with_keys(absent, "test", "not-to-be-shown"), 1, &["s3://bucket/no.csv", "no such"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bench_measures_a_server() {
    let Some((_server, endpoint)) = serving(Kind::Versitygw).await else { return };
    let mut command = pagecast();
    command.args(["bench", "--data", "s3://bucket/folder/lineitem.parquet", "--endpoint", &endpoint]);
    command.args(["--streams", "2", "--queries", "1", "--policies", "pbm"]);
    let text = said(&mut with_keys(command, "test", "not-to-be-shown"));
    for word in ["objects of s3://bucket", "GET", "HEAD", "cost"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named() {
    let Some((_server, endpoint)) = serving(Kind::Versitygw).await else { return };
    let place = |data: &str| sql(data, &["--endpoint", &endpoint, "-c", "SELECT 1"]);
    let fails = |command: Command, key: &str, secret: &str, words: &[&str]| {
        assert_fails(&mut with_keys(command, key, secret), 1, words);
    };
    let right = "not-to-be-shown";
    fails(place("s3://bucket/folder"), "test", "hunter2", &["AWS_SECRET_ACCESS_KEY does not belong"]);
    fails(place("s3://bucket/folder"), "somebody", right, &["no account has the key in AWS_ACCESS_KEY_ID"]);
    fails(place("s3://nobody/folder"), "test", right, &["s3://nobody/folder", "no such bucket"]);
    fails(place("s3://bucket/folder/absent.parquet"), "test", right, &["s3://bucket/folder/absent.parquet", "no such"]);
    fails(place("s3://bucket/absent"), "test", right, &["s3://bucket/absent", "no Parquet file"]);
    let mut halved = place("s3://bucket/folder");
    halved.env("AWS_ACCESS_KEY_ID", "test");
    assert_fails(&mut halved, 1, &["s3://bucket/folder", "AWS_SECRET_ACCESS_KEY"]);
    let mut keyless = place("s3://bucket/folder");
    keyless.env("AWS_METADATA_ENDPOINT", format!("http://127.0.0.1:{}", closed_port()));
    assert_fails(&mut keyless, 1, &["s3://bucket/folder", "no credential", "AWS_ACCESS_KEY_ID"]);
}
