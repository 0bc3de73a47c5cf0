//! What goes wrong, and what clients may not.

use std::time::{Duration, Instant};

use crate::Server;
use crate::tpch::tables;
use crate::wire::{Client, fields, framed};

/// Long enough that whoever waits for its end would notice.
const LONG: &str = "SELECT sum(value) FROM generate_series(1, 1000000000000)";

fn server() -> Server {
    Server::of(tables(), &["--pool", "1MiB", "--max-message", "64KiB"])
}

#[test]
fn errors_have_a_class_and_one_line() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    for (sql, error) in [
        ("SELEC 1", "42601 "),
        ("EXPLAIN DELETE FROM nation", "25006 EXPLAIN"),
        ("SELECT nothing FROM lineitem", "42703 No field named nothing"),
        ("SELECT * FROM nowhere", "42P01 no table is called nowhere; SHOW TABLES lists the tables"),
        ("SELECT nosuch(1)", "42883 "),
        ("SELECT 1/0", "22012 "),
        ("SELECT 'x'::int", "22P02 "),
        ("SELECT 'x' ~ '('", "2201B "),
        ("SELECT x ~ y FROM (VALUES ('a', '(')) AS t (x, y)", "2201B "),
        ("SELECT regexp_replace(x, 'a{1000}{1000}', 'b') FROM (VALUES ('a')) AS t (x)", "2201B "),
        ("SELECT $1", "42P02 "),
        ("SET wal_level = 1", "42704 "),
    ] {
        let said = client.error(sql);
        assert!(said.starts_with(error) && !said.contains('\n'), "{sql}: {said}");
    }
    assert_eq!(client.rows("SELECT 1"), [[Some("1".to_owned())]]);
    assert!(!client.rows("EXPLAIN SELECT count(*) FROM nation").is_empty());
}

#[test]
fn nobody_reads_files_or_writes() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    let file = tables().join("nation.parquet");
    let file = file.display();
    for (sql, words) in [
        (format!("SELECT * FROM '{file}'"), "statements may not name files here"),
        (format!("SELECT * FROM \"{file}\""), "statements may not name files here"),
        ("SELECT * FROM \"/etc/passwd\"".into(), "statements may not name files here"),
        ("SELECT * FROM \"s3://bucket/x.parquet\"".into(), "statements may not name files here"),
        (format!("SELECT * FROM delta_compact('{file}')"), "clients may not call delta_compact"),
        ("COPY lineitem TO '/tmp/x.csv'".into(), "COPY"),
        ("COPY (SELECT 1) TO PROGRAM 'id'".into(), "PROGRAM"),
        ("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'".into(), "CREATE EXTERNAL TABLE"),
        ("CREATE TABLE x AS SELECT 1".into(), "CREATE TABLE"),
        ("INSERT INTO nation SELECT * FROM nation".into(), "INSERT INTO"),
        ("DELETE FROM nation".into(), "DELETE FROM"),
        ("EXPLAIN ANALYZE INSERT INTO nation SELECT * FROM nation".into(), ""),
        ("SET datafusion.execution.batch_size = 1".into(), "unrecognized configuration parameter"),
    ] {
        let said = client.error(&sql);
        assert!(said.contains(words), "{sql}: {said}");
    }
}

#[test]
fn several_statements_stop_at_the_first_that_fails() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    client.query("SELECT 1; SELECT 1/0; SELECT 2");
    let kinds: Vec<u8> = client.until_ready().iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == b'C').count(), 1);
    client.query(";");
    assert_eq!(client.until_ready(), [(b'I', vec![])]);
    // A transaction that has failed takes nothing but its end.
    client.rows("BEGIN");
    client.error("SELECT 1/0");
    assert!(client.error("SELECT 1").starts_with("25P02"));
    client.rows("ROLLBACK");
    assert_eq!(client.rows("SELECT 1").len(), 1);
}

