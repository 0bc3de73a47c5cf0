//! One sample of a pool at work, as the page reads it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pagecast::forecast::Template;
use pagecast::{FrameView, Pool, RelationId, Snapshot};
use serde_json::{Value, json};

use super::{Running, Watched};

/// Frames that are shown; of larger pools so many, spread evenly.
const MOST_FRAMES: u32 = 4096;
/// Scans that are shown.
const MOST_SCANS: usize = 1000;
/// Queries that come back, of those that come first.
const MOST_EXPECTED: usize = 100;

/// Takes samples, each with what has happened since the one before.
pub(super) struct Sampler {
    watched: Arc<dyn Watched>,
    last: Option<(Instant, [u64; 3])>,
}

impl Sampler {
    pub(super) fn new(watched: Arc<dyn Watched>) -> Self {
        Self { watched, last: None }
    }

    /// The next sample begins anew.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// A sample, while there is a pool.
    pub(super) fn take(&mut self) -> Option<String> {
        let pool = self.watched.pool()?;
        let (snapshot, now) = (pool.snapshot(), Instant::now());
        let stats = &snapshot.stats;
        let counts = [stats.bytes_requested, stats.bytes_read, stats.evictions];
        let rates = match self.last.replace((now, counts)) {
            Some((then, before)) => {
                let seconds = (now - then).as_secs_f64().max(1e-3);
                std::array::from_fn(|at| counts[at].saturating_sub(before[at]) as f64 / seconds)
            }
            None => [0.0; 3],
        };
        let names = names(&snapshot);
        let frames: String = pool.frame_views(MOST_FRAMES).iter().map(|view| frame(view.as_ref())).collect();
        let seconds = snapshot.age.as_secs_f64();
        let compared = self.watched.shadow().and_then(|shadow| shadow.compare(&pool));
        let sample = json!({
            "seconds": seconds,
            "doing": self.watched.doing(),
            "policy": snapshot.policy,
            "pool_bytes": u64::from(pool.frames()) * u64::from(snapshot.page_size),
            "resident": snapshot.frames.resident,
            "in_use": snapshot.frames.in_use,
            "pinned": snapshot.frames.pinned,
            "loading": snapshot.frames.loading,
            "bytes_requested": counts[0],
            "bytes_read": counts[1],
            "evictions": counts[2],
            "clock_bytes": compared.map(|compared| compared.clock_bytes),
            // Below 0 where the clock would have read less.
            "clock_saved": compared.map(|compared| compared.clock_bytes as i64 - compared.pool_bytes as i64),
            "clock_sampled": compared.map(|compared| compared.sampled),
            "requests": stats.requests,
            "hits": stats.hits,
            "chunks": stats.chunks,
            "chunks_shared": stats.chunks_shared,
            "chunk_loads": stats.chunk_loads,
            "requested_rate": rates[0],
            "read_rate": rates[1],
            "eviction_rate": rates[2],
            "connections": self.watched.connected(),
            "frames": frames,
            "scans": scans(&snapshot, &names),
            "scan_count": snapshot.scans.len(),
            "expected": self.expected(&pool),
            "queries": self.queries(),
            "ends": self.watched.ends_queries(),
        });
        Some(sample.to_string())
    }

    /// Queries that come back: when, how sure that is, and how the last forecasts did.
    fn expected(&self, pool: &Pool) -> Vec<Value> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let mut known = pool.templates();
        known.retain(|query| query.due().is_some());
        let ahead = |query: &Template| query.due().unwrap_or_default() - now;
        known.sort_by(|a, b| ahead(a).total_cmp(&ahead(b)));
        let query = |known: &Template| {
            let (fingerprint, (came, failed)) = (known.query().fingerprint, known.outcomes());
            json!({
                "reads": self.watched.reads_of(fingerprint).unwrap_or_else(|| format!("{fingerprint:016x}")),
                "in": ahead(known),
                "trust": known.trust(),
                "came": came,
                "failed": failed,
                "kept": known.scan().is_some(),
                "in_memory": pagecast_sql::in_memory(pool, known),
            })
        };
        known.iter().take(MOST_EXPECTED).map(query).collect()
    }

    fn queries(&self) -> Vec<Value> {
        let mut running = self.watched.running();
        running.sort_by_key(|query| query.since);
        let all: u64 = running.iter().map(|query| query.rows).sum();
        let query = |query: &Running| {
            json!({
                "pid": query.number,
                "user": query.user,
                "client": query.client,
                "waits": query.waits,
                "memory": query.memory,
                "sql": pagecast_sql::shown(&query.sql),
                "seconds": query.since.elapsed().as_secs_f64(),
                "rows": query.rows,
                "share": if all == 0 { 0.0 } else { query.rows as f64 / all as f64 },
            })
        };
        running.iter().map(query).collect()
    }
}

/// The files' names, without their folders but the last.
fn names(snapshot: &Snapshot) -> HashMap<RelationId, String> {
    let name = |path: &std::path::Path| {
        let mut parts: Vec<_> = path.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
        parts.reverse();
        parts.join("/")
    };
    snapshot.relations.iter().map(|relation| (relation.id, name(&relation.path))).collect()
}

/// The registered scans: where they stand, how fast they are, and when they should be done.
fn scans(snapshot: &Snapshot, names: &HashMap<RelationId, String>) -> Vec<Value> {
    let members: HashMap<_, _> = snapshot.unordered.iter().map(|(id, view)| (*id, view)).collect();
    let scan = |scan: &pagecast::predictor::ScanView| {
        let member = members.get(&scan.id);
        let left = scan.length.saturating_sub(scan.position);
        let name = scan.relation.and_then(|relation| names.get(&relation));
        json!({
            "id": format!("{:?}", scan.id),
            "name": name.map_or("", String::as_str),
            "position": scan.position,
            "length": scan.length,
            "unordered": scan.unordered,
            // Positions of a second, and the seconds that are left at this pace.
            "speed": 1e9 / scan.pace,
            "left": left as f64 * scan.pace / 1e9,
            "shared": member.map(|member| member.shared),
            "chunks": member.map(|member| member.chunks),
            "out": member.map(|member| member.out),
            "waiting": member.map(|member| member.waiting),
        })
    };
    snapshot.scans.iter().take(MOST_SCANS).map(scan).collect()
}

/// A frame as one letter: `.` for an empty one, `z` for a page that no scan wants, `a` to `j` for
/// one that is wanted at once up to one that is wanted in half a minute and later; a pinned one is
/// a capital.
fn frame(view: Option<&FrameView>) -> char {
    let Some(view) = view else { return '.' };
    let letter = match view.wanted {
        None => b'z',
        Some(wanted) => {
            // Each step is twice the time of the one before, from 64 ms on.
            let steps = (wanted.as_millis().max(32) / 32).ilog2();
            b'a' + steps.min(9) as u8
        }
    };
    let letter = char::from(letter);
    if view.pins > 0 { letter.to_ascii_uppercase() } else { letter }
}
