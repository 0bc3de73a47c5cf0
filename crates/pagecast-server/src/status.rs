//! How the server is, as a table (`SELECT * FROM pagecast.status`) and for Prometheus.

use std::sync::Arc;

use anyhow::anyhow;
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, Session};

use crate::catalog::{DATABASE, Made};
use crate::server::Server;

/// The schema of what is about the server itself.
pub(crate) const OWN: &str = "pagecast";

/// Makes the table known to all connections.
pub(crate) fn install(server: &Arc<Server>) -> anyhow::Result<()> {
    let fields = vec![Field::new("name", DataType::Utf8, false), Field::new("value", DataType::Int64, false)];
    let (fields, from) = (Arc::new(Schema::new(fields)), Arc::downgrade(server));
    let columns = Arc::clone(&fields);
    let made = move |_: &dyn Session| {
        let rows = from.upgrade().map_or_else(Vec::new, |server| server.numbers());
        let names = StringArray::from_iter_values(rows.iter().map(|(name, _)| name));
        let values = Int64Array::from_iter_values(rows.iter().map(|&(_, value)| value as i64));
        Ok(RecordBatch::try_new(Arc::clone(&columns), vec![Arc::new(names), Arc::new(values)])?)
    };
    let schema = MemorySchemaProvider::new();
    schema.register_table("status".to_owned(), Made::of(fields, Box::new(made)))?;
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
            ("query_places_free", self.places.free() as u64),
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

    /// The numbers of server and pool, as they are when a statement asks.
    fn numbers(&self) -> Vec<(&'static str, u64)> {
        let pool = self.pool();
        let stats = pool.stats();
        let mut rows = self.own_numbers().to_vec();
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
