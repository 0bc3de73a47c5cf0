//! `--flight`: a client of gRPC in here, drivers as people have them, and what clients may not.

use std::collections::HashMap;
use std::fs;
use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{Any, CommandGetTables, CommandPreparedStatementQuery, ProstMessageExt};
use arrow_flight::{FlightData, FlightDescriptor, Ticket};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::transport::Channel;

use crate::Server;
use crate::tpch::{by_shell, query, rows, tables};
use crate::wire;

/// Long enough that whoever waits for its end would notice.
const LONG: &str = "SELECT sum(value) FROM generate_series(1, 1000000000000)";

pub(crate) type Client = FlightSqlServiceClient<Channel>;

fn server(args: &[&str]) -> Server {
    Server::of(tables(), &[&["--pool", "1MiB", "--flight", "127.0.0.1:0", "--max-message", "64KiB"], args].concat())
}

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

pub(crate) async fn channel(server: &Server) -> Channel {
    let address = format!("http://{}", server.flight.as_deref().unwrap());
    Channel::from_shared(address).unwrap().connect().await.unwrap()
}

pub(crate) async fn client(server: &Server) -> Client {
    Client::new(channel(server).await)
}

/// All rows of a statement, or what is said of it.
pub(crate) async fn all(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let info = client.execute(sql.to_owned(), None).await.map_err(|error| error.to_string())?;
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await.map_err(|error| error.to_string())?;
    rows.try_collect().await.map_err(|error: arrow_flight::error::FlightError| error.to_string())
}

