//! Numbers for monitoring: a snapshot as Prometheus text, as a `tracing` event, and behind an
//! address.

use std::fmt::{self, Write as _};

#[cfg(feature = "tracing")]
use crate::Pool;
use crate::Snapshot;

/// A snapshot in the text format that Prometheus scrapes. Write it with `{}`.
///
/// ```
/// use pagecast::{Pool, PoolOptions};
///
/// let pool = Pool::new(PoolOptions::default().memory(1 << 20))?;
/// let text = pool.snapshot().prometheus().to_string();
/// assert!(text.contains("\npagecast_requests_total 0\n"));
/// # Ok::<(), pagecast::PoolError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PrometheusText<'a>(&'a Snapshot);

/// What a number is, in Prometheus's words.
#[derive(Clone, Copy)]
enum Kind {
    /// Only ever rises.
    Counter,
    /// Goes up and down.
    Gauge,
}

impl Snapshot {
    /// The numbers in Prometheus's text format.
    pub fn prometheus(&self) -> PrometheusText<'_> {
        PrometheusText(self)
    }

    /// The pool's numbers: name, kind, meaning, value.
    fn numbers(&self) -> [(&'static str, Kind, &'static str, u64); 46] {
        use Kind::{Counter, Gauge};
        let (stats, frames, device) = (&self.stats, &self.frames, &self.device);
        let on_flash = self.flash.as_ref().map_or(0, |flash| flash.pages);
        [
            ("requests_total", Counter, "Requests for a page.", stats.requests),
            ("hits_total", Counter, "Requests that found the page resident.", stats.hits),
            ("waits_total", Counter, "Requests that found the page on its way.", stats.waits),
            ("requested_bytes_total", Counter, "Bytes that reads asked for.", stats.bytes_requested),
            ("read_bytes_total", Counter, "Bytes read from storage.", stats.bytes_read),
            ("bypassed_bytes_total", Counter, "Bytes read past the pool for want of a frame.", stats.bypassed_bytes),
            ("gap_bytes_total", Counter, "Bytes read over between pages, and thrown away.", stats.gap_bytes),
            ("flash_hits_total", Counter, "Pages that came from flash.", stats.flash_hits),
            ("flash_read_bytes_total", Counter, "Bytes that came from flash.", stats.flash_bytes_read),
            ("flash_written_pages_total", Counter, "Pages written to flash.", stats.flash_pages_written),
            ("flash_written_bytes_total", Counter, "Bytes written to flash.", stats.flash_bytes_written),
            ("flash_pages", Gauge, "Pages on flash.", on_flash.into()),
            ("loads_total", Counter, "Pages loaded into a frame.", stats.loads),
            ("failed_loads_total", Counter, "Loads that failed.", stats.failed_loads),
            ("evictions_total", Counter, "Pages that left their frame for another.", stats.evictions),
            ("written_pages_total", Counter, "Dirty pages that were written.", stats.pages_written),
            ("failed_writes_total", Counter, "Writes of a page that failed.", stats.failed_writes),
            ("prefetched_total", Counter, "Pages brought before they were asked for.", stats.prefetched),
            ("prefetch_useful_total", Counter, "Pages of those that were there in time.", stats.prefetch_useful),
            ("prefetch_late_total", Counter, "Pages of those that were still on their way.", stats.prefetch_late),
            ("prefetch_wasted_total", Counter, "Pages of those that nobody asked for.", stats.prefetch_wasted),
            ("tuple_hits_total", Counter, "Requests for an item that its page was not needed for.", stats.tuple_hits),
            ("chunks_total", Counter, "Chunks that unordered scans were handed.", stats.chunks),
            ("chunks_shared_total", Counter, "Chunks that another scan had brought.", stats.chunks_shared),
            ("chunks_incomplete_total", Counter, "Chunks of which pages were missing.", stats.chunks_incomplete),
            ("chunks_consumed_total", Counter, "Chunks that were consumed.", stats.chunks_consumed),
            ("chunks_returned_total", Counter, "Chunks that were given back.", stats.chunks_returned),
            ("chunk_loads_total", Counter, "Loads of chunks for unordered scans.", stats.chunk_loads),
            ("device_requests_total", Counter, "Requests that the device answered.", device.requests),
            ("device_read_bytes_total", Counter, "Bytes that the device read.", device.bytes_read),
            ("device_written_bytes_total", Counter, "Bytes that the device wrote.", device.bytes_written),
            ("device_syncs_total", Counter, "Times that a file was made safe from a crash.", device.syncs),
            ("device_failures_total", Counter, "Requests that the device failed.", device.failed),
            ("frames", Gauge, "Frames that the pool uses.", frames.in_use.into()),
            ("frames_resident", Gauge, "Frames that hold a page.", frames.resident.into()),
            ("frames_pinned", Gauge, "Frames that are pinned.", frames.pinned.into()),
            ("frames_unwritten", Gauge, "Frames that differ from storage.", frames.unwritten.into()),
            ("frames_slabs", Gauge, "Frames that hold items without their pages.", frames.slabs.into()),
            ("frames_free", Gauge, "Frames that wait for a page.", frames.free.into()),
            ("frames_retired", Gauge, "Frames that only a larger pool would use.", frames.retired.into()),
            ("loads_in_flight", Gauge, "Loads on their way.", frames.loading.into()),
            ("pages_ahead", Gauge, "Pages brought and not asked for yet.", frames.ahead.into()),
            ("page_size_bytes", Gauge, "Bytes of a page.", self.page_size.into()),
            ("memory_bytes", Gauge, "Memory of the pool, all in all.", self.memory.total),
            ("scans", Gauge, "Scans that are registered.", self.scans.len() as u64),
            ("unordered_scans", Gauge, "Scans of those that read in any order.", self.unordered.len() as u64),
        ]
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

impl fmt::Display for PrometheusText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(snapshot) = self;
        for (name, kind, meaning, value) in snapshot.numbers() {
            head(f, name, kind, meaning)?;
            writeln!(f, "pagecast_{name} {value}")?;
        }
        head(f, "relation_pages_resident", Kind::Gauge, "Pages of a file that are resident.")?;
        for relation in &snapshot.relations {
            let path = Label(relation.path.to_string_lossy());
            writeln!(f, "pagecast_relation_pages_resident{{path=\"{path}\"}} {}", relation.resident)?;
        }
        for (name, meaning, value) in [
            ("relation_requests_total", "Requests for pages of a file.", 0),
            ("relation_hits_total", "Requests that found the page resident, by file.", 1),
        ] {
            head(f, name, Kind::Counter, meaning)?;
            for relation in &snapshot.relations {
                if let Some(requests) = relation.requests {
                    let path = Label(relation.path.to_string_lossy());
                    let value = [requests.requests, requests.hits][value];
                    writeln!(f, "pagecast_{name}{{path=\"{path}\"}} {value}")?;
                }
            }
        }
        Ok(())
    }
}

