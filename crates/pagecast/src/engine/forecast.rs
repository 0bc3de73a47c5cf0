//! Queries that come back to a pool: what is known of them, and the time of day.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pagecast_core::forecast::{Clock, Forecast, Query, TEMPLATES, Template};
use pagecast_core::predictor::Registry;
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{ScanId, Tick};

use super::Engine;
use crate::sync::Mutex;

/// What is known of queries that come back.
pub(crate) struct Known {
    /// Locked before the registry.
    templates: Mutex<Box<[Template]>>,
    clock: Clock,
}

type Scans = Registry<Arc<[AtomicU64]>>;

impl Known {
    /// Of none, at tick 0 of the pool.
    pub(super) fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = Clock { start: since_epoch.as_secs(), ticks_per_second: 1_000_000_000 };
        Self { templates: Mutex::new(vec![Template::EMPTY; TEMPLATES].into()), clock }
    }
}

impl Engine {
    /// Nothing where no query is expected.
    fn forecast<T>(&self, then: impl FnOnce(&mut Forecast<'_>, &mut Scans, Tick) -> T) -> Option<T> {
        let known = self.known.as_ref()?;
        let mut templates = known.templates.lock();
        Some(then(&mut Forecast::new(&mut templates, known.clock), &mut self.registry.lock(), self.now()))
    }

    /// A run of a query begins: from here on the one after it is expected.
    pub(crate) fn begins(&self, query: Query) {
        self.forecast(|forecast, registry, now| {
            forecast.review(registry, now);
            forecast.begins(query, registry, now);
        });
    }

    /// A scan ends: of a query that comes back it is expected again.
    pub(crate) fn end_scan(&self, scan: ScanId, query: Option<Query>) {
        match query {
            Some(query) if self.known.is_some() => {
                self.forecast(|forecast, registry, now| forecast.ends(query.fingerprint, scan, registry, now));
            }
            _ => _ = self.registry.lock().finish(scan, self.now()),
        }
    }

    /// A table has changed, by the number that queries have for it.
    pub(crate) fn table_changed(&self, table: u64) {
        self.forecast(|forecast, registry, now| forecast.changed(table, registry, now));
    }

    /// Forgets a query. Whether it was known.
    pub(crate) fn forget(&self, fingerprint: u64) -> bool {
        self.forecast(|forecast, registry, now| forecast.forget(fingerprint, registry, now)).unwrap_or(false)
    }

    /// The queries that are known.
    pub(crate) fn templates(&self) -> Vec<Template> {
        self.forecast(|forecast, registry, now| forecast.review(registry, now));
        let all = self.known.as_ref().map(|known| known.templates.lock().to_vec());
        all.into_iter().flatten().filter(Template::is_taken).collect()
    }

    /// Knows these queries as well, as another pool did.
    pub(crate) fn restore(&self, templates: &[[u64; Template::WORDS]]) {
        self.forecast(|forecast, registry, now| {
            templates.iter().for_each(|words| forecast.restore(Template::from_words(words), registry, now));
        });
    }
}