fn number(batches: &[RecordBatch]) -> i64 {
    batches.iter().find(|batch| batch.num_rows() > 0).unwrap().column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn statements_are_answered_and_refused() {
    let server = server(&[]);
    run(async {
        let mut client = client(&server).await;
        let counted = all(&mut client, "SELECT count(*) FROM lineitem").await.unwrap();
        assert!(number(&counted) > 50_000);
        let file = tables().join("nation.parquet");
        for (sql, words) in [
            ("SELEC 1".to_owned(), "(42601)"),
            ("SELECT nothing FROM nation".into(), "(42703)"),
            ("SELECT * FROM nowhere".into(), "no table is called nowhere; SHOW TABLES lists the tables (42P01)"),
            ("SELECT 1/0".into(), "(22012)"),
            ("SELECT 1; SELECT 2".into(), "one statement, and not several"),
            ("SELECT $1".into(), "0 parameters came for a statement of 1"),
            (format!("SELECT * FROM '{}'", file.display()), "statements may not name files here"),
            ("SELECT * FROM delta_compact('x')".into(), "clients may not call delta_compact"),
            ("COPY lineitem TO '/tmp/x.csv'".into(), "COPY"),
            ("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'".into(), "CREATE EXTERNAL TABLE"),
            ("DELETE FROM nation".into(), "DELETE FROM"),
            ("PREPARE q AS SELECT 1".into(), "write the SELECT with ?"),
            ("EXECUTE q".into(), "write the SELECT with ?"),
            ("COPY nation TO STDOUT".into(), "write the SELECT alone"),
            ("SET LOCAL geqo = off".into(), "write SET"),
            ("EXPLAIN ANALYZE INSERT INTO nation SELECT * FROM nation".into(), "INSERT"),
        ] {
            let said = all(&mut client, &sql).await.unwrap_err();
            assert!(said.contains(words) && !said.contains('\n'), "{sql}: {said}");
        }
        assert!(
            client.execute_update("DELETE FROM nation".into(), None).await.unwrap_err().to_string().contains("25006")
        );
        // A ticket is no way around.
        let ticket = arrow_flight::sql::TicketStatementQuery { statement_handle: "DROP TABLE nation".into() };
        let forged = client.do_get(Ticket::new(ticket.as_any().encode_to_vec())).await;
        assert!(forged.err().unwrap().to_string().contains("25006"));
        let text = |batches: &[RecordBatch]| batches[0].column(0).as_string::<i32>().value(0).to_owned();
        for (sql, is) in [
            ("SELECT set_config('application_name', 'job', false)", "job"),
            ("SELECT set_config('application_name', 'once', true)", "once"),
            ("SELECT current_setting('application_name')", "job"),
        ] {
            let rows: Vec<_> = all(&mut client, sql).await.unwrap();
            let rows: Vec<_> = rows.into_iter().filter(|batch| batch.num_rows() > 0).collect();
            assert_eq!(text(&rows), is, "{sql}");
        }
        // The errors have ended their statements alone.
        assert_eq!(number(&all(&mut client, "SELECT count(*) FROM nation").await.unwrap()), 25);
    });
    server.assert_idle();
}

#[test]
fn prepared_statements_take_parameters() {
    let server = server(&[]);
    run(async {
        let mut client = client(&server).await;
        let sql = "SELECT count(*) FROM nation WHERE n_regionkey = ? AND n_name > ?";
        let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
        assert_eq!(prepared.parameter_schema().unwrap().fields().len(), 2);
        for (region, name, count) in [(1, "", 5), (1, "BZ", 3), (9, "", 0)] {
            let columns: [(&str, ArrayRef); 2] =
                [("1", Arc::new(Int32Array::from(vec![region]))), ("2", Arc::new(StringArray::from(vec![name])))];
            prepared.set_parameters(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
            let info = prepared.execute().await.unwrap();
            let rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
            assert_eq!(number(&rows.try_collect::<Vec<_>>().await.unwrap()), count, "{region} {name}");
        }
        let two: [(&str, ArrayRef); 2] =
            [("1", Arc::new(Int32Array::from(vec![1, 2]))), ("2", Arc::new(StringArray::from(vec!["", ""])))];
        prepared.set_parameters(RecordBatch::try_from_iter(two).unwrap()).unwrap();
        assert!(prepared.execute().await.unwrap_err().to_string().contains("one row of parameters"));
        prepared.close().await.unwrap();
        // A handle is its connection's.
        let mut other = crate::flight::client(&server).await;
        let query = CommandPreparedStatementQuery { prepared_statement_handle: 1u64.to_be_bytes().to_vec().into() };
        let stolen = other.do_get(Ticket::new(query.as_any().encode_to_vec())).await;
        assert!(stolen.err().unwrap().to_string().contains("no such prepared statement"));
    });
    server.assert_idle();
}

#[test]
fn settings_are_the_connections_own() {
    let server = server(&[]);
    run(async {
        let mut client = client(&server).await;
        client.execute_update("SET statement_timeout = '100ms'".into(), None).await.unwrap();
        let said = all(&mut client, LONG).await.unwrap_err();
        assert!(said.contains("statement timeout (57014)"), "{said}");
        let mut other = crate::flight::client(&server).await;
        let shown = all(&mut other, "SHOW statement_timeout").await.unwrap();
        assert_eq!(shown[0].column(0).as_string::<i32>().value(0), "0");
        // A transaction has nothing in it.
        let begun = client.begin_transaction().await.unwrap();
        client.end_transaction(begun, arrow_flight::sql::EndTransaction::Commit).await.unwrap();
    });
    server.assert_idle();
}

/// A statement of one row that needs a place.
const READS: &str = "SELECT 1 FROM nation LIMIT 1";

#[test]
fn who_drops_a_query_ends_it() {
    let server = server(&["--max-queries", "1"]);
    run(async {
        let mut client = client(&server).await;
        let info = client.execute(LONG.to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let mut rows = client.do_get(ticket.clone()).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(300), rows.next()).await.is_err());
        // Who comes after it waits.
        let mut second = crate::flight::client(&server).await;
        let waits = tokio::time::timeout(Duration::from_millis(300), all(&mut second, READS)).await;
        assert!(waits.is_err());
        drop(rows);
        assert_eq!(number(&all(&mut second, READS).await.unwrap()), 1);
        // So does one whose connection goes.
        let mut third = crate::flight::client(&server).await;
        let mut rows = third.do_get(ticket).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(300), rows.next()).await.is_err());
        drop((rows, third));
        assert_eq!(number(&all(&mut second, READS).await.unwrap()), 1);
    });
    server.assert_idle();
}

