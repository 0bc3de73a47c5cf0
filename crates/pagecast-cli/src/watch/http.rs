//! As much HTTP as a page needs: GET, POST to end a query, one answer for a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Watched;
use super::token::Token;

const PAGE: &str = include_str!("page.html");
const STRANGER: &str = "the address needs its token: open the one that pagecast printed at its start\n";
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// How long a browser may leave what it is sent unread.
const UNREAD: Duration = Duration::from_secs(30);

/// What a browser wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    Page,
    Events,
    /// That the query of this number ends.
    End(i64),
    Unknown,
    /// Who does not know the token.
    Stranger,
    /// A page of somewhere else asks in the name of its reader, or it is no GET and no POST.
    Refused,
}

/// Where the page is, and what opens it.
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) token: Token,
}

/// Reads a request; `None` if it is none.
pub(super) async fn request(tcp: &mut TcpStream, door: &Door) -> Option<Request> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MOST_REQUEST_BYTES || tcp.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(parse(std::str::from_utf8(&head).ok()?, door))
}

fn parse(head: &str, door: &Door) -> Request {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next());
    let host = lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = host.map_or("", |(_, host)| host.trim());
    // A name that an attacker's name server points at this machine is no name of ours.
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    let ip = door.address.ip();
    let ours = !ip.is_loopback() || name == "localhost" || name.parse() == Ok(ip);
    let Some(path) = path.filter(|_| ours) else { return Request::Refused };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let token = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    if !token.is_some_and(|token| door.token.is(token)) {
        return Request::Stranger;
    }
    let number = query.split('&').find_map(|pair| pair.strip_prefix("number="));
    match (method, path, number.and_then(|number| number.parse().ok())) {
        ("GET", "/", _) => Request::Page,
        ("GET", "/events", _) => Request::Events,
        ("POST", "/end", Some(number)) => Request::End(number),
        ("GET" | "POST", ..) => Request::Unknown,
        _ => Request::Refused,
    }
}

/// Answers a request. Events go on until the browser leaves.
pub(super) async fn answer(
    tcp: &mut TcpStream,
    request: Request,
    samples: &watch::Sender<Arc<str>>,
    watched: &dyn Watched,
) -> io::Result<()> {
    match request {
        Request::Page => send(tcp, &whole("200 OK", "text/html; charset=utf-8", PAGE)).await,
        Request::End(number) if watched.end(number) => send(tcp, &whole("200 OK", "text/plain", "ended\n")).await,
        Request::End(_) => send(tcp, &whole("404 Not Found", "text/plain", "there is no such query\n")).await,
        Request::Unknown => send(tcp, &whole("404 Not Found", "text/plain", "there is / and /events\n")).await,
        Request::Stranger => send(tcp, &whole("403 Forbidden", "text/plain", STRANGER)).await,
        Request::Refused => send(tcp, &whole("403 Forbidden", "text/plain", "refused\n")).await,
        Request::Events => events(tcp, samples.subscribe()).await,
    }
}

fn whole(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'self' 'unsafe-inline'; img-src data:; frame-ancestors 'none'\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{body}"
    )
}

async fn events(tcp: &mut TcpStream, mut samples: watch::Receiver<Arc<str>>) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
                Connection: close\r\n\r\nretry: 1000\n\n";
    send(tcp, head).await?;
    while samples.changed().await.is_ok() {
        let sample = samples.borrow_and_update().clone();
        send(tcp, &format!("data: {sample}\n\n")).await?;
    }
    Ok(())
}

async fn send(tcp: &mut TcpStream, text: &str) -> io::Result<()> {
    timeout(UNREAD, tcp.write_all(text.as_bytes())).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_who_knows_the_token_is_served_and_under_our_names() {
        let door = Door { address: "127.0.0.1:8080".parse().unwrap(), token: Token::find().unwrap() };
        let get = |path: &str, host: &str| parse(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"), &door);
        let with = |path: &str| format!("{path}?token={}", door.token);
        assert_eq!(get(&with("/"), "127.0.0.1:8080"), Request::Page);
        assert_eq!(get(&with("/events"), "localhost:8080"), Request::Events);
        assert_eq!(get(&with("/x"), "localhost"), Request::Unknown);
        assert_eq!(get(&with("/events"), "evil.example:8080"), Request::Refused);
        for stranger in ["/", "/events", "/x", "/?token=", "/events?token=0", &format!("{}0", with("/"))] {
            assert_eq!(get(stranger, "localhost:8080"), Request::Stranger, "{stranger}");
        }
        let post = |path: &str| parse(&format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"), &door);
        assert_eq!(post("/end?number=7"), Request::Stranger);
        assert_eq!(post(&format!("{}&number=7", with("/end"))), Request::End(7));
        assert_eq!(post(&with("/")), Request::Unknown);
        assert_eq!(get(&format!("{}&number=7", with("/end")), "localhost"), Request::Unknown);
        let delete = parse(&format!("DELETE {} HTTP/1.1\r\nHost: localhost\r\n\r\n", with("/")), &door);
        assert_eq!(delete, Request::Refused);
    }
}
