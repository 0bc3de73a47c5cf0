//! `--data http://host/table.parquet`: a file server that knows ranges and conditions, and one that
//! knows neither.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::{assert_fails, data, rows, said, sql};

/// How it fails, whatever is asked.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// With this status and text.
    Status(&'static str, String),
    /// By sending the client elsewhere.
    Redirect(String),
    /// In the middle of its answer.
    Cut,
}

impl Failure {
    /// Whether who asks gets the file in the end.
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(self, Self::Redirect(to) if to.ends_with("#moved"))
    }
}

/// The files of a folder. It ends with the process.
pub(crate) struct Files {
    place: String,
    failure: Mutex<Option<Failure>>,
    /// Who asked, as they said it.
    logins: Mutex<Vec<String>>,
    folder: PathBuf,
    knows_ranges: bool,
    /// What is asked for must come with this.
    password: Option<&'static str>,
    gets: AtomicU64,
    heads: AtomicU64,
    /// Requests that nobody should make.
    odd: Mutex<Vec<String>>,
}

impl Files {
    pub(crate) fn serve(folder: PathBuf, knows_ranges: bool, password: Option<&'static str>) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let (gets, heads, odd, failure, logins) = Default::default();
        let files = Self { place: place.clone(), failure, logins, folder, knows_ranges, password, gets, heads, odd };
        let files = Arc::new(files);
        let shared = Arc::clone(&files);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let files = Arc::clone(&shared);
                // A client that leaves is none of its business.
                std::thread::spawn(move || drop(files.answer(client)));
            }
        });
        (files, place)
    }

    /// Fails from now on.
    pub(crate) fn fail(&self, failure: Failure) {
        *self.failure.lock().unwrap() = Some(failure);
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn logins(&self) -> Vec<String> {
        self.logins.lock().unwrap().clone()
    }

    /// Answers a request as [`Self::fail`] wants it.
    fn failed(&self, client: &mut TcpStream, failure: &Failure) -> io::Result<()> {
        let (status, fields, text) = match failure {
            Failure::Status(status, text) => (*status, String::new(), text.as_str()),
            Failure::Redirect(to) => ("302 Found", format!("Location: {to}\r\n"), to.as_str()),
            Failure::Cut => ("200 OK", "Content-Length: 1000000\r\n".to_owned(), "PAR1"),
        };
        let length = match failure {
            Failure::Cut => String::new(),
            _ => format!("Content-Length: {}\r\n", text.len()),
        };
        write!(client, "HTTP/1.1 {status}\r\n{fields}{length}Connection: close\r\n\r\n{text}")
    }

    /// One request, with a connection of its own.
    fn answer(&self, mut client: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if client.read(&mut byte)? == 0 {
                return Ok(());
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let login = head.lines().find_map(|line| line.strip_prefix("authorization: "));
        self.logins.lock().unwrap().extend(login.map(str::to_owned));
        let failure = self.failure.lock().unwrap().clone();
        if let Some(failure) = failure {
            return self.failed(&mut client, &failure);
        }
        let (status, fields, body) = self.found(&head);
        let length = if fields.contains("Content-Length") {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        write!(client, "HTTP/1.1 {status}\r\n{fields}{length}Connection: close\r\n\r\n")?;
        client.write_all(&body)
    }

    /// Status, fields and body of the answer.
    fn found(&self, head: &str) -> (&'static str, String, Vec<u8>) {
        let field = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")))?;
            Some(line.split_once(": ")?.1.to_owned())
        };
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if self.password.is_some() && field("authorization").as_deref() != self.password {
            return ("401 Unauthorized", String::new(), Vec::new());
        }
        let name = path.trim_start_matches('/').split('?').next().unwrap_or_default();
        let Ok(bytes) = std::fs::read(self.folder.join(name)) else {
            return ("404 Not Found", String::new(), Vec::new());
        };
        let tag = format!("\"{:x}\"", bytes.len());
        if field("if-match").is_some_and(|wanted| wanted != tag) {
            return ("412 Precondition Failed", String::new(), Vec::new());
        }
        let fields = format!("ETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        match method {
            "HEAD" => {
                self.heads.fetch_add(1, Relaxed);
                ("200 OK", format!("{fields}Content-Length: {}\r\n", bytes.len()), Vec::new())
            }
            "GET" => {
                self.gets.fetch_add(1, Relaxed);
                let range = field("range").filter(|_| self.knows_ranges);
                let ends = range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
                let Some(ends) = ends.map(|(from, to)| (from.parse().ok(), to.parse().ok())) else {
                    return ("200 OK", fields, bytes);
                };
                let last = bytes.len() - 1;
                let (from, to): (usize, usize) = match ends {
                    (Some(from), to) => (from, last.min(to.unwrap_or(last))),
                    (None, len) => (bytes.len() - len.unwrap_or(0), last),
                };
                let part = bytes[from..=to].to_vec();
                let of = format!("Content-Range: bytes {from}-{to}/{}\r\n", bytes.len());
                ("206 Partial Content", fields + &of, part)
            }
            _ => {
                self.odd.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
                ("405 Method Not Allowed", String::new(), Vec::new())
            }
        }
    }
}

#[test]
fn a_file_behind_http_is_a_table() {
    let query = "SELECT count(*), sum(l_quantity), max(l_comment) FROM lineitem WHERE l_tax > 0.01";
    let twice = format!("{query}; {query}");
    let expected = said(&mut sql(data().to_str().unwrap(), &["-c", &twice]));
    let (files, place) = Files::serve(data().to_owned(), true, None);
    let text = said(&mut sql(&format!("http://{place}/lineitem.parquet"), &["-c", &twice]));
    assert_eq!(rows(&text), rows(&expected));
    let second = text.lines().rfind(|line| line.contains("row in")).unwrap();
    assert!(second.contains(" 0 B read") && !second.contains("GET"), "{text}");
    let (gets, heads) = (files.gets.load(Relaxed), files.heads.load(Relaxed));
    println!("{gets} GETs, {heads} HEADs");
    assert!(gets > 0 && heads > 0 && files.odd.lock().unwrap().is_empty(), "{:?}", files.odd);

    let people = said(&mut sql(&format!("http://{place}/people.csv"), &["-c", "SELECT sum(id) FROM people"]));
    assert!(people.contains("| 4950"), "{people}");
    let absent = format!("http://{place}/absent.parquet");
    assert_fails(&mut sql(&absent, &["-c", "SELECT 1"]), 1, &[&absent, "no such"]);
    let folder = format!("http://{place}/folder");
    assert_fails(&mut sql(&folder, &["-c", "SELECT 1"]), 1, &[&folder, "no Parquet file below"]);
}

#[test]
fn a_password_is_wanted_and_never_shown() {
    // me:hunter2
    let (_files, place) = Files::serve(data().to_owned(), true, Some("Basic bWU6aHVudGVyMg=="));
    let file = format!("{place}/lineitem.parquet");
    assert_fails(&mut sql(&format!("http://{file}"), &["-c", "SELECT 1"]), 1, &[&file, "wants a password"]);
    let wrong = format!("http://me:not-to-be-shown@{file}");
    assert_fails(&mut sql(&wrong, &["-c", "SELECT 1"]), 1, &[&file, "refuses this user and password"]);
}

#[test]
fn a_server_without_ranges_is_named() {
    let (_files, place) = Files::serve(data().to_owned(), false, None);
    let url = format!("http://{place}/lineitem.parquet");
    assert_fails(&mut sql(&url, &["-c", "SELECT 1"]), 1, &[&url, "Range request not supported"]);
}
