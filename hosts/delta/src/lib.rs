//! Delta tables for DataFusion: local ones, of any writer, read and changed.
//!
//! ```
//! # use datafusion::arrow::datatypes::{DataType, Field, Schema};
//! # use datafusion::prelude::SessionContext;
//! # use pagecast_delta::{Options, Table};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let columns = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
//! let table = Table::create(folder.path(), &columns, &[], Options::default())?;
//!
//! let ctx = SessionContext::new();
//! ctx.register_table("t", std::sync::Arc::new(table.provider()?))?;
//! pagecast_delta::install(&ctx)?;
//! ctx.sql("INSERT INTO t VALUES (1), (2), (3)").await?.collect().await?;
//! ctx.sql("DELETE FROM t WHERE id = 2").await?.collect().await?;
//! assert_eq!(ctx.sql("SELECT * FROM t").await?.count().await?, 2);
//! assert_eq!(ctx.sql("SELECT * FROM \"t@v1\"").await?.count().await?, 3);
//! # Ok(())
//! # }
//! ```
//!
//! How a table is read and changed:
//!
//! The protocol is that of the library `delta_kernel`: which files a version has, which of their
//! rows are deleted, which columns there are, and what a commit or a checkpoint writes. Reading and
//! writing of the files is ours.
//!
//! * `engine`, `actions`: what the library reads and writes the log through.
//! * `log`: names in the log.
//! * `protocol`: whether our part of writing knows what the table asks of writers.
//! * `columns`: columns as queries and as files name them.
//! * `schema`, `bounds`: new columns, values of the log as Arrow's, and statistics of new files.
//! * `vector`: deletion vectors, which say what rows of a file are gone.
//! * `add`, `snapshot`, `table`: a file, a version that has files, and the table that has versions.
//! * `provider`, `seen`, `scan`: what a session has and sees of a table, and its scan, by the
//!   reader of all tables (`pagecast_tables`).
//! * `transaction`, `data`: changes in memory, merged into scans, and new files of them.
//! * `commit`, `compaction`: changes on top of those of others, and files without deleted rows.
//! * `sql`, `inlet`, `sink`, `create`: INSERT, DELETE and UPDATE, and new tables.
//! * `vacuum`, `held`: files of old versions are deleted, unless a scan may still read them.
//! * `functions`: `delta_compact` and `delta_vacuum` in SQL.
//! * `session`: START TRANSACTION, COMMIT and ROLLBACK.
//! * `disk`, `options`: what of a file system changes need, and how files are written.
//!
//! A pool that is installed in the session reads these tables as all others. Nothing here knows it.

mod actions;
mod add;
mod bounds;
mod columns;
mod commit;
mod compaction;
mod create;
mod data;
mod disk;
mod engine;
mod error;
mod functions;
mod held;
mod inlet;
mod inside;
mod log;
mod options;
mod protocol;
mod provider;
mod scan;
mod schema;
mod seen;
mod session;
mod sink;
mod snapshot;
mod sql;
mod table;
mod transaction;
mod vacuum;
mod vector;

pub use disk::{Disk, LocalDisk, NewFile};
pub use error::DeltaError;
pub use functions::when_run;
pub use log::is_table;
pub use options::Options;
pub use snapshot::Snapshot;
pub use sql::{install, install_with};
pub use table::Table;
pub use transaction::Transaction;
pub use vacuum::{Vacuum, Vacuumed};

/// Who wrote a version.
const ENGINE: &str = concat!("pagecast/", env!("CARGO_PKG_VERSION"));

/// Milliseconds since 1970.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
