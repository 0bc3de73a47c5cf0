//! Broken files that DataFusion's own code meets first: their statements fail by the name of the
//! file.
//!
//! It reads footers when a table is made and when a statement is planned. What it says then does
//! not name the file, or is a panic. So the files are looked at again, and the first that is broken
//! is what went wrong.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{CreateExternalTable, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt;

use crate::guard::catch_in;
use crate::{Host, HostError};

/// Makes tables as `inner` does.
#[derive(Debug)]
pub(crate) struct NamingFactory {
    pub(crate) inner: Arc<dyn TableProviderFactory>,
    pub(crate) host: Arc<Host>,
}

#[async_trait]
impl TableProviderFactory for NamingFactory {
    async fn create(&self, state: &dyn Session, cmd: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let urls = || cmd.locations.iter().flat_map(ListingTableUrl::parse).collect();
        named(self.inner.create(state, cmd), &self.host, state, urls).await
    }
}

/// Plans statements as `inner` does.
#[derive(Debug)]
pub(crate) struct NamingPlanner {
    pub(crate) inner: Arc<dyn QueryPlanner + Send + Sync>,
    pub(crate) host: Arc<Host>,
}

#[async_trait]
impl QueryPlanner for NamingPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        named(self.inner.create_physical_plan(plan, session), &self.host, session, || listed(plan)).await
    }
}

/// Where the listed tables of a plan have their files.
fn listed(plan: &LogicalPlan) -> Vec<ListingTableUrl> {
    let mut urls = Vec::new();
    // Nothing is returned that could stop it.
    _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
            && let Some(table) = table.downcast_ref::<ListingTable>()
        {
            urls.extend(table.table_paths().iter().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    urls
}

/// What `work` gives. If it fails or panics, the error of the first broken file at these places, if
/// one is.
async fn named<T>(
    work: impl Future<Output = Result<T>>,
    host: &Host,
    state: &dyn Session,
    urls: impl FnOnce() -> Vec<ListingTableUrl>,
) -> Result<T> {
    let error = match catch_in(work).await {
        Ok(Ok(result)) => return Ok(result),
        Ok(Err(error)) => error,
        Err(panic) => DataFusionError::Execution(format!("DataFusion panicked: {panic}")),
    };
    // In a store, looking costs requests: there only where bytes may be what is wrong.
    let everywhere = !is_of_the_statement(&error);
    for url in urls().into_iter().filter(|url| everywhere || url.scheme() == "file") {
        host.check_all(state, &url).await?;
    }
    Err(error)
}

/// What `work`, which looks at the files at these places, gives. If it fails or panics in a session
/// that has a pool, the error of the first broken file there, if one is.
pub async fn naming_broken_files<T>(
    state: &dyn Session,
    urls: &[ListingTableUrl],
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    match state.config().get_extension::<Host>() {
        Some(host) => named(work, &host, state, || urls.to_vec()).await,
        None => work.await,
    }
}

/// Whether the error is one of a statement's words, whatever its files hold.
fn is_of_the_statement(error: &DataFusionError) -> bool {
    use DataFusionError::{Configuration, NotImplemented, Plan, SQL, SchemaError};
    matches!(error.find_root(), Configuration(_) | NotImplemented(_) | Plan(_) | SQL(..) | SchemaError(..))
}

impl Host {
    /// Fails by the first file at `url` that is no whole Parquet file.
    async fn check_all(&self, state: &dyn Session, url: &ListingTableUrl) -> std::result::Result<(), HostError> {
        let Ok(store) = state.runtime_env().object_store(url) else { return Ok(()) };
        let Ok(files) = url.list_all_files(state, store.as_ref(), ".parquet").await else { return Ok(()) };
        for file in files.try_collect::<Vec<_>>().await.unwrap_or_default() {
            if let Ok(relation) = self.open(&url.object_store(), &file) {
                self.footers.load(&relation).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_wrong_are_told_from_bytes_that_are() {
        assert!(is_of_the_statement(&DataFusionError::Plan("no such column".to_owned()).context("planning")));
        assert!(!is_of_the_statement(&DataFusionError::Execution("DataFusion panicked".to_owned())));
    }
}