#[test]
fn who_drops_rows_keeps_the_connection() {
    let server = server(&[]);
    run(async {
        let mut client = client(&server).await;
        let info = client.execute("SELECT l_orderkey FROM lineitem LIMIT 20000".into(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        // Whatever the query is at, from its first batch to its last.
        for dropped in 0..300 {
            let mut rows = client.do_get(ticket.clone()).await.unwrap();
            for _ in 0..dropped % 4 {
                rows.next().await.transpose().unwrap();
            }
            drop(rows);
            assert_eq!(number(&all(&mut client, "SELECT 1").await.unwrap()), 1, "{dropped}");
        }
    });
    server.assert_idle();
}

#[test]
fn a_client_that_does_not_read_meets_the_timeout() {
    let args = ["--memory", "1536MiB", "--flight", "127.0.0.1:0", "--statement-timeout", "1s"];
    let server = Server::of(tables(), &args);
    run(async {
        let mut client = client(&server).await;
        // More than all windows between here and there hold.
        let sql = "SELECT l_comment, repeat(l_comment, 50) FROM lineitem";
        let info = client.execute(sql.to_owned(), None).await.unwrap();
        let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        let said = loop {
            match rows.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error.to_string(),
                None => panic!("all rows came"),
            }
        };
        assert!(said.contains("statement timeout"), "{said}");
    });
    server.assert_idle();
}

#[test]
fn users_show_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, "ada secret memory=1MiB\nbob other\n").unwrap();
    let server = server(&["--users", users.to_str().unwrap()]);
    run(async {
        let greedy = "SELECT sum(length(s)) FROM (SELECT string_agg(repeat(l_comment, 10), '') AS s FROM lineitem)";
        for (user, password) in [("ada", "other"), ("ada", ""), ("eve", "secret"), ("ada", "secret ")] {
            let mut client = client(&server).await;
            let said = client.handshake(user, password).await.unwrap_err().to_string();
            assert!(said.contains("password authentication failed"), "{said}");
            assert!(all(&mut client, "SELECT 1").await.unwrap_err().contains("log in"));
            client.set_token("0123456789abcdef".to_owned());
            assert!(all(&mut client, "SELECT 1").await.unwrap_err().contains("log in"));
            assert!(client.get_catalogs().await.unwrap_err().to_string().contains("log in"));
        }
        let mut ada = client(&server).await;
        ada.handshake("ada", "secret").await.unwrap();
        let who = all(&mut ada, "SELECT current_user").await.unwrap();
        assert_eq!(who[0].column(0).as_string::<i32>().value(0), "ada");
        let said = all(&mut ada, greedy).await.unwrap_err();
        assert!(said.contains("(53200)"), "{said}");
        let mut bob = client(&server).await;
        bob.handshake("bob", "other").await.unwrap();
        assert!(number(&all(&mut bob, greedy).await.unwrap()) > 0);
        // A connection is one user's.
        bob.set_token(ada.token().unwrap().clone());
        assert!(all(&mut bob, "SELECT 1").await.unwrap_err().contains("this connection is of the user"));
    });
}