fn head(f: &mut fmt::Formatter<'_>, name: &str, kind: Kind, meaning: &str) -> fmt::Result {
    writeln!(f, "# HELP pagecast_{name} {meaning}\n# TYPE pagecast_{name} {}", kind.name())
}

/// A label's value, with what would end it escaped.
struct Label<'a>(std::borrow::Cow<'a, str>);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Says a pool's numbers as an event of level `INFO` and target `pagecast::metrics`: whoever calls
/// it regularly has them in its traces. Counts are since the pool was made.
#[cfg(feature = "tracing")]
pub fn trace(pool: &Pool) {
    let Snapshot { stats, frames, memory, scans, .. } = pool.snapshot();
    tracing::info!(
        target: "pagecast::metrics",
        requests = stats.requests,
        hits = stats.hits,
        waits = stats.waits,
        hit_rate = stats.hit_rate(),
        bytes_read = stats.bytes_read,
        bypassed_bytes = stats.bypassed_bytes,
        gap_bytes = stats.gap_bytes,
        failed_loads = stats.failed_loads,
        evictions = stats.evictions,
        pages_written = stats.pages_written,
        failed_writes = stats.failed_writes,
        unwritten = frames.unwritten,
        frames = frames.in_use,
        resident = frames.resident,
        pinned = frames.pinned,
        memory = memory.total,
        scans = scans.len(),
        "pool"
    );
}

