//! Tables whose rows are made when a statement asks for them.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{MemTable, TableType};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

type Rows = Box<dyn Fn(&dyn Session) -> Result<RecordBatch> + Send + Sync>;

/// One of them.
pub(crate) struct Made {
    schema: SchemaRef,
    rows: Rows,
}

impl Made {
    /// A table of what `rows` makes for the session that asks.
    pub(crate) fn of(schema: SchemaRef, rows: Rows) -> Arc<dyn TableProvider> {
        Arc::new(Self { schema, rows })
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Made {
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
        let rows = (self.rows)(session)?;
        MemTable::try_new(self.schema(), vec![vec![rows]])?.scan(session, projection, filters, limit).await
    }
}
