//! Sessions over TPC-H at scale factor 0.01, and a small table.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use tempfile::TempDir;

pub(crate) use crate::files::{TABLES, write, write_encoded, write_pages};

/// The folder that holds one folder per table; made by the first test that wants it, removed by the
/// system with the rest of its temporary files.
pub(crate) fn tpch() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| crate::files::generate(4096)).path()
}

/// How a session is set up, apart from the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) partitions: usize,
    pub(crate) pruning: bool,
    pub(crate) pushdown: bool,
}

impl Session {
    pub(crate) fn plain(partitions: usize) -> Self {
        Self { partitions, pruning: true, pushdown: false }
    }

    pub(crate) fn context(self) -> SessionContext {
        let mut config = SessionConfig::new().with_target_partitions(self.partitions).with_batch_size(1000);
        let options = config.options_mut();
        options.execution.parquet.pruning = self.pruning;
        options.execution.parquet.enable_page_index = self.pruning;
        options.execution.parquet.pushdown_filters = self.pushdown;
        options.execution.parquet.reorder_filters = self.pushdown;
        // The test's files are small; split them among partitions all the same.
        options.optimizer.repartition_file_min_size = 1 << 10;
        SessionContext::new_with_config(config)
    }

    /// A session that has the TPC-H tables.
    pub(crate) async fn tpch(self) -> SessionContext {
        let ctx = self.context();
        for table in TABLES {
            register(&ctx, table, &tpch().join(table)).await;
        }
        ctx
    }
}

pub(crate) async fn register(ctx: &SessionContext, table: &str, folder: &Path) {
    ctx.register_parquet(table, folder.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
}

/// The text of TPC-H query `number`.
pub(crate) fn query(number: usize) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/queries/q{number:02}.sql"));
    fs::read_to_string(path).unwrap()
}

/// A small table: `id` from 0, `even` true for every other row, `name` a few bytes of text.
pub(crate) fn numbers(from: i64, rows: i64) -> RecordBatch {
    use arrow::array::{BooleanArray, Int64Array, StringArray};
    let ids = from..from + rows;
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone())) as _),
        ("even", Arc::new(BooleanArray::from_iter(ids.clone().map(|id| Some(id % 2 == 0)))) as _),
        ("name", Arc::new(StringArray::from_iter_values(ids.map(|id| format!("number {id}")))) as _),
    ])
    .unwrap()
}
