//! A client of the protocol in as few lines as do: what it says is what the tests want said.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// For cancelling.
    pub(crate) key: Vec<u8>,
}

/// A message of the server: its type and its contents.
pub(crate) type Message = (u8, Vec<u8>);

impl Client {
    pub(crate) fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, key: Vec::new() }
    }

    /// Connects to a server without passwords, and waits until it is ready.
    pub(crate) fn connect(port: u16, user: &str) -> Self {
        let mut client = Self::open(port);
        client.hello(user);
        for (kind, body) in client.until_ready() {
            assert_ne!(kind, b'E', "{}", fields(&body));
            if kind == b'K' {
                client.key = body;
            }
        }
        client
    }

    pub(crate) fn hello(&mut self, user: &str) {
        let mut body = 196_608i32.to_be_bytes().to_vec();
        body.extend_from_slice(format!("user\0{user}\0database\0pagecast\0\0").as_bytes());
        self.raw(&framed(None, &body));
    }

    /// Sends bytes as they are. The server may have hung up.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn send(&mut self, kind: u8, body: &[u8]) {
        self.raw(&framed(Some(kind), body));
    }

    pub(crate) fn query(&mut self, sql: &str) {
        self.send(b'Q', &[sql.as_bytes(), b"\0"].concat());
    }

    /// The next message; `None` at the end.
    pub(crate) fn message(&mut self) -> Option<Message> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header).ok()?;
        let bytes = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; bytes - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((header[0], body))
    }

    /// All messages up to the one that says that the server is ready, or the end.
    pub(crate) fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.message() {
            if message.0 == b'Z' {
                break;
            }
            messages.push(message);
        }
        messages
    }

    /// The rows of a statement of the simple protocol.
    #[track_caller]
    pub(crate) fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.query(sql);
        self.until_ready().iter().filter_map(row_of).collect()
    }

    /// The error of a statement of the simple protocol.
    #[track_caller]
    pub(crate) fn error(&mut self, sql: &str) -> String {
        self.query(sql);
        let messages = self.until_ready();
        let error = messages.iter().find(|(kind, _)| *kind == b'E');
        fields(&error.unwrap_or_else(|| panic!("no error of {sql}")).1)
    }

    /// What the server says before it hangs up.
    pub(crate) fn last_words(&mut self) -> String {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.said()
    }

    /// The same to a client that does not hang up first.
    pub(crate) fn said(&mut self) -> String {
        let mut said = String::new();
        while let Some((kind, body)) = self.message() {
            if kind == b'E' {
                said += &fields(&body);
            }
        }
        said
    }
}

pub(crate) fn framed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let mut frame: Vec<u8> = kind.into_iter().collect();
    frame.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Class and message of an error: `42601 what is wrong`.
pub(crate) fn fields(body: &[u8]) -> String {
    let field = |wanted: u8| {
        let fields = body.split(|&byte| byte == 0);
        let value = fields.filter(|field| field.first() == Some(&wanted)).map(|field| &field[1..]).next();
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    };
    format!("{} {}", field(b'C'), field(b'M'))
}

/// The values of a row in the text format.
pub(crate) fn row_of((kind, body): &Message) -> Option<Vec<Option<String>>> {
    if *kind != b'D' {
        return None;
    }
    let (mut rest, mut values) = (&body[2..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(bytes) => {
                values.push(Some(String::from_utf8(after[..bytes].to_vec()).unwrap()));
                rest = &after[bytes..];
            }
            Err(_) => {
                values.push(None);
                rest = after;
            }
        }
    }
    Some(values)
}
