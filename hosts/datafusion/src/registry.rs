//! The stores of a session, each over the pool: for scans of other formats than Parquet, for
//! footers and statistics that DataFusion reads itself, and for plans that keep their own scans.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;
use pagecast::PooledStore;
use pagecast::storage::Objects;
use parking_lot::Mutex;
use url::{Position, Url};

use crate::Host;
use crate::local::LocalFiles;

/// The stores of `inner`. Local files are read as DataFusion does, but for those that scans keep
/// which could not be exchanged.
pub(crate) struct PooledRegistry {
    inner: Arc<dyn ObjectStoreRegistry>,
    /// The session has the registry, and the host the session's runtime.
    host: Weak<Host>,
    /// By the URL of their store. Another store of that URL has another one.
    pooled: Mutex<HashMap<String, Arc<PooledStore>>>,
    local: Mutex<Option<Arc<LocalFiles>>>,
}

impl PooledRegistry {
    pub(crate) fn new(inner: Arc<dyn ObjectStoreRegistry>, host: Weak<Host>) -> Self {
        Self { inner, host, pooled: Mutex::default(), local: Mutex::default() }
    }

    fn local(&self, store: Arc<dyn ObjectStore>) -> Arc<LocalFiles> {
        let mut local = self.local.lock();
        if let Some(known) = local.as_ref().filter(|known| Arc::ptr_eq(&known.inner, &store)) {
            return Arc::clone(known);
        }
        let new = Arc::new(LocalFiles { inner: store, host: Weak::clone(&self.host) });
        *local = Some(Arc::clone(&new));
        new
    }
}

impl ObjectStoreRegistry for PooledRegistry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.inner.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.inner.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let store = self.inner.get_store(url)?;
        let Some(host) = self.host.upgrade() else { return Ok(store) };
        if url.scheme() == "file" {
            return Ok(self.local(store));
        }
        // A store that is made of another one, which is here by its own URL.
        if url.scheme().contains('+') {
            return Ok(store);
        }
        let root = &url[..Position::BeforePath];
        let mut pooled = self.pooled.lock();
        if let Some(known) = pooled.get(root).filter(|known| Arc::ptr_eq(known.store(), &store)) {
            return Ok(known.clone());
        }
        let new = Arc::new(PooledStore::new(host.pool.clone(), Objects::shared()?, root, store));
        pooled.insert(root.to_owned(), new.clone());
        Ok(new)
    }
}

impl fmt::Debug for PooledRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledRegistry({:?})", self.inner)
    }
}
