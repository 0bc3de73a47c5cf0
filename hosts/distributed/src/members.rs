//! Which workers there are.

use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion_distributed::WorkerResolver;
use parking_lot::RwLock;
use url::Url;

use crate::DistributedError;

/// The workers of a cluster. Clones share one list.
///
/// A query sees the list as it is when it is planned. Whoever finds workers (a file, DNS, an
/// orchestrator) keeps the list; nothing here asks a worker whether it lives.
///
/// ```
/// use pagecast_distributed::Members;
///
/// let members = Members::new(["http://10.0.0.7:50051", "http://10.0.0.8:50051"])?;
/// members.replace(["http://10.0.0.8:50051"])?; // 10.0.0.7 has left
/// assert_eq!(members.urls().len(), 1);
/// # Ok::<(), pagecast_distributed::DistributedError>(())
/// ```
#[derive(Clone, Default)]
pub struct Members(Arc<RwLock<Vec<Url>>>);

impl Members {
    /// The workers with these URLs.
    ///
    /// # Errors
    ///
    /// A URL cannot be read ([`DistributedError::Url`]).
    pub fn new(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, DistributedError> {
        let members = Self::default();
        members.replace(urls)?;
        Ok(members)
    }

    /// From now on these are the workers. A worker under two URLs counts as two.
    ///
    /// # Errors
    ///
    /// A URL cannot be read ([`DistributedError::Url`]). The list stays as it was.
    pub fn replace(&self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), DistributedError> {
        let parse = |url: &str| {
            Url::parse(url).map_err(|error| DistributedError::Url { url: url.to_owned(), what: error.to_string() })
        };
        let mut urls = urls.into_iter().map(|url| parse(url.as_ref())).collect::<Result<Vec<_>, _>>()?;
        urls.sort_unstable();
        urls.dedup();
        *self.0.write() = urls;
        Ok(())
    }

    /// The workers' URLs, sorted.
    pub fn urls(&self) -> Vec<Url> {
        self.0.read().clone()
    }
}

impl WorkerResolver for Members {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(self.urls())
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.urls().iter().map(Url::as_str)).finish()
    }
}
