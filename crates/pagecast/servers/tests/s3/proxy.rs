//! A proxy of HTTP between a client and a server, which breaks what it is told to break.
//!
//! Each connection carries one request: it is passed on with `Connection: close`, which no
//! signature covers.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It is answered with 503.
    Refused,
    /// Its connection is closed without an answer.
    Reset,
    /// The body ends after so many bytes.
    Cut(usize),
    /// The answer promises so many bytes more than it has.
    TooLong(usize),
    /// It is passed on after so many milliseconds.
    Late(u64),
}

/// It ends with the process.
pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
}

struct State {
    server: u16,
    planned: Mutex<VecDeque<Fault>>,
    seen: AtomicU64,
}

impl Proxy {
    /// In front of what listens at `server`.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { server, planned: Mutex::default(), seen: AtomicU64::new(0) });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A connection that breaks is what this is for.
                std::thread::spawn(move || drop(state.pass_on(client)));
            }
        });
        Self { port, state }
    }

    /// The next requests meet `faults`.
    pub fn plan(&self, faults: Vec<Fault>) {
        self.state.planned.lock().unwrap().extend(faults);
    }

    /// Takes back what is planned.
    pub fn unplan(&self) {
        self.state.planned.lock().unwrap().clear();
    }

    /// How many requests have come.
    pub fn seen(&self) -> u64 {
        self.state.seen.load(Relaxed)
    }
}

impl State {
    fn pass_on(&self, mut client: TcpStream) -> io::Result<()> {
        let Some(request) = head(&mut client)? else { return Ok(()) };
        self.seen.fetch_add(1, Relaxed);
        let fault = self.planned.lock().unwrap().pop_front();
        match fault {
            Some(Fault::Refused) => {
                let refusal = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                client.write_all(refusal.as_bytes())?;
                return client.shutdown(Shutdown::Write);
            }
            Some(Fault::Reset) => return client.shutdown(Shutdown::Both),
            Some(Fault::Late(milliseconds)) => std::thread::sleep(Duration::from_millis(milliseconds)),
            _ => {}
        }
        let mut server = TcpStream::connect(("127.0.0.1", self.server))?;
        server.write_all(closing(&request).as_bytes())?;
        let Some(mut answer) = head(&mut server)? else { return client.shutdown(Shutdown::Both) };
        let mut body = Vec::new();
        server.read_to_end(&mut body)?;
        match fault {
            Some(Fault::Cut(len)) => body.truncate(len),
            Some(Fault::TooLong(more)) => answer = with_length(&answer, body.len() + more),
            _ => {}
        }
        client.write_all(closing(&answer).as_bytes())?;
        client.write_all(&body)?;
        client.shutdown(Shutdown::Both)
    }
}

/// What comes up to the empty line; none if the other side says nothing.
fn head(from: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if from.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

/// A head without the lines that `is_out`, and with one more.
fn with_line(head: &str, out: &str, line: &str) -> String {
    let kept = head.trim_end().split("\r\n").filter(|old| !old.to_ascii_lowercase().starts_with(out));
    format!("{}\r\n{line}\r\n\r\n", kept.collect::<Vec<_>>().join("\r\n"))
}

fn closing(head: &str) -> String {
    with_line(head, "connection:", "Connection: close")
}

fn with_length(head: &str, length: usize) -> String {
    with_line(head, "content-length:", &format!("Content-Length: {length}"))
}
