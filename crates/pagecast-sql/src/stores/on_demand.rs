//! The stores of a session: one that a statement names is made when it is asked for first.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::ObjectStore;
use url::Url;

use super::{check_login, source};
use crate::place::Place;

#[derive(Debug)]
pub(crate) struct OnDemand {
    known: DefaultObjectStoreRegistry,
    endpoint: Option<String>,
}

impl OnDemand {
    /// `endpoint` is where stores are, if they are not where their providers have them.
    pub(crate) fn new(endpoint: Option<String>) -> Self {
        Self { known: DefaultObjectStoreRegistry::new(), endpoint }
    }
}

impl ObjectStoreRegistry for OnDemand {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.known.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let place = Place::from(url.as_str());
        check_login(&place).map_err(|error| DataFusionError::Plan(error.to_string()))?;
        self.known.get_store(url).or_else(|unknown| {
            let made = source(&place, self.endpoint.as_deref());
            let made = made.map_err(|error| DataFusionError::Plan(format!("{error:#}")))?.ok_or(unknown)?;
            self.known.register_store(url, Arc::clone(&made.store));
            Ok(made.store)
        })
    }
}