#[cfg(feature = "prometheus")]
pub use endpoint::Endpoint;

/// A pool's numbers behind an address of this machine.
#[cfg(feature = "prometheus")]
mod endpoint {
    use std::io::{self, Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    use crate::Pool;

    /// The most bytes of a request that are read.
    const MAX_REQUEST: usize = 8 << 10;
    /// How long a scraper may take for all of its request, and a pause in taking its answer.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// Answers `GET /metrics` with [`Snapshot::prometheus`](crate::Snapshot::prometheus), on the
    /// loopback interface only, one scraper after the other. Ends when it is dropped.
    ///
    /// ```
    /// use pagecast::metrics::Endpoint;
    /// use pagecast::{Pool, PoolOptions};
    ///
    /// let pool = Pool::new(PoolOptions::default().memory(1 << 20))?;
    /// let endpoint = Endpoint::start(&pool, 0)?; // 0: a port that is free
    /// println!("http://{}/metrics", endpoint.address());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Debug)]
    pub struct Endpoint {
        address: SocketAddr,
        ended: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    }

    impl Endpoint {
        /// Listens on `port` of 127.0.0.1, or on one that the system chooses if it is 0.
        ///
        /// # Errors
        ///
        /// The port is taken, or the system refuses a thread.
        pub fn start(pool: &Pool, port: u16) -> io::Result<Self> {
            let pool = pool.clone();
            Self::serve((Ipv4Addr::LOCALHOST, port).into(), move || pool.snapshot().prometheus().to_string())
        }

        /// Answers with what `numbers` gives, for hosts that have more to tell than a pool. It asks
        /// nobody who they are: whoever reaches `address` can read them.
        ///
        /// # Errors
        ///
        /// The address is taken or not this machine's, or the system refuses a thread.
        pub fn serve(address: SocketAddr, numbers: impl Fn() -> String + Send + 'static) -> io::Result<Self> {
            let listener = TcpListener::bind(address)?;
            let address = listener.local_addr()?;
            let ended = Arc::new(AtomicBool::new(false));
            let told = ended.clone();
            let serve = move || {
                // A connection that fails is the scraper's loss; the next one is answered.
                for stream in listener.incoming().take_while(|_| !told.load(Relaxed)).flatten() {
                    let _ = answer(&numbers, &stream);
                }
            };
            let thread = std::thread::Builder::new().name("pagecast-metrics".to_owned()).spawn(serve)?;
            Ok(Self { address, ended, thread: Some(thread) })
        }

        /// Where it listens.
        pub fn address(&self) -> SocketAddr {
            self.address
        }
    }

    impl Drop for Endpoint {
        fn drop(&mut self) {
            self.ended.store(true, Relaxed);
            // Wakes the thread, which waits for a connection. Without one it would wait on, so
            // nobody waits for it then.
            if TcpStream::connect_timeout(&self.address, PATIENCE).is_ok()
                && let Some(thread) = self.thread.take()
            {
                // A panic in it was told when it happened.
                let _ = thread.join();
            }
        }
    }

    /// The first line of a request, once all of it is there. A scraper that sends a little now and
    /// then has no more time than one that sends nothing.
    fn request_line(mut stream: &TcpStream) -> io::Result<String> {
        let until = Instant::now() + PATIENCE;
        let (mut request, mut part) = (Vec::new(), [0; 1024]);
        while request.len() < MAX_REQUEST && !request.ends_with(b"\r\n\r\n") {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut part)? {
                0 => break,
                count => request.extend_from_slice(&part[..count]),
            }
        }
        let line = request.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    fn answer(numbers: &impl Fn() -> String, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let line = request_line(stream)?;
        let mut words = line.split(' ');
        let (status, body) = match (words.next(), words.next()) {
            (Some("GET"), Some("/metrics")) => ("200 OK", numbers()),
            (Some("GET"), _) => ("404 Not Found", "the numbers are at /metrics\n".to_owned()),
            _ => ("405 Method Not Allowed", "only GET is answered\n".to_owned()),
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
    }
}
