//! Bytes that no client sends: sessions of both protocols with bytes flipped, cut, moved and
//! repeated, before a login and after it. Whatever comes, others get their answers, and nothing is
//! left behind. `SERVE_HOSTILE_SECONDS` (4) says how long, `SERVE_HOSTILE_SEED` (1) in which way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::Server;
use crate::load::{Random, number};
use crate::tpch::tables;
use crate::wire::{Client, framed};

/// How long another client may wait for its answer meanwhile.
const SOON: Duration = Duration::from_secs(5);
/// How long the server may take to answer, or to hang up.
const PATIENCE: Duration = Duration::from_millis(30);

/// What a client says, message by message.
type Script = fn(&mut Random) -> Vec<Vec<u8>>;

#[test]
fn bytes_that_no_client_sends_hurt_nobody() {
    let mut flags = vec!["--pool", "1MiB", "--max-message", "64KiB"];
    if cfg!(feature = "flight") {
        flags.extend(["--flight", "127.0.0.1:0"]);
    }
    let mut server = Server::of(tables(), &flags);
    let seed = number("SERVE_HOSTILE_SEED", 1);
    let until = Instant::now() + Duration::from_secs(number("SERVE_HOSTILE_SECONDS", 4));
    let flight = server.flight.clone().map(|address| address.rsplit_once(':').unwrap().1.parse().unwrap());
    let ports: Vec<(u16, Script)> = [(Some(server.port), session as Script), (flight, grpc)]
        .into_iter()
        .filter_map(|(port, script)| Some((port?, script)))
        .collect();
    let (mut random, mut attacks) = (Random(seed), 0);
    while Instant::now() < until {
        for (port, script) in &ports {
            let mut script = script(&mut random);
            spoil(&mut script, &mut random);
            attack(*port, &script.concat());
            attacks += 1;
        }
        if attacks % 16 < ports.len() {
            let began = Instant::now();
            assert_eq!(Client::connect(server.port, "other").rows("SELECT 1").len(), 1, "seed {seed}");
            assert!(began.elapsed() < SOON, "seed {seed}: {:?} for another client's answer", began.elapsed());
        }
    }
    assert!(server.child.try_wait().unwrap().is_none(), "seed {seed}: the server has ended");
    server.assert_idle();
    println!("{attacks} sessions of hostile bytes, seed {seed}");
}

/// What a client of PostgreSQL says, message by message.
fn session(random: &mut Random) -> Vec<Vec<u8>> {
    let mut hello = 196_608i32.to_be_bytes().to_vec();
    hello.extend_from_slice(b"user\0ada\0database\0pagecast\0options\0-c statement_timeout=1s\0\0");
    let bind: &[u8] = b"portal\0statement\0\0\x01\0\x01\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x07\0\x01\0\x01";
    let messages = [
        (b'Q', &b"SELECT n_name, n_nationkey FROM nation ORDER BY 1\0"[..]),
        (b'Q', b"BEGIN; DECLARE c CURSOR FOR SELECT * FROM orders; FETCH 3 FROM c\0"),
        (b'P', b"statement\0SELECT n_name FROM nation WHERE n_nationkey > $1\0\0\x01\0\0\0\x14"),
        (b'B', bind),
        (b'D', b"Pportal\0"),
        (b'D', b"Sstatement\0"),
        (b'E', b"portal\0\0\0\0\x02"),
        (b'C', b"Pportal\0"),
        (b'H', b""),
        (b'S', b""),
        (b'd', b"1\t2\n"),
        (b'c', b""),
        (b'f', b"no\0"),
        (b'F', b"\0\0\0\x2a\0\0\0\0\0\0"),
        (b'p', b"secret\0"),
        (b'X', b""),
    ];
    let mut script = vec![framed(None, &hello)];
    for _ in 0..random.below(12) {
        let (kind, body) = messages[random.below(messages.len() as u64) as usize];
        script.push(framed(Some(kind), body));
    }
    // Others begin with a wish for TLS, or to cancel.
    match random.below(8) {
        0 => script.insert(0, framed(None, &80_877_103u32.to_be_bytes())),
        1 => script.insert(0, framed(None, &[&80_877_102u32.to_be_bytes()[..], &[0; 8]].concat())),
        _ => {}
    }
    script
}

/// What a client of Flight SQL says: HTTP/2 by hand, a call and its message.
fn grpc(random: &mut Random) -> Vec<Vec<u8>> {
    let call = ["Handshake", "GetFlightInfo", "DoGet", "DoAction", "DoPut", "GetSchema"][random.below(6) as usize];
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", &format!("/arrow.flight.protocol.FlightService/{call}")),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("authorization", "Basic YWRhOnNlY3JldA=="),
    ] {
        // A literal without an index, its name and value without Huffman's code.
        headers.extend([0, name.len() as u8]);
        headers.extend_from_slice(name.as_bytes());
        headers.push(value.len() as u8);
        headers.extend_from_slice(value.as_bytes());
    }
    let frame = |kind: u8, flags: u8, stream: u32, body: &[u8]| {
        let mut frame = (body.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend_from_slice(body);
        frame
    };
    // A descriptor of a command, of which the type is any text.
    let message = b"\0\0\0\0\x14\x08\x02\x12\x10type.example/any";
    vec![
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &headers),
        frame(0, 1, 1, message),
        frame(6, 0, 0, &[0; 8]),
        frame(8, 0, 0, &[0, 1, 0, 0]),
    ]
}

/// Makes of a right session a wrong one, by one change or by several.
fn spoil(script: &mut Vec<Vec<u8>>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(script.len() as u64) as usize;
        let length = script[at].len() as u64;
        match random.below(7) {
            0 if length > 0 => script[at][random.below(length) as usize] = random.below(256) as u8,
            1 if length > 0 => script[at][random.below(length) as usize] ^= 1 << random.below(8),
            2 => script[at].truncate(random.below(length + 1) as usize),
            3 => script[at].extend((0..random.below(100)).map(|_| random.below(256) as u8)),
            4 => {
                let again = script[at].clone();
                script.insert(random.below(script.len() as u64 + 1) as usize, again);
            }
            5 => drop(script.remove(at)),
            // Lengths stand in the first bytes.
            _ if length > 5 => {
                script[at][random.below(5) as usize] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize]
            }
            _ => {}
        }
        if script.is_empty() {
            return;
        }
    }
}

/// Sends all of it, and takes what comes back for a moment.
fn attack(port: u16, bytes: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut waste = [0; 4096];
    while matches!(stream.read(&mut waste), Ok(1..)) {}
}
