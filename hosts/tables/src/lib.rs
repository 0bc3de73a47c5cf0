//! What all table formats come to: a version of a table is files, the rows of them that are left,
//! and columns. One reader does the rest.
//!
//! A format (folders of files, Delta, Iceberg, DuckLake) says which files a version has, what is
//! known of each, which rows are deleted, and under which ids or names files have the columns. The
//! scan is DataFusion's own of Parquet files, so that a pool which is installed in the session
//! reads all of them alike: what is planned, shared, predicted, joined and kept never asks for the
//! format.
//!
//! ```
//! # use std::sync::Arc;
//! # use datafusion::arrow::datatypes::{DataType, Field, Schema};
//! # use datafusion::execution::object_store::ObjectStoreUrl;
//! # use datafusion::prelude::SessionContext;
//! # use pagecast_tables::{Column, TableColumns, TableFile, TableSnapshot};
//! # #[tokio::main]
//! # async fn main() -> datafusion::common::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("a.parquet");
//! # let ctx = SessionContext::new();
//! # let sql = format!("COPY (SELECT value AS b FROM range(10)) TO '{}'", path.display());
//! # ctx.sql(&sql).await?.collect().await?;
//! // The table says `a` for what its file calls `b`.
//! let all = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
//! let columns = TableColumns::new(all, &[])?.found_as(vec![Column::named("b")]);
//! // Two rows are deleted.
//! let file = TableFile::at(&path, path.metadata()?.len())?.left(10, vec![0..3, 5..10]);
//! let table = TableSnapshot::new(ObjectStoreUrl::local_filesystem(), columns, vec![file]);
//! let scan = table.scan(&ctx.state(), &[0], None)?;
//! let rows = datafusion::physical_plan::collect(scan, ctx.task_ctx()).await?;
//! assert_eq!(rows.iter().map(|rows| rows.num_rows()).sum::<usize>(), 8);
//! # Ok(())
//! # }
//! ```
//!
//! * `versions`: what a format knows of a table, and the table as a session registers it.
//! * `session`: one version for all scans of a statement, and other versions by their names.
//! * `snapshot`: a version's files, and their scan.
//! * `filters`: files of which no row is asked for.
//! * `file`: a file of it, with the rows that are left.
//! * `columns`: columns as queries name them, and how files have them.
//! * `adapter`: expressions over columns of the table, in terms of those of a file.
//! * `nested`: values of nested columns, whose parts have other names or types.
//! * `vector`: rows that are deleted, as several formats store them.
//! * `inside`: whether a file lies where it may.
//! * `kept`: readers of a scan's files, which keep them where they are.

mod adapter;
mod columns;
mod file;
mod filters;
mod inside;
mod kept;
mod nested;
mod session;
mod snapshot;
mod vector;
mod versions;

pub use columns::{Column, TableColumns, parts_of};
pub use file::TableFile;
pub use filters::is_of_keys;
pub use inside::inside;
pub use nested::as_type;
pub use session::install;
pub use snapshot::{POSITION, TableSnapshot, with_position};
pub use vector::deletion_vector;
pub use versions::{Agreed, Asked, TableVersion, TableVersions, VersionedTable, Wanted};
