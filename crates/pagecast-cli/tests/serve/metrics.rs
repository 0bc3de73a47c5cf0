//! The numbers for Prometheus.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::Server;
use crate::tpch::tables;
use crate::wire::Client;

#[test]
fn numbers_of_server_and_pool_are_scraped() {
    let server = Server::of(tables(), &["--pool", "2MiB", "--metrics", "127.0.0.1:0"]);
    let mut client = Client::connect(server.port, "reader");
    client.rows("SELECT count(*) FROM lineitem WHERE l_quantity > 1");
    let address = server.metrics.as_deref().unwrap().strip_prefix("http://").unwrap();
    let (address, path) = address.split_once('/').unwrap();
    let mut scraper = TcpStream::connect(address).unwrap();
    write!(scraper, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    scraper.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\npagecast_server_connections 1\n"), "{answer}");
    let read = answer.lines().find_map(|line| line.strip_prefix("pagecast_read_bytes_total ")).unwrap();
    assert!(read.parse::<u64>().unwrap() > 0, "the query has read something");
}
