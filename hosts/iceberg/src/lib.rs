//! Iceberg tables for DataFusion, of format versions 1 to 3: read, from metadata files, REST
//! catalogs and SQL catalogs in SQLite.
//!
//! The library `iceberg` decodes metadata, manifest lists and manifests. It stands on an older
//! Arrow, so nothing else is taken from it: the files are read by the reader of all tables.
//!
//! * `place`: where files may lie, and their stores.
//! * `catalog`, `metadata`: the newest metadata file, what it says, and which snapshot is meant.
//! * `plan`: the data files of a snapshot, and which delete files apply to each.
//! * `columns`, `schemas`, `statistics`: columns, values and bounds as Arrow and DataFusion have
//!   them.
//! * `deletes`: positions, deletion vectors and equality deletes as numbers of rows. A version
//!   keeps them, so that a second scan reads no deletes.
//! * `table`, `sql`: a table and its versions, and how statements open one.
//!
//! A pool that is installed in the session reads these tables as all others. Nothing here knows it.

mod catalog;
mod columns;
mod deletes;
mod error;
mod metadata;
mod place;
mod plan;
mod schemas;
mod sql;
mod statistics;
mod table;

pub use error::IcebergError;
pub use metadata::is_table;
pub use sql::install;
pub use table::{Options, Table, Version};
