//! Iceberg tables.
