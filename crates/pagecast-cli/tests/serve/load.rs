//! Many clients at once, who come, cancel and vanish as they like. `SERVE_LOAD_SECONDS` (4) says
//! how long, `SERVE_LOAD_SEED` (1) in which way.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::Server;
use crate::tpch::tables;
use crate::wire::{Client, Message, fields, framed};

const CONNECTIONS: usize = 200;
const ACTIVE: usize = 32;

const QUERIES: [&str; 5] = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), avg(l_discount), count(*) FROM lineitem
     GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_quantity < 24",
    "SELECT o_orderpriority, count(*) FROM orders JOIN lineitem ON o_orderkey = l_orderkey
     WHERE l_commitdate < l_receiptdate GROUP BY 1 ORDER BY 1",
    "SELECT c_custkey, c_name, c_comment FROM customer ORDER BY 1",
    "SELECT count(DISTINCT l_suppkey), max(l_comment) FROM lineitem",
];

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A generator of its own: what it draws is not what is tested (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What one stream has seen.
#[derive(Default)]
struct Seen {
    right: u64,
    cancelled: u64,
    vanished: u64,
}

fn stream(port: u16, expected: &[Vec<Message>], seed: u64, until: Instant) -> Seen {
    let (mut random, mut seen) = (Random(seed), Seen::default());
    let mut client = Client::connect(port, "stream");
    while Instant::now() < until {
        let chosen = random.below(QUERIES.len() as u64) as usize;
        client.query(QUERIES[chosen]);
        match random.below(10) {
            0 => {
                // In the middle of it, or of its rows.
                std::thread::sleep(Duration::from_millis(random.below(30)));
                let _ = client.stream.shutdown(Shutdown::Both);
                client = Client::connect(port, "stream");
                seen.vanished += 1;
                continue;
            }
            1 | 2 => {
                std::thread::sleep(Duration::from_millis(random.below(30)));
                let mut canceller = Client::open(port);
                canceller.raw(&framed(None, &[&80_877_102i32.to_be_bytes(), client.key.as_slice()].concat()));
                canceller.last_words();
            }
            _ => {}
        }
        let messages = client.until_ready();
        match messages.iter().find(|(kind, _)| *kind == b'E') {
            Some((_, body)) => {
                assert_eq!(fields(body), "57014 canceling statement due to user request");
                seen.cancelled += 1;
            }
            None => {
                assert_eq!(messages, expected[chosen], "{}", QUERIES[chosen]);
                seen.right += 1;
            }
        }
    }
    seen
}

#[test]
fn many_clients_leave_nothing_behind() {
    // Room for those who cancel and check, too.
    let server = Server::of(tables(), &["--pool", "1MiB", "--max-connections", "300", "--max-queries", "8"]);
    let mut client = Client::connect(server.port, "first");
    let mut answer = |sql: &&str| {
        client.query(sql);
        client.until_ready()
    };
    let expected: Vec<_> = QUERIES.iter().map(&mut answer).collect();
    drop(client);
    server.assert_idle();
    let idle: Vec<_> = (ACTIVE..CONNECTIONS).map(|_| Client::connect(server.port, "idle")).collect();
    let (seed, seconds) = (number("SERVE_LOAD_SEED", 1), number("SERVE_LOAD_SECONDS", 4));
    let until = Instant::now() + Duration::from_secs(seconds);
    let (port, expected) = (server.port, &expected);
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let start = |stream_of| scope.spawn(move || stream(port, expected, seed * 1000 + stream_of, until));
        let streams: Vec<_> = (0..ACTIVE as u64).map(start).collect();
        streams.into_iter().map(|stream| stream.join().unwrap()).collect()
    });
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let (right, cancelled, vanished) = (sum(|s| s.right), sum(|s| s.cancelled), sum(|s| s.vanished));
    eprintln!("seed {seed}: {right} results, all right, {cancelled} cancelled, {vanished} vanished in {seconds} s");
    assert!(right > 0);
    drop(idle);
    server.assert_idle();
}
