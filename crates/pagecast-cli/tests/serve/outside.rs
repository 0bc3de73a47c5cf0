//! Nobody reads outside of `--data`: not by links in it, and not by the log of a Delta table.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::wire::Client;
use crate::{Server, pagecast};

/// Runs statements, as whoever owns the files.
#[track_caller]
fn sql(statements: &str) {
    let output = pagecast().args(["sql", "-c", statements]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A folder with a table `own`, and another folder beside it whose rows say `secret`.
fn folders() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let kept = tempfile::tempdir().unwrap();
    let (data, other) = (kept.path().join("data"), kept.path().join("other"));
    fs::create_dir_all(other.join("more")).unwrap();
    fs::create_dir(&data).unwrap();
    let copy = |what: &str, to: &Path| sql(&format!("COPY (SELECT '{what}' AS what) TO '{}'", to.display()));
    copy("own", &data.join("own.parquet"));
    copy("secret", &other.join("a.parquet"));
    copy("secret", &other.join("a.csv"));
    copy("secret", &other.join("more/b.parquet"));
    (kept, data, other)
}

#[test]
fn links_out_of_the_data_are_refused() {
    let (_kept, data, other) = folders();
    fs::create_dir(data.join("mixed")).unwrap();
    fs::copy(data.join("own.parquet"), data.join("mixed/0.parquet")).unwrap();
    for (to, from) in [
        (other.join("a.parquet"), "file.parquet"),
        (other.join("a.csv"), "text.csv"),
        (other.join("more"), "folder"),
        (other.join("a.parquet"), "mixed/1.parquet"),
        (data.join("own.parquet"), "inside.parquet"),
        (data.join("own.parquet"), "later.parquet"),
    ] {
        symlink(to, data.join(from)).unwrap();
    }
    let server = Server::of(&data, &[]);
    let mut client = Client::connect(server.port, "me");
    let own = [[Some("own".to_owned())]];
    for table in ["own", "inside", "later"] {
        assert_eq!(client.rows(&format!("SELECT what FROM {table}")), own, "{table}");
    }
    for table in ["file", "text", "folder", "mixed"] {
        let error = client.error(&format!("SELECT what FROM {table}"));
        assert!(!error.contains("secret") && error.contains(table), "{error}");
    }
    // A link that is turned while the server runs, and one that comes.
    fs::remove_file(data.join("later.parquet")).unwrap();
    symlink(other.join("a.parquet"), data.join("later.parquet")).unwrap();
    for statement in ["SELECT what FROM later", "SELECT count(*), max(what) FROM later"] {
        let error = client.error(statement);
        assert!(error.contains("leads out of"), "{error}");
    }
    // The user's own links are the user's own business.
    let command = &mut pagecast();
    let output = command.args(["sql", "-c", "SELECT what FROM file", "--data"]).arg(&data).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("secret"), "{output:?}");
}

#[test]
fn data_may_be_a_link_itself() {
    let (kept, data, _) = folders();
    symlink(&data, kept.path().join("link")).unwrap();
    let url = format!("file://{}", kept.path().canonicalize().unwrap().join("data").display());
    for data in [kept.path().join("link"), data.join("own.parquet"), url.into()] {
        let server = Server::of(&data, &[]);
        assert_eq!(Client::connect(server.port, "me").rows("SELECT what FROM own"), [[Some("own".to_owned())]]);
    }
}

#[test]
fn links_are_refused_behind_a_url_too() {
    let (_kept, data, other) = folders();
    symlink(other.join("a.parquet"), data.join("file.parquet")).unwrap();
    let server = Server::of(Path::new(&format!("file://{}", data.canonicalize().unwrap().display())), &[]);
    let mut client = Client::connect(server.port, "me");
    assert_eq!(client.rows("SELECT what FROM own"), [[Some("own".to_owned())]]);
    assert!(!client.error("SELECT what FROM file").contains("secret"));
}

#[test]
fn logs_that_name_other_files_are_refused() {
    let (_kept, data, other) = folders();
    let other = other.canonicalize().unwrap();
    let plain = other.join("a.parquet").display().to_string();
    let escaped = plain.replace('/', "%2F");
    for (name, path) in [
        ("whole", plain.clone()),
        ("url", format!("file://{plain}")),
        ("short_url", format!("file:{plain}")),
        ("escaped", escaped),
        ("up", "../../other/a.parquet".to_owned()),
        ("escaped_up", "%2e%2e/%2e%2e/other/a.parquet".to_owned()),
        ("elsewhere", "http://127.0.0.1/a.parquet".to_owned()),
        ("linked", "link.parquet".to_owned()),
    ] {
        let log = data.join(name).join("_delta_log");
        fs::create_dir_all(&log).unwrap();
        let size = fs::metadata(other.join("a.parquet")).unwrap().len();
        let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"what\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}"#;
        let lines = format!(
            r#"{{"protocol":{{"minReaderVersion":1,"minWriterVersion":2}}}}
{{"metaData":{{"id":"a","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}
{{"add":{{"path":"{path}","partitionValues":{{}},"size":{size},"modificationTime":0,"dataChange":true}}}}
"#
        );
        fs::write(log.join("00000000000000000000.json"), lines).unwrap();
    }
    symlink(other.join("a.parquet"), data.join("linked/link.parquet")).unwrap();
    let server = Server::of(&data, &[]);
    let mut client = Client::connect(server.port, "me");
    for name in ["whole", "url", "short_url", "escaped", "up", "escaped_up", "elsewhere", "linked"] {
        let error = client.error(&format!("SELECT what FROM {name}"));
        assert!(!error.contains("secret"), "{error}");
        if name == "linked" {
            continue;
        }
        // Whose log it is does not matter.
        let output = pagecast().args(["sql", "-c", "SELECT 1", "--data"]).arg(data.join(name)).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("lies "), "{name}: {output:?}");
    }
    assert_eq!(client.rows("SELECT what FROM own"), [[Some("own".to_owned())]]);
}
