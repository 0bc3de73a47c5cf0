//! Options and errors of every provider, with nobody there who would answer. No emulator of Google
//! Cloud Storage or Azure is part of this: what they answer is not tested.

use std::process::Command;

use crate::{assert_fails, closed_port, sql};

fn place(data: &str, port: u16, variables: &[(&str, &str)]) -> Command {
    let mut command = sql(data, &["--endpoint", &format!("http://127.0.0.1:{port}"), "-c", "SELECT 1"]);
    command.envs(variables.iter().copied());
    command
}

#[test]
fn a_store_that_nobody_serves_is_named_with_what_may_help() {
    let port = closed_port();
    let keys = [("AWS_ACCESS_KEY_ID", "me"), ("AWS_SECRET_ACCESS_KEY", "hunter2"), ("AWS_SESSION_TOKEN", "hunter2")];
    let account = "{\"private_key\": \"hunter2\", \"private_key_id\": \"hunter2\", \"client_email\": \"me\", \
                   \"disable_oauth\": true}";
    let azure = ("AZURE_STORAGE_ACCOUNT_NAME", "me");
    let unreached = "cannot be reached; is --endpoint right?";
    // At the same time, since a client tries again for a minute.
    let asked: [(&str, &[(&str, &str)]); 3] = [
        ("s3://bucket/folder", &keys),
        ("gs://bucket/folder", &[("GOOGLE_SERVICE_ACCOUNT_KEY", account)]),
        ("az://bucket/folder", &[azure, ("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==")]),
    ];
    std::thread::scope(|scope| {
        for (data, variables) in asked {
            scope.spawn(move || assert_fails(&mut place(data, port, variables), 1, &[data, unreached]));
        }
        let data = format!("http://me:hunter2@127.0.0.1:{port}/t.parquet");
        let shown = format!("http://127.0.0.1:{port}/t.parquet");
        scope.spawn(move || assert_fails(&mut sql(&data, &["-c", "SELECT 1"]), 1, &[&shown, "cannot be reached"]));
    });
}

#[test]
fn options_that_make_no_sense_are_named_at_once() {
    let fails = |data: &str, variables: &[(&str, &str)], words: &[&str]| {
        assert_fails(&mut place(data, closed_port(), variables), 1, words);
    };
    let azure = ("AZURE_STORAGE_ACCOUNT_NAME", "me");
    fails("az://bucket/folder", &[azure, ("AZURE_STORAGE_ACCOUNT_KEY", "hunter2!")], &["AZURE_STORAGE_ACCOUNT_KEY"]);
    fails("az://bucket/folder", &[], &["AZURE_STORAGE_ACCOUNT_NAME"]);
    fails(
        "gs://bucket/folder",
        &[("GOOGLE_SERVICE_ACCOUNT_KEY", "{\"private_key\": \"hunter2\"")],
        &["GOOGLE_SERVICE"],
    );
    fails("gs://bucket/folder", &[("GOOGLE_SERVICE_ACCOUNT", "/nowhere/to/be/found")], &["/nowhere/to/be/found"]);
    let mut own = sql("http://127.0.0.1/t.parquet", &["--endpoint", "http://127.0.0.1:1", "-c", "SELECT 1"]);
    assert_fails(&mut own, 2, &["--endpoint"]);
}
