//! How the server is, as a table (`SELECT * FROM pagecast.status`) and for Prometheus.

use std::sync::{Arc, Weak};

use anyhow::anyhow;
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{MemTable, TableType};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use crate::catalog::DATABASE;
use crate::server::Server;

/// The schema of what is about the server itself.
pub(crate) const OWN: &str = "pagecast";

/// Names and numbers, as they are when a statement asks.
#[derive(Debug)]
struct Status {
    server: Weak<Server>,
    schema: SchemaRef,
}

/// Makes the table known to all connections.
pub(crate) fn install(server: &Arc<Server>) -> anyhow::Result<()> {
    let fields = vec![Field::new("name", DataType::Utf8, false), Field::new("value", DataType::Int64, false)];
    let status = Status { server: Arc::downgrade(server), schema: Arc::new(Schema::new(fields)) };
    let schema = MemorySchemaProvider::new();
    schema.register_table("status".to_owned(), Arc::new(status))?;
    let catalog = server.engine.ctx.catalog(DATABASE).ok_or_else(|| anyhow!("the session has no {DATABASE}"))?;
    catalog.register_schema(OWN, Arc::new(schema))?;
    Ok(())
}

impl Server {
    /// The server's own numbers, as they are now.
    fn own_numbers(&self) -> [(&'static str, u64); 6] {
        [
            ("connections", self.connected() as u64),
            ("connections_not_logged_in", self.lobby.waiting() as u64),
            ("queries_running", self.running().len() as u64),
            ("query_places_free", self.places.available_permits() as u64),
            ("query_memory_bytes", self.engine.ctx.runtime_env().memory_pool.reserved() as u64),
            ("scans_back_in_order", self.engine.host.back_in_order_scans()),
        ]
    }

    /// The numbers of server and pool in the text format that Prometheus scrapes.
    pub fn prometheus(&self) -> String {
        let mut text = self.pool().snapshot().prometheus().to_string();
        for (name, value) in self.own_numbers() {
            let name = format!("pagecast_server_{name}");
            text += &format!("# TYPE {name} gauge\n{name} {value}\n");
        }
        text
    }
}

impl Status {
    fn rows(&self) -> Vec<(&'static str, u64)> {
        let Some(server) = self.server.upgrade() else { return Vec::new() };
        let pool = server.pool();
        let stats = pool.stats();
        let mut rows = server.own_numbers().to_vec();
        rows.extend([
            ("scans", pool.scans().len() as u64),
            ("unordered_scans", pool.unordered_scans().len() as u64),
            ("pages_pinned", u64::from(pool.pinned())),
            ("pool_bytes", u64::from(pool.frames()) * u64::from(pool.page_size())),
            ("requests", stats.requests),
            ("hits", stats.hits),
            ("evictions", stats.evictions),
            ("chunks", stats.chunks),
            ("chunks_shared", stats.chunks_shared),
            ("bytes_requested", stats.bytes_requested),
            ("bytes_read", stats.bytes_read),
            ("bypassed_bytes", stats.bypassed_bytes),
        ]);
        rows
    }
}

#[async_trait]
impl TableProvider for Status {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.rows();
        let names = StringArray::from_iter_values(rows.iter().map(|(name, _)| name));
        let values = Int64Array::from_iter_values(rows.iter().map(|&(_, value)| value as i64));
        let batch = RecordBatch::try_new(self.schema(), vec![Arc::new(names), Arc::new(values)])?;
        MemTable::try_new(self.schema(), vec![vec![batch]])?.scan(session, projection, filters, limit).await
    }
}
