//! Clients that take the places of others, and do not read.

use std::io::Read;
use std::time::{Duration, Instant};

use super::{MARGIN, MEMORY_BYTES, attack, attacked, bystander, error_of, newcomer, rounds};
use crate::Server;
use crate::wire::Client;

/// More clients than there are places.
const SILENT: usize = 40;

/// Clients that ask for many rows and read none.
fn silent(server: &Server) -> Vec<Client> {
    let ask = |_| {
        let mut client = Client::connect(server.port, "attacker");
        client.query("SELECT * FROM large");
        client
    };
    (0..SILENT * rounds().min(4)).map(ask).collect()
}

#[test]
fn who_does_not_read_keeps_no_place() {
    let server = attacked(&["--max-queries", "4", "--write-timeout", "3s"]);
    attack("clients that do not read", &server, MEMORY_BYTES + MARGIN, bystander(&server), || {
        let mut clients = silent(&server);
        std::thread::sleep(Duration::from_secs(2));
        let running = server.status("queries_running");
        // They end by themselves, after as many bytes as the network holds.
        let began = Instant::now();
        while server.status("connections") > 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "clients that do not read stay");
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("{running} statements ran, all ended {:?} later", began.elapsed());
        for client in &mut clients {
            let mut rest = Vec::new();
            let _ = client.stream.read_to_end(&mut rest);
            assert!(rest.len() > 100_000);
        }
    });
    server.assert_idle();
}

#[test]
fn row_groups_of_many_clients_wait_for_memory() {
    let server = attacked(&["--write-timeout", "3s"]);
    attack("clients that do not read, in all places", &server, MEMORY_BYTES + MARGIN, bystander(&server), || {
        let mut clients = silent(&server);
        let began = Instant::now();
        // Those that find no memory have their turn one after the other, up to the timeout each.
        while server.status("connections") > 2 && server.status("queries_running") > 2 {
            assert!(began.elapsed() < Duration::from_secs(240), "clients that do not read stay");
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("all ended {:?} later", began.elapsed());
        for client in &mut clients {
            let _ = client.stream.shutdown(std::net::Shutdown::Both);
        }
    });
    server.assert_idle();
}

#[test]
fn a_plan_that_takes_long_keeps_nobody_waiting() {
    let server = attacked(&[]);
    let long = format!("EXPLAIN SELECT a{} FROM small", " + 1".repeat(900));
    attack("plans that take long", &server, MEMORY_BYTES + MARGIN, bystander(&server), || {
        for _ in 0..rounds() {
            let mut clients: Vec<_> = (0..8)
                .map(|_| {
                    let mut client = Client::connect(server.port, "attacker");
                    client.rows("SET statement_timeout = '10ms'");
                    client.query(&long);
                    client
                })
                .collect();
            for client in &mut clients {
                assert_eq!(error_of(client).unwrap(), "57014 canceling statement due to statement timeout");
            }
        }
    });
    server.assert_idle();
}

#[test]
fn the_status_needs_no_place() {
    let server = attacked(&["--max-queries", "1"]);
    let mut busy = Client::connect(server.port, "attacker");
    busy.query("SELECT sum(value) FROM generate_series(1, 1000000000000)");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.status("query_places_free"), 0);
    let mut client = Client::connect(server.port, "other");
    client.rows("SET statement_timeout = '500ms'");
    assert!(client.rows("SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace").len() > 1);
    for sql in ["SELECT count(*) FROM small", "SELECT count(*) FROM pagecast.status, generate_series(1, 10)"] {
        assert!(client.error(sql).starts_with("57014"), "{sql}");
    }
}

#[test]
fn who_says_nothing_takes_no_place() {
    let server = attacked(&["--max-connections", "20"]);
    let said = attack("sockets that say nothing", &server, MARGIN, newcomer(&server), || {
        let mut silent: Vec<_> = (0..200).map(|_| Client::open(server.port)).collect();
        for _ in 1..rounds() {
            silent = (0..200).map(|_| Client::open(server.port)).collect();
        }
        let waiting = server.status("connections_not_logged_in");
        assert!((90..=100).contains(&waiting), "{waiting} connections wait");
        silent[0].said()
    });
    assert!(said.starts_with("53300 too many clients have not logged in"), "{said}");
    server.assert_idle();
}
