//! Clients that have not said who they are, or say it wrongly.

use std::io::Read;
use std::time::{Duration, Instant};

use super::{MARGIN, attack, attacked, rounds, users};
use crate::clients::login;
use crate::wire::{Client, fields};

/// Tries a password that is wrong: the proof is nothing but noughts. Gives the error.
fn guess(port: u16, user: &str) -> String {
    let mut client = Client::open(port);
    client.hello(user);
    let error = |body: &[u8]| fields(body);
    match client.message() {
        Some((b'R', _)) => {}
        Some((_, body)) => return error(&body),
        None => return String::new(),
    }
    let first = b"n,,n=,r=abcdefgh";
    client.send(b'p', &[b"SCRAM-SHA-256\0", &(first.len() as u32).to_be_bytes()[..], first].concat());
    let Some((b'R', body)) = client.message() else { return String::new() };
    let challenge = String::from_utf8_lossy(&body[4..]).into_owned();
    let nonce = challenge.split(',').next().unwrap_or_default();
    client.send(b'p', format!("c=biws,{nonce},p={}=", "A".repeat(43)).as_bytes());
    match client.message() {
        Some((b'E', body)) => error(&body),
        other => panic!("a wrong password gives {other:?}"),
    }
}

#[test]
fn before_login_messages_are_short() {
    let (_folder, users) = users("ada secret\n");
    let server = attacked(&["--users", &users]);
    if login(&server, "ada", "secret", "disable", "SELECT 1").is_none() {
        return;
    }
    let ask = || assert!(login(&server, "ada", "secret", "disable", "SELECT count(*) FROM small").unwrap().0);
    let words = attack("large messages before login", &server, MARGIN, ask, || {
        let part = vec![0; 1 << 20];
        let mut clients: Vec<_> = (0..90)
            .map(|_| {
                let mut client = Client::open(server.port);
                client.hello("ada");
                client.raw(&[b"p", &(16_u32 << 20).to_be_bytes()[..]].concat());
                client
            })
            .collect();
        for _ in 0..rounds() {
            clients.iter_mut().for_each(|client| client.raw(&part));
        }
        clients.iter_mut().map(Client::said).filter(|said| !said.is_empty()).collect::<Vec<_>>()
    });
    assert!(!words.is_empty());
    let refused = "08P01 a message of 16777216 bytes is refused; at most 10000 are taken (before login)";
    assert!(words.iter().all(|said| said == refused), "{words:?}");
}

#[test]
fn wrong_passwords_wait_longer_each_time() {
    let (_folder, users) = users("ada secret\nbob other\n");
    let mut server = attacked(&["--users", &users]);
    if login(&server, "bob", "other", "disable", "SELECT 1").is_none() {
        return;
    }
    let ask = || {
        let (entered, said) = login(&server, "bob", "other", "disable", "SELECT count(*) FROM small").unwrap();
        assert!(entered, "{said}");
    };
    let seconds = 3 * rounds() as u64;
    let (wrong, refused) = attack("wrong passwords", &server, MARGIN, ask, || {
        let until = Instant::now() + Duration::from_secs(seconds);
        let guesser = || {
            let (mut wrong, mut refused) = (0, 0);
            while Instant::now() < until {
                match guess(server.port, "ada") {
                    error if error.starts_with("28P01") => wrong += 1,
                    error if error.starts_with("28000 too many wrong passwords of user \"ada\": try ") => refused += 1,
                    other => panic!("{other}"),
                }
            }
            (wrong, refused)
        };
        let counts: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let guessers: Vec<_> = (0..8).map(|_| scope.spawn(guesser)).collect();
            guessers.into_iter().map(|guesser| guesser.join().unwrap()).collect()
        });
        counts.into_iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    });
    eprintln!("{wrong} wrong passwords were looked at in {seconds} s, {refused} were not");
    assert!(wrong < 8 + 8 * seconds && refused > 0);
    let mut errors = server.child.stderr.take().unwrap();
    drop(server);
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    let lines = said.lines().filter(|line| line.contains("wrong password of user \"ada\" from 127.0.0.1, ")).count();
    assert!((1..=10 * rounds()).contains(&lines), "{said}");
}
