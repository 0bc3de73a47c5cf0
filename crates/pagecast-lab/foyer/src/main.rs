//! `bench-foyer FILE MEMORY FLASH PAGE LATENCY_MS BANDWIDTH FOLDER`: foyer's hybrid cache between a
//! reader and a store, both behind HTTP.
//!
//! It serves FILE on loopback and says its URL. Pages of PAGE bytes are cached under foyer's
//! defaults, MEMORY bytes of them in memory and FLASH bytes in FOLDER. A page that the cache does
//! not have comes from the store, which is FILE at the declared speed: each request takes
//! LATENCY_MS, and bodies share BANDWIDTH bytes a second. Memory counts the bytes of pages alone,
//! and not the 16 MiB of buffers that foyer writes from.
//!
//! It ends when its standard input does, and prints what it counted, as JSON.

mod cached;
mod serving;

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result};
use cached::{Cached, Sizes};
use tokio::io::{AsyncReadExt, stdin};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let mut given = std::env::args().skip(1);
    let mut next = |what: &'static str| given.next().context(what);
    let file = PathBuf::from(next("FILE is missing")?);
    let sizes = Sizes {
        memory: number(&next("MEMORY is missing")?)?,
        flash: number(&next("FLASH is missing")?)?,
        page: number(&next("PAGE is missing")?)?,
    };
    let latency_ms = number(&next("LATENCY_MS is missing")?)?;
    let bandwidth = number(&next("BANDWIDTH is missing")?)?;
    let folder = tempfile::tempdir_in(next("FOLDER is missing")?)?;
    let cached = Arc::new(Cached::open(&file, sizes, (latency_ms, bandwidth), folder.path()).await?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let name = file.file_name().context("FILE has no name")?.to_string_lossy().into_owned();
    println!("http://{}/{name}", listener.local_addr()?);
    tokio::spawn(serving::serve(listener, format!("/{name}"), Arc::clone(&cached)));
    stdin().read_to_end(&mut Vec::new()).await?;
    // Who started it may have gone.
    Ok(writeln!(stdout(), "{}", cached.close().await?)?)
}

fn number<T: FromStr>(text: &str) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().with_context(|| format!("{text} is no number"))
}
