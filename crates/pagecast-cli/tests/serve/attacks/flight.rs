//! The same by Flight SQL.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use arrow_flight::FlightDescriptor;
use arrow_flight::flight_service_client::FlightServiceClient;
use futures::future::join_all;

use super::{MARGIN, MEMORY_BYTES, attack, attacked, bystander, rounds, users};
use crate::clients::login;
use crate::flight::{all, channel, client, run};

const FLIGHT: [&str; 2] = ["--flight", "127.0.0.1:0"];

#[test]
fn before_login_no_request_is_read() {
    let (_folder, users) = users("ada secret\n");
    let server = attacked(&[FLIGHT[0], FLIGHT[1], "--users", &users]);
    if login(&server, "ada", "secret", "disable", "SELECT 1").is_none() {
        return;
    }
    let ask = || assert!(login(&server, "ada", "secret", "disable", "SELECT count(*) FROM small").unwrap().0);
    attack("large requests before login", &server, MARGIN, ask, || {
        run(async {
            let body = vec![0_u8; 8 << 20];
            for _ in 0..rounds() {
                let requests = (0..10).map(|_| async {
                    let raw = FlightServiceClient::new(channel(&server).await);
                    let requests = (0..16).map(|_| {
                        let (mut raw, body) = (raw.clone(), body.clone());
                        async move { raw.get_flight_info(FlightDescriptor::new_cmd(body)).await.unwrap_err() }
                    });
                    join_all(requests).await
                });
                for status in join_all(requests).await.into_iter().flatten() {
                    // Or the connection has ended before its turn.
                    let transport = ["h2", "transport", "connection", "stream"];
                    let said = format!("{status:?}");
                    assert!(said.contains("28000") || transport.iter().any(|word| said.contains(word)), "{said}");
                }
            }
        });
    });
}

#[test]
fn who_does_not_read_rows_keeps_no_place() {
    let server = attacked(&[FLIGHT[0], FLIGHT[1], "--max-queries", "4", "--write-timeout", "3s"]);
    attack("clients of Flight SQL that do not read", &server, MEMORY_BYTES + MARGIN, bystander(&server), || {
        run(async {
            let mut held = Vec::new();
            for _ in 0..40 * rounds().min(4) {
                let mut client = client(&server).await;
                let info = client.execute("SELECT * FROM large".to_owned(), None).await.unwrap();
                // Its place may be another's already, and the answer an error.
                let rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await;
                held.push((client, rows));
            }
            let began = Instant::now();
            // What is on its way to them goes with their connections alone.
            while server.status("queries_running") > 2 || server.status("connections") > 2 {
                assert!(began.elapsed() < Duration::from_secs(60), "clients that do not read stay");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            eprintln!("all clients of Flight SQL were hung up on {:?} later", began.elapsed());
        });
    });
    server.assert_idle();
}

#[test]
fn administrators_and_users_have_their_places() {
    let (_folder, users) = users("root secret admin\nada secret connections=1\nbob secret\n");
    let server = attacked(&[FLIGHT[0], FLIGHT[1], "--users", &users, "--max-connections", "6"]);
    run(async {
        let enter = async |user: &str| {
            let mut client = client(&server).await;
            client.handshake(user, "secret").await.unwrap();
            let said = all(&mut client, "SELECT 1").await.map(drop);
            (client, said)
        };
        let mut inside = Vec::new();
        for (user, refused) in [
            ("ada", None),
            ("ada", Some("has as many connections as it may (connections= in --users) (53300)")),
            ("bob", None),
            ("bob", None),
            ("bob", Some("6 clients are connected, which is the limit (--max-connections) (53300)")),
            ("root", None),
        ] {
            let (client, said) = enter(user).await;
            match refused {
                None => {
                    said.unwrap();
                    inside.push(client);
                }
                Some(words) => assert!(said.as_ref().is_err_and(|said| said.contains(words)), "{user}: {said:?}"),
            }
        }
        // Silent sockets keep nobody out.
        let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(server.flight.as_deref().unwrap()).unwrap()).collect();
        let (_root, said) = enter("root").await;
        said.unwrap();
        drop(silent);
        // Wrong passwords wait here, too.
        let began = Instant::now();
        for _ in 0..3 {
            let mut client = client(&server).await;
            client.handshake("ada", "wrong").await.unwrap_err();
        }
        assert!(began.elapsed() >= Duration::from_millis(1200), "{:?}", began.elapsed());
    });
}