#[test]
fn garbage_is_refused_and_costs_nothing_lasting() {
    let server = server();
    // Before anybody is known.
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0xff; 64],
        vec![0; 64],
        framed(None, &[0, 3]),
        framed(None, &[0, 2, 0, 0, 0]),
        framed(None, &[0, 3, 0, 0, b'u', b's', b'e', b'r']),
        i32::MAX.to_be_bytes().to_vec(),
    ] {
        let mut client = Client::open(server.port);
        client.raw(&bytes);
        client.last_words();
    }
    // Of a client that is known: types, lengths, contents.
    for bytes in [
        vec![0xff; 64],
        b"Q\xff\xff\xff\xff".to_vec(),
        b"Q\0\0\0\x01".to_vec(),
        b"Q\x7f\xff\xff\xff".to_vec(),
        framed(Some(b'B'), &[0, 0, 0xff, 0xff, 0, 1]),
        framed(Some(b'B'), b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0"),
        framed(Some(b'P'), b"\0SELECT 1\0\xff\xff"),
        framed(Some(b'D'), b"S"),
        framed(Some(b'E'), b"\0"),
        framed(Some(b'p'), b"secret\0"),
    ] {
        let mut client = Client::connect(server.port, "ada");
        client.raw(&bytes);
        let said = client.last_words();
        assert!(said.is_empty() || said.starts_with("08P01") || said.contains("there is no"), "{bytes:?}: {said}");
    }
    // A message that is too long is refused by its header.
    let mut client = Client::connect(server.port, "ada");
    client.query(&"x".repeat(70_000));
    assert!(client.last_words().starts_with("08P01 a message of 70005 bytes is refused; at most 65536"));
    server.assert_idle();
}

#[test]
fn clients_that_vanish_or_say_nothing_are_let_go() {
    let server = Server::of(tables(), &["--pool", "1MiB", "--idle-timeout", "1s"]);
    // Half of a greeting, half of a message, nothing at all.
    let mut half = Client::open(server.port);
    half.raw(&[0, 0]);
    let mut silent = Client::connect(server.port, "ada");
    silent.raw(b"Q\0\0");
    assert!(silent.said().starts_with("57P05"));
    // A client that goes ends its query.
    let mut gone = Client::connect(server.port, "ada");
    gone.query(LONG);
    std::thread::sleep(Duration::from_millis(200));
    drop(gone);
    // It is seen behind what it has asked for before, too.
    let mut ahead = Client::connect(server.port, "ada");
    let tables: Vec<_> = (0..30).map(|table| format!("lineitem t{table}")).collect();
    let parse = [b"\0SELECT * FROM ", tables.join(", ").as_bytes(), b"\0\0\0"].concat();
    ahead.raw(&framed(Some(b'P'), &parse).repeat(100));
    std::thread::sleep(Duration::from_millis(200));
    drop(ahead);
    let went = Instant::now();
    while server.status("connections") > 2 {
        assert!(went.elapsed() < Duration::from_secs(5), "a client that has gone is planned for");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The greeting has a time limit of its own.
    let began = Instant::now();
    assert_eq!(half.last_words(), "");
    assert!(began.elapsed() < Duration::from_secs(30));
    server.assert_idle();
}

#[test]
fn no_more_clients_than_the_limit_are_let_in() {
    let server = Server::of(tables(), &["--pool", "1MiB", "--max-connections", "3"]);
    let mut three: Vec<_> = (0..3).map(|_| Client::connect(server.port, "ada")).collect();
    let mut fourth = Client::open(server.port);
    fourth.hello("bob");
    assert!(fourth.last_words().starts_with("53300"));
    // The place of one who leaves is free, a moment later.
    three.pop();
    let began = Instant::now();
    let let_in = || {
        let mut client = Client::open(server.port);
        client.hello("bob");
        !client.until_ready().iter().any(|(kind, _)| *kind == b'E')
    };
    while !let_in() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn statements_are_cancelled_by_key_and_by_time() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    let cancel = |key: &[u8]| {
        let mut canceller = Client::open(server.port);
        canceller.raw(&framed(None, &[&80_877_102i32.to_be_bytes(), key].concat()));
        assert_eq!(canceller.last_words(), "");
    };
    // A wrong key does nothing.
    client.query(LONG);
    std::thread::sleep(Duration::from_millis(100));
    let mut wrong = client.key.clone();
    *wrong.last_mut().unwrap() ^= 1;
    cancel(&wrong);
    client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut byte = [0];
    assert!(client.stream.peek(&mut byte).is_err() || byte[0] == b'T');
    client.stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let key = client.key.clone();
    cancel(&key);
    let messages = client.until_ready();
    let error = messages.iter().find(|(kind, _)| *kind == b'E').unwrap();
    assert_eq!(fields(&error.1), "57014 canceling statement due to user request");
    client.rows("SET statement_timeout = '100ms'");
    assert_eq!(client.error(LONG), "57014 canceling statement due to statement timeout");
    client.rows("SET statement_timeout = 0");
    assert_eq!(client.rows("SELECT count(*) FROM nation"), [[Some("25".to_owned())]]);
    drop(client);
    server.assert_idle();
}

#[test]
fn an_open_transaction_may_rest_for_so_long() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    client.rows("SET idle_in_transaction_session_timeout = '200ms'");
    std::thread::sleep(Duration::from_millis(400));
    // Without a transaction it is no limit.
    client.rows("BEGIN");
    assert_eq!(client.said(), "25P03 terminating connection due to idle-in-transaction timeout");
    let mut client = Client::connect(server.port, "ada");
    assert!(client.error("SET idle_in_transaction_session_timeout = 'soon'").starts_with("22023"));
}

