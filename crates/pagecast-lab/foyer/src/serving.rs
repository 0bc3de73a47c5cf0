//! As much of HTTP as a client of object stores needs to read one file: HEAD, and GET of a range.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::cached::Cached;

/// The one content of the file.
const TAG: &str = "ETag: \"one\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

/// Answers until the process ends.
pub async fn serve(listener: TcpListener, path: String, cached: Arc<Cached>) {
    while let Ok((client, _)) = listener.accept().await {
        let (path, cached) = (path.clone(), Arc::clone(&cached));
        tokio::spawn(async move {
            if let Err(error) = answer(client, &path, &cached).await {
                eprintln!("bench-foyer: {error:#}");
            }
        });
    }
}

/// Requests of one connection, one after the other.
async fn answer(client: TcpStream, path: &str, cached: &Cached) -> Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    loop {
        let (mut first, mut range) = (String::new(), None);
        if client.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        loop {
            let mut field = String::new();
            client.read_line(&mut field).await?;
            let field = field.trim_end().to_ascii_lowercase();
            if field.is_empty() {
                break;
            }
            range = range.or_else(|| range_of(field.strip_prefix("range: bytes=")?));
        }
        let (head, body) = match first.split(' ').collect::<Vec<_>>()[..] {
            [_, wanted, _] if wanted != path => {
                ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n".to_owned(), Vec::new())
            }
            ["HEAD", ..] => (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{TAG}", cached.len()), Vec::new()),
            ["GET", ..] => {
                let Range { start, end } = range.unwrap_or(0..cached.len());
                let end = end.min(cached.len());
                let body = cached.read(start..end).await?;
                let of = format!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, cached.len());
                (format!("HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n{of}{TAG}", body.len()), body)
            }
            _ => ("HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n".to_owned(), Vec::new()),
        };
        client.write_all(head.as_bytes()).await?;
        client.write_all(b"\r\n").await?;
        client.write_all(&body).await?;
        client.flush().await?;
    }
}

/// Of `7-9`.
fn range_of(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once('-')?;
    Some(from.parse().ok()?..to.parse::<u64>().ok()? + 1)
}
