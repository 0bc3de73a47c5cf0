//! Clients that have the server keep much for them: portals, statements, messages.

use std::time::{Duration, Instant};

use super::{MARGIN, MEMORY_BYTES, attack, attacked, bystander, error_of, rounds};
use crate::wire::Client;

/// Opens a portal of a prepared statement, and reads one row.
fn open(client: &mut Client, number: usize) -> Option<String> {
    let name = format!("p{number}\0");
    client.send(b'B', &[name.as_bytes(), b"s\0\0\0\0\0\0\0"].concat());
    client.send(b'E', &[name.as_bytes(), b"\0\0\0\x01"].concat());
    client.send(b'S', b"");
    error_of(client)
}

/// A client in a transaction, with a prepared statement.
fn with_statement(port: u16, sql: &str) -> Client {
    let mut client = Client::connect(port, "attacker");
    client.rows("BEGIN");
    client.send(b'P', &[b"s\0", sql.as_bytes(), b"\0\0\0"].concat());
    client.send(b'S', b"");
    assert_eq!(error_of(&mut client), None);
    client
}

#[test]
fn portals_that_are_left_open_count_as_memory() {
    let server = attacked(&[]);
    let held = attack("suspended portals", &server, MEMORY_BYTES + MARGIN, bystander(&server), || {
        let (mut clients, mut opened, mut refused) = (Vec::new(), 0, 0);
        for _ in 0..20 * rounds() {
            let mut client = with_statement(server.port, "SELECT * FROM large");
            loop {
                match open(&mut client, opened) {
                    None => opened += 1,
                    Some(error) => {
                        assert!(error.starts_with("53200 a portal that is suspended would keep "), "{error}");
                        refused += 1;
                        break;
                    }
                }
            }
            clients.push(client);
        }
        assert!(opened > 0 && refused == clients.len());
        eprintln!("{opened} portals are open, {} MiB of memory", server.status("query_memory_bytes") >> 20);
        clients
    });
    drop(held);
    server.assert_idle();
}

#[test]
fn a_connection_has_few_open_portals_and_not_for_ever() {
    let server = attacked(&["--portal-timeout", "1s"]);
    let mut client = with_statement(server.port, "SELECT * FROM small");
    for number in 0..16 {
        assert_eq!(open(&mut client, number), None);
    }
    let error = open(&mut client, 16).unwrap();
    assert!(error.starts_with("53400 16 portals with rows left is the limit of a connection"), "{error}");
    drop(client);
    let mut client = with_statement(server.port, "SELECT * FROM large");
    assert_eq!(open(&mut client, 0), None);
    assert!(server.status("query_memory_bytes") > 4 << 20);
    let began = Instant::now();
    while server.status("query_memory_bytes") > 1 << 20 {
        assert!(began.elapsed() < Duration::from_secs(30), "the portal is kept");
        std::thread::sleep(Duration::from_millis(50));
    }
    client.send(b'E', b"p0\0\0\0\0\x01");
    client.send(b'S', b"");
    let error = error_of(&mut client).unwrap();
    assert!(error.starts_with("25P03 the portal has ended") && error.ends_with("(--portal-timeout)"), "{error}");
    client.rows("ROLLBACK");
    assert_eq!(client.rows("SELECT 1").len(), 1);
}

#[test]
fn prepared_statements_count_as_memory() {
    let server = attacked(&[]);
    let held = attack("large prepared statements", &server, MEMORY_BYTES + MARGIN, bystander(&server), || {
        let text = "x".repeat(4 << 20);
        let mut clients = Vec::new();
        for _ in 0..4 * rounds() {
            let mut client = Client::connect(server.port, "attacker");
            let error = (0..4096).find_map(|number| {
                client.send(b'P', format!("s{number}\0SELECT '{text}'\0\0\0").as_bytes());
                client.send(b'S', b"");
                error_of(&mut client)
            });
            let error = error.unwrap();
            assert!(error.starts_with("53200 a prepared statement would keep "), "{error}");
            clients.push(client);
        }
        clients
    });
    drop(held);
    server.assert_idle();
}

#[test]
fn messages_that_do_not_end_count_as_memory() {
    let server = attacked(&[]);
    let held = attack("large messages without an end", &server, MEMORY_BYTES + MARGIN, bystander(&server), || {
        let part = vec![b'x'; 15 << 20];
        let mut clients = Vec::new();
        for _ in 0..30 * rounds() {
            let mut client = Client::connect(server.port, "attacker");
            client.raw(&[b"Q", &(16_u32 << 20).to_be_bytes()[..]].concat());
            client.raw(&part);
            clients.push(client);
        }
        let mut refused = 0;
        for client in &mut clients {
            client.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            if let Some((b'E', body)) = client.message() {
                let error = crate::wire::fields(&body);
                assert!(error.starts_with("53200 a message would keep "), "{error}");
                refused += 1;
            }
        }
        assert!(refused > 0);
        eprintln!("{refused} of {} large messages are refused", clients.len());
        clients
    });
    drop(held);
    server.assert_idle();
}
