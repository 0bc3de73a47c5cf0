//! What `--watch` shows of a bench: the pool of the row that runs, and the queries of its streams.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use pagecast::Pool;
use parking_lot::Mutex;

use crate::watch::{Running, Shadow, Watched};

/// Rows of a bench, one after the other.
#[derive(Default)]
pub(super) struct Stage {
    row: Mutex<Option<Row>>,
    streams: Mutex<BTreeMap<usize, Running>>,
}

struct Row {
    pool: Pool,
    shadow: Option<Arc<Shadow>>,
    name: String,
}

impl Stage {
    /// The pool of a row, until what this gives is dropped.
    pub(super) fn show(&self, pool: &Pool, shadow: Option<Arc<Shadow>>, name: String) -> OnStage<'_> {
        *self.row.lock() = Some(Row { pool: pool.clone(), shadow, name });
        OnStage(self)
    }

    /// What a stream does now.
    pub(super) fn begin(&self, stream: usize, name: &str, sql: &str) {
        let running = Running {
            number: stream as i64,
            user: format!("{stream}, {name}"),
            client: String::new(),
            sql: sql.into(),
            since: Instant::now(),
            rows: 0,
            waits: false,
            memory: 0,
        };
        self.streams.lock().insert(stream, running);
    }

    pub(super) fn end(&self, stream: usize) {
        self.streams.lock().remove(&stream);
    }
}

/// A row that runs.
pub(super) struct OnStage<'a>(&'a Stage);

impl Drop for OnStage<'_> {
    fn drop(&mut self) {
        *self.0.row.lock() = None;
        self.0.streams.lock().clear();
    }
}

impl Watched for Stage {
    fn pool(&self) -> Option<Pool> {
        self.row.lock().as_ref().map(|row| row.pool.clone())
    }

    fn shadow(&self) -> Option<Arc<Shadow>> {
        self.row.lock().as_ref().and_then(|row| row.shadow.clone())
    }

    fn doing(&self) -> String {
        self.row.lock().as_ref().map(|row| row.name.clone()).unwrap_or_default()
    }

    fn connected(&self) -> usize {
        self.streams.lock().len()
    }

    fn running(&self) -> Vec<Running> {
        self.streams.lock().values().cloned().collect()
    }
}