#[test]
fn queries_wait_for_a_place() {
    let server = Server::of(tables(), &["--pool", "1MiB", "--max-queries", "1"]);
    let mut first = Client::connect(server.port, "ada");
    first.query(LONG);
    std::thread::sleep(Duration::from_millis(200));
    let mut second = Client::connect(server.port, "bob");
    second.rows("SET statement_timeout = '200ms'");
    let reads = "SELECT 1 FROM nation LIMIT 1";
    assert_eq!(second.error(reads), "57014 canceling statement due to statement timeout");
    // Who asks whether the server answers waits for nobody.
    assert_eq!(second.rows("SELECT 1").len(), 1);
    drop(first);
    second.rows("SET statement_timeout = 0");
    assert_eq!(second.rows(reads).len(), 1);
}

#[test]
fn portals_give_rows_in_parts() {
    let server = server();
    let mut client = Client::connect(server.port, "ada");
    client.send(b'P', b"s\0SELECT n_nationkey FROM nation WHERE n_nationkey < $1 ORDER BY 1\0\0\0");
    client.send(b'B', b"p\0s\0\0\0\0\x01\0\0\0\x02\x31\x30\0\0");
    for _ in 0..3 {
        client.send(b'E', b"p\0\0\0\0\x04");
    }
    client.send(b'S', b"");
    let messages = client.until_ready();
    let kinds: String = messages.iter().map(|(kind, _)| *kind as char).collect();
    assert_eq!(kinds, "12DDDDsDDDDsDDC");
    assert_eq!(messages.last().unwrap().1, b"SELECT 2\0");
    // The portal ended with its transaction, and the statement did not.
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'D', b"Ss\0");
    client.send(b'S', b"");
    let messages = client.until_ready();
    assert!(fields(&messages[0].1).starts_with("34000"));
    assert_eq!(messages.len(), 1, "what follows an error up to Sync is skipped");
    client.send(b'D', b"Ss\0");
    client.send(b'S', b"");
    let kinds: String = client.until_ready().iter().map(|(kind, _)| *kind as char).collect();
    assert_eq!(kinds, "tT");
    drop(client);
    server.assert_idle();
}

#[test]
fn it_ends_when_it_is_told_to() {
    let server = Server::of(tables(), &["--pool", "1MiB", "--grace", "500ms"]);
    let mut idle = Client::connect(server.port, "ada");
    let mut busy = Client::connect(server.port, "bob");
    busy.query(LONG);
    std::thread::sleep(Duration::from_millis(200));
    let (status, took) = server.terminate();
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(idle.last_words().starts_with("57P01"));
    assert!(busy.last_words().starts_with("57P01"));
}

