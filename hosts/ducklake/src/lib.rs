//! DuckLake tables for DataFusion, from catalogs in SQLite. They are read, and not changed.
//!
//! ```no_run
//! # use datafusion::prelude::SessionContext;
//! # use pagecast_ducklake::{Catalog, Table};
//! # use pagecast_tables::VersionedTable;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lake = Catalog::at("lake.sqlite".as_ref(), &[]);
//! let ctx = SessionContext::new();
//! pagecast_ducklake::install(&ctx, &[])?;
//! let table = VersionedTable::newest(Table::open(lake, "main", "t")?).await?;
//! ctx.register_table("t", std::sync::Arc::new(table))?;
//! ctx.sql("SELECT count(*) FROM t").await?.show().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A catalog is tables of a database, and the specification of DuckLake is what they hold. All
//! scans of a table in a statement see one snapshot of it.
//!
//! * `catalog`: what the database says of a table at a snapshot.
//! * `columns`: the columns and their types.
//! * `rows`: rows that are in the catalog, and rows of files that are deleted.
//! * `table`: a table and its versions, for the reader of all tables.
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
pub use table::Table;