#[test]
fn tables_are_described() {
    let server = server(&[]);
    run(async {
        let mut client = client(&server).await;
        for include_schema in [false, true] {
            let request = CommandGetTables {
                catalog: None,
                db_schema_filter_pattern: Some("pub%".into()),
                table_name_filter_pattern: None,
                table_types: vec!["TABLE".into()],
                include_schema,
            };
            let info = client.get_tables(request).await.unwrap();
            let found = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
            let found = found.try_collect::<Vec<_>>().await.unwrap();
            assert_eq!((found[0].num_rows(), found[0].num_columns()), (8, 4 + usize::from(include_schema)));
        }
        // The schema of a statement, without its rows.
        let query = arrow_flight::sql::CommandStatementQuery { query: "SELECT 1 AS one".into(), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
        let schema = client.inner_mut().get_schema(descriptor).await.unwrap().into_inner();
        let schema: arrow::datatypes::Schema = (&schema).try_into().unwrap();
        assert_eq!(schema.field(0).name(), "one");
    });
}

/// Waits until the server hangs up; what it said before.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return said,
            Ok(count) => said.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return said,
            Err(error) => panic!("the server keeps the connection: {error}"),
        }
    }
}

#[test]
fn what_is_no_client_is_hung_up_on() {
    let server = server(&[]);
    let open = || TcpStream::connect(server.flight.as_deref().unwrap()).unwrap();
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // A word of a client, then nothing: it is not waited for.
    let silent: Vec<_> = [&b""[..], b"P", preface]
        .iter()
        .map(|bytes| {
            let mut stream = open();
            stream.write_all(bytes).unwrap();
            (stream, Instant::now())
        })
        .collect();
    let huge = [preface, b"\xff\xff\xff\0\0\0\0\0\x01"].concat();
    for bytes in [&b"\xff\xfe garbage that is no protocol at all, and longer than a preface"[..], &huge] {
        let mut stream = open();
        stream.write_all(bytes).unwrap();
        until_closed(stream);
    }
    for (stream, began) in silent {
        until_closed(stream);
        assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    }
    server.assert_idle();
}

#[test]
fn wrong_messages_end_their_request_alone() {
    let server = server(&[]);
    run(async {
        let mut client = client(&server).await;
        let sql = "SELECT count(*) FROM nation WHERE n_regionkey = $1";
        let _kept = client.prepare(sql.to_owned(), None).await.unwrap();
        let query = CommandPreparedStatementQuery { prepared_statement_handle: 1u64.to_be_bytes().to_vec().into() };
        let descriptor = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
        let mut raw = FlightServiceClient::new(channel(&server).await);
        // Bytes in the place of rows; a splitmix64 draws them.
        let mut random = 7u64;
        let mut bytes = |count: usize| {
            let next = |_| {
                random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                (mixed ^ (mixed >> 27)) as u8
            };
            (0..count).map(next).collect::<Vec<_>>()
        };
        for count in [0, 1, 8, 100, 1000] {
            let data = FlightData::new().with_descriptor(descriptor.clone());
            let data = data.with_data_header(bytes(count)).with_data_body(bytes(count));
            let put = client.inner_mut().do_put(stream::iter([data])).await;
            let ended = match put {
                Ok(answer) => answer.into_inner().try_collect::<Vec<_>>().await.map(drop),
                Err(status) => Err(status),
            };
            assert!(ended.is_err(), "{count} bytes made parameters");
            assert!(raw.do_get(Ticket::new(bytes(count))).await.is_err());
            assert!(raw.get_flight_info(FlightDescriptor::new_cmd(bytes(count))).await.is_err());
        }
        // Larger than a message may be.
        let large = format!("SELECT '{}'", "x".repeat(100 << 10));
        let query = arrow_flight::sql::CommandStatementQuery { query: large, transaction_id: None };
        let refused = raw.get_flight_info(FlightDescriptor::new_cmd(Any::pack(&query).unwrap().encode_to_vec())).await;
        assert_eq!(refused.unwrap_err().code(), tonic::Code::OutOfRange);
        assert_eq!(number(&all(&mut client, "SELECT count(*) FROM nation").await.unwrap()), 25);
    });
    server.assert_idle();
}

