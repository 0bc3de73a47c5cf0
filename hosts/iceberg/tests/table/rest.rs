//! A table of a REST catalog, which a small server here plays.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use datafusion::prelude::SessionContext;

use super::data::{Fixture, LEFT, number, run};

const TOKEN: &str = "hunter2";

/// Answers for `n.t` to those who have the token or ask for one; what it was asked.
fn serve(metadata: &Path) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (seen, metadata) = (Arc::clone(&asked), metadata.to_owned());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (seen, metadata) = (Arc::clone(&seen), metadata.clone());
            std::thread::spawn(move || answer_all(stream.unwrap(), &seen, &metadata));
        }
    });
    (url, asked)
}

fn answer_all(mut stream: TcpStream, seen: &Mutex<Vec<String>>, metadata: &Path) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        while reader.read_line(&mut head).unwrap_or(0) > 0 && !head.ends_with("\r\n\r\n") {}
        let lower = head.to_lowercase();
        let Some(line) = head.lines().next() else { return };
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        seen.lock().unwrap().push(line.to_owned());
        let is_known = lower.contains(&format!("authorization: bearer {TOKEN}"));
        let path = line.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
        let (status, body) = match path {
            "/v1/oauth/tokens"
                if body.ends_with(b"secret=hunter3")
                    || String::from_utf8_lossy(&body).contains("client_secret=hunter3") =>
            {
                ("200 OK", serde_json::json!({"access_token": TOKEN, "token_type": "bearer"}))
            }
            _ if !is_known => (
                "401 Unauthorized",
                serde_json::json!({"error":
                {"message": "who are you?", "type": "NotAuthorizedException", "code": 401}}),
            ),
            "/v1/config" => ("200 OK", serde_json::json!({"defaults": {}, "overrides": {"prefix": "p"}})),
            "/v1/p/namespaces/n/tables/t" => {
                let json: serde_json::Value = serde_json::from_slice(&std::fs::read(metadata).unwrap()).unwrap();
                (
                    "200 OK",
                    serde_json::json!({"metadata-location": format!("file://{}", metadata.display()),
                    "metadata": json, "config": {"s3.secret-access-key": "hunter4"}}),
                )
            }
            "/v1/p/namespaces/n/tables/broken" => ("200 OK", serde_json::json!({"config": {"token": "hunter5"}})),
            _ => (
                "404 Not Found",
                serde_json::json!({"error":
                {"message": "there is none", "type": "NoSuchTableException", "code": 404}}),
            ),
        };
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
    }
}

fn made(url: &str, options: &str) -> String {
    format!("CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '{url}' OPTIONS ({options})")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rest_catalog_says_where_the_metadata_are() {
    let table = Fixture::new(2).await;
    let (url, asked) = serve(&table.root.join("metadata/v1.metadata.json"));
    let allow = format!("'allow' 'file://{}'", table.root.display());
    for login in ["'token' 'hunter2'", "'credential' 'me:hunter3'"] {
        let ctx = SessionContext::new();
        pagecast_iceberg::install(&ctx, &[]).unwrap();
        run(&ctx, &made(&url, &format!("'table' 'n.t', {login}, {allow}"))).await.unwrap();
        assert_eq!(number(&ctx, "SELECT count(*) FROM t").await, LEFT);
        // Each statement asks for the newest metadata.
        let before = asked.lock().unwrap().len();
        assert_eq!(number(&ctx, "SELECT count(*) FROM \"t@s1\"").await, LEFT);
        assert!(asked.lock().unwrap().len() > before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_is_refused_in_plain_words() {
    let table = Fixture::new(2).await;
    let (url, _) = serve(&table.root.join("metadata/v1.metadata.json"));
    let allow = format!("'allow' 'file://{}'", table.root.display());
    let with_password = url.replace("http://", "http://me:hunter2@");
    for (url, options, why) in [
        (&url, format!("'table' 'n.t', {allow}"), "the catalog says"),
        (&url, format!("'table' 'n.t', 'token' 'hunter6', {allow}"), "the catalog says"),
        (&url, format!("'table' 'n.u', 'token' 'hunter2', {allow}"), "does not exist"),
        (&url, format!("'table' 'n.broken', 'token' 'hunter2', {allow}"), "the catalog says"),
        (&url, format!("'table' 't', 'token' 'hunter2', {allow}"), "namespace.table"),
        (&url, "'table' 'n.t', 'token' 'hunter2'".to_owned(), "no place is allowed"),
        (&url, "'table' 'n.t', 'token' 'hunter2', 'allow' '/nowhere'".to_owned(), "lies outside"),
        (&url, allow.clone(), "option 'table'"),
        (&with_password, format!("'table' 'n.t', {allow}"), "no user or password"),
    ] {
        let ctx = SessionContext::new();
        pagecast_iceberg::install(&ctx, &[]).unwrap();
        let error = run(&ctx, &made(url, &options)).await.unwrap_err();
        assert!(error.contains(why), "{options}: {error}");
        assert!(!error.contains("hunter"), "{error}");
    }
}
