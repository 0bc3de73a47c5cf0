//! DuckLake tables for DataFusion, from catalogs in SQLite. They are read, and not changed.
//!
//! ```no_run
//! # use datafusion::prelude::SessionContext;
//! # use pagecast_ducklake::{Catalog, DuckLakeTable};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lake = Catalog::at("lake.sqlite".as_ref(), &[]);
//! let ctx = SessionContext::new();
//! ctx.register_table("t", std::sync::Arc::new(DuckLakeTable::open(lake, "main", "t", None)?))?;
//! ctx.sql("SELECT count(*) FROM t").await?.show().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A catalog is tables of a database, and the specification of DuckLake is what they hold. Each
//! scan sees one snapshot of it, the newest when it is planned.
//!
//! * `catalog`: what the database says of a table at a snapshot.
//! * `columns`: the columns and their types.
//! * `rows`: rows that are in the catalog, and rows of files that are deleted.
//! * `table`: what a session sees, and its scan by the reader of all tables.
//! * `create`: `CREATE EXTERNAL TABLE ... STORED AS DUCKLAKE`.

mod catalog;
mod columns;
mod create;
mod error;
mod rows;
mod table;

pub use catalog::Catalog;
pub use create::install;
pub use error::DuckLakeError;
pub use table::DuckLakeTable;
