//! The TPC-H tables in a store, and a session of one process that reads them.

use std::sync::Arc;

use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use pagecast::PoolOptions;
use tokio::sync::OnceCell;

use crate::files::{TABLES, generate};

pub(crate) const URL: &str = "mem://tpch";

/// A range has about a row group of the largest table.
pub(crate) const RANGE: u64 = 128 << 10;

/// The TPC-H tables in a store, a folder each.
pub(crate) async fn objects() -> Arc<InMemory> {
    static STORE: OnceCell<Arc<InMemory>> = OnceCell::const_new();
    let fill = || async {
        let store = InMemory::new();
        let folder = generate(4096);
        for table in TABLES {
            for entry in std::fs::read_dir(folder.path().join(table)).unwrap() {
                let path = entry.unwrap().path();
                let name = format!("{table}/{}", path.file_name().unwrap().to_str().unwrap());
                store.put(&name.as_str().into(), std::fs::read(path).unwrap().into()).await.unwrap();
            }
        }
        Arc::new(store)
    };
    Arc::clone(STORE.get_or_init(fill).await)
}

/// A pool of `memory` bytes. Pages are as small as can be, as the tables are.
pub(crate) fn pool_options(memory: u64) -> PoolOptions {
    PoolOptions::default().memory(memory).page_size(4096)
}

/// The text of TPC-H query `number`.
pub(crate) fn query(number: usize) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../datafusion/tests/queries");
    std::fs::read_to_string(folder.join(format!("q{number:02}.sql"))).unwrap()
}

/// The same tables in one process, without workers.
pub(crate) async fn alone() -> SessionContext {
    with_tables(SessionContext::new_with_config(config())).await
}

/// How sessions plan, in one process and for several.
pub(crate) fn config() -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(2).with_batch_size(1000);
    // The files are small; they are divided among partitions all the same.
    config.options_mut().optimizer.repartition_file_min_size = 1 << 10;
    config
}

pub(crate) async fn with_tables(ctx: SessionContext) -> SessionContext {
    ctx.register_object_store(&URL.parse().unwrap(), objects().await);
    for table in TABLES {
        ctx.register_parquet(table, format!("{URL}/{table}/"), ParquetReadOptions::default()).await.unwrap();
    }
    ctx
}
