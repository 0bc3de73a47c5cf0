//! Folders of Parquet files as tables.