#[test]
fn the_limit_of_clients_is_that_of_both_protocols() {
    let server = server(&["--max-connections", "2", "--idle-timeout", "2s"]);
    let held = wire::Client::connect(server.port, "ada");
    run(async {
        let mut client = client(&server).await;
        all(&mut client, "SELECT 1").await.unwrap();
        let mut third = wire::Client::open(server.port);
        third.hello("bob");
        assert!(third.last_words().starts_with("53300"));
        // Both have asked nothing for too long, and have left.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let began = Instant::now();
        while server.status("connections") != 1 {
            assert!(began.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    drop(held);
}

#[test]
fn it_ends_when_it_is_told_to() {
    let server = server(&["--grace", "500ms"]);
    run(async {
        let mut client = client(&server).await;
        let info = client.execute(LONG.to_owned(), None).await.unwrap();
        let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(300), rows.next()).await.is_err());
        let ended = tokio::task::spawn_blocking(move || server.terminate());
        let said = rows.next().await.unwrap().unwrap_err().to_string();
        assert!(said.contains("the server is shut down (57P01)"), "{said}");
        let (status, took) = ended.await.unwrap();
        assert_eq!(status, Some(0));
        assert!(took < Duration::from_secs(30), "{took:?}");
    });
}

#[test]
fn usage_is_checked() {
    let refused = |args: &[&str]| {
        let output = crate::pagecast().arg("serve").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, "ada secret\n").unwrap();
    let (data, users) = (tables().to_str().unwrap(), users.to_str().unwrap());
    assert!(refused(&["--data", data, "--flight", "0.0.0.0:0"]).contains("say who may connect by --users"));
    let said = refused(&["--data", data, "--flight", "0.0.0.0:0", "--users", users]);
    assert!(said.contains("passwords are sent; give --tls-cert"), "{said}");
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve").join(name)
}

#[test]
fn adbc_works() {
    let Some(python) = std::env::var_os("PAGECAST_ADBC") else {
        eprintln!("skipped: PAGECAST_ADBC names no Python with adbc-driver-flightsql and pyarrow (make test-serve)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (users, answers) = (folder.path().join("users"), folder.path().join("answers"));
    fs::write(&users, "ada secret\n").unwrap();
    fs::create_dir(&answers).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]);
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1"]).arg("-keyout").arg(&key).arg("-out").arg(&cert);
    let has_tls = openssl.output().is_ok_and(|output| output.status.success());
    let mut args = vec!["--users", users.to_str().unwrap()];
    if has_tls {
        args.extend(["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    }
    let server = Server::of(tables(), &[&["--pool", "1MiB", "--flight", "127.0.0.1:0"], args.as_slice()].concat());
    let mut command = Command::new(python);
    command.arg(beside("flight.py"));
    let output = command.arg(server.flight.as_deref().unwrap()).arg(query(1).parent().unwrap()).arg(&answers);
    let output = output.args(has_tls.then_some(&cert)).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    let compared: HashMap<usize, bool> = (1..=22)
        .map(|number| {
            let answer = fs::read(answers.join(format!("q{number:02}.csv"))).unwrap();
            (number, rows(&answer) == by_shell(&query(number)))
        })
        .collect();
    assert!(compared.values().all(|same| *same), "{compared:?}");
}

#[test]
fn jdbc_works() {
    let Some(driver) = std::env::var_os("PAGECAST_FLIGHT_JDBC") else {
        eprintln!("skipped: PAGECAST_FLIGHT_JDBC names no driver of Flight SQL for Java (make test-serve)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, "ada secret\n").unwrap();
    let limits = ["--users", users.to_str().unwrap()];
    let server = Server::of(tables(), &[&["--pool", "1MiB", "--flight", "127.0.0.1:0"], &limits[..]].concat());
    let mut java = Command::new("java");
    java.args(["--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp"]).arg(driver).arg(beside("FlightJdbc.java"));
    let output = java.arg(server.flight.as_deref().unwrap()).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
}