#[test]
fn queries_that_come_back_are_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("remembered");
    let args = ["--remember", file.to_str().unwrap()];
    let known = |client: &mut Client| client.rows("SELECT starts, query FROM pagecast_expected()");
    let server = Server::of(tables(), &args);
    let mut client = Client::connect(server.port, "ada");
    for _ in 0..3 {
        client.rows("SELECT sum(l_tax) FROM lineitem WHERE l_quantity > 7");
    }
    let before = known(&mut client);
    assert_eq!(before.iter().map(|row| row[0].as_deref()).collect::<Vec<_>>(), [Some("3")]);
    let shown = "SELECT reads, expected_at > now() - interval '1 hour', in_memory FROM pagecast_expected()";
    let reads = client.rows(shown);
    let [Some(reads), Some(soon), Some(in_memory)] = &reads[0][..] else { panic!("{reads:?}") };
    assert_eq!(reads, "l_quantity, l_tax FROM lineitem.parquet by l_quantity");
    assert_eq!((soon.as_str(), in_memory.as_str()), ("t", "1"));
    assert_eq!(server.terminate().0, Some(0));

    let server = Server::of(tables(), &args);
    let mut client = Client::connect(server.port, "ada");
    assert_eq!(known(&mut client), before);
    let query = before[0][1].as_deref().unwrap();
    let forget = format!("SELECT pagecast_forget('{query}'), pagecast_forget('{query}'), pagecast_forget('no')");
    assert_eq!(client.rows(&forget)[0], ["t", "f", "f"].map(|answer| Some(answer.to_owned())));
    assert!(known(&mut client).is_empty());
    drop((client, server));

    // What a scheduler says is expected from the first run on.
    let server = Server::of(tables(), &[]);
    let mut client = Client::connect(server.port, "ada");
    client.rows("SELECT sum(l_tax) FROM lineitem");
    client.rows("SET pagecast.again_in = '1d'");
    client.rows("SELECT sum(l_discount) FROM lineitem");
    client.rows("RESET pagecast.again_in");
    client.rows("SELECT sum(l_quantity) FROM lineitem");
    let expected = client.rows("SELECT reads, gap_seconds FROM pagecast_expected() WHERE expected_at > now()");
    assert_eq!(expected, [["l_discount FROM lineitem.parquet", "86400"].map(|text| Some(text.to_owned()))]);
    drop((client, server));

    // What is no such file starts it cold.
    std::fs::write(&file, "nothing of the kind").unwrap();
    let server = Server::of(tables(), &args);
    assert!(known(&mut Client::connect(server.port, "ada")).is_empty());
}

#[test]
fn usage_is_checked_before_anything_is_served() {
    let refused = |args: &[&str]| {
        let output = crate::pagecast().arg("serve").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let data = tables().to_str().unwrap();
    assert!(refused(&["--data", data, "--listen", "0.0.0.0:0"]).contains("say who may connect by --users"));
    let users = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&users, "ada secret\n").unwrap();
    let reached = ["--data", data, "--listen", "0.0.0.0:0", "--users", users.path().to_str().unwrap()];
    let said = refused(&reached);
    assert!(said.contains("--listen: 0.0.0.0:0 can be reached from elsewhere, and passwords are sent; give"), "{said}");
    assert!(refused(&[&reached[2..], &["--without-tls"]].concat()).contains("--data: there is nothing to serve"));
    assert!(refused(&["--listen", "127.0.0.1:0"]).contains("--data: there is nothing to serve"));
    assert!(refused(&["--data", data, "--max-message", "2GiB"]).contains("from 1KiB to 512MiB"));
    assert!(refused(&["--data", data, "--max-queries", "0"]).contains("nobody is served with 0"));
}

#[test]
fn what_is_too_deep_or_too_wide_ends_no_server() {
    let server = Server::of(tables(), &["--memory", "256MiB"]);
    let mut client = Client::connect(server.port, "ada");
    let columns: Vec<String> = (0..100_000).map(|at| format!("{at} AS c{at}")).collect();
    let with: Vec<String> = (1..30).map(|at| format!("w{at} AS (SELECT a.x FROM w{0} a, w{0} b)", at - 1)).collect();
    let doubled = format!("WITH w0 AS (SELECT 1 AS x), {} SELECT * FROM w29", with.join(", "));
    for (sql, error) in [
        (format!("SELECT 1{}", "+1".repeat(2000)), "54001 the statement is 2000 levels deep"),
        (format!("SELECT true{}", " OR true".repeat(20_000)), "54001 "),
        (format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(7000)), "54001 "),
        (format!("SELECT {}", columns.join(", ")), "54011 a SELECT lists 100000 columns, and the limit is 1664"),
        ("SELECT $2000000000".to_owned(), "42P02 "),
        ("SELECT 1;".repeat(2000), "54000 2001 statements came at once"),
        (doubled, "54001 the statement reads "),
    ] {
        let said = client.error(&sql);
        assert!(said.starts_with(error), "{sql:.60}: {said}");
        // The same of the other protocol.
        client.send(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
        client.send(b'S', b"");
        let messages = client.until_ready();
        let said = messages.iter().find(|(kind, _)| *kind == b'E').map(|(_, body)| fields(body)).unwrap_or_default();
        assert!(said.starts_with(error), "{sql:.60}: {said}");
    }
    assert_eq!(client.rows(&format!("SELECT 1{}", "+1".repeat(900))), [[Some("901".to_owned())]]);
    assert_eq!(client.rows(&format!("SELECT {}", columns[..1600].join(", ")))[0].len(), 1600);
}
