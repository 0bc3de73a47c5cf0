//! Small tables, and what queries say of them.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, Host, HostOptions, install_with};
use pagecast_delta::{Disk, LocalDisk, NewFile, Options, Table};
use pagecast_tables::VersionedTable;

pub(crate) const PAGE: u64 = 4096;

/// Columns `id`, `part` (the thousands of `id`) and `text`, which is wide.
pub(crate) fn schema() -> Schema {
    let field = |name: &str, kind| Field::new(name, kind, true);
    Schema::new(vec![field("id", DataType::Int64), field("part", DataType::Int64), field("text", DataType::Utf8)])
}

pub(crate) fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let text = |id: i64| format!("{:032x}", (id as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id / 1000))),
        Arc::new(StringArray::from_iter_values(ids.map(text))),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).unwrap()
}

pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.row_group_rows = 5000;
    options.page_rows = 250;
    options
}

/// A table of as many files as there are numbers, each of so many rows.
pub(crate) async fn table(folder: &Path, files: &[i64]) -> Arc<Table> {
    let table = Table::create(folder, &schema(), &[], options()).unwrap();
    // By one thread, so that the rows stay in their order.
    let (session, mut first) = (Session::of(table.provider().unwrap(), None, 1), 0);
    for &count in files {
        session.insert(first..first + count).await;
        first += count;
    }
    table
}

pub(crate) struct Session {
    pub(crate) ctx: SessionContext,
    pub(crate) host: Option<Arc<Host>>,
}

impl Session {
    /// A session with the table as `t`, and with a pool where a delivery is named.
    pub(crate) fn new(table: &Arc<Table>, delivery: Option<Delivery>) -> Self {
        Self::of(table.provider().unwrap(), delivery, 3)
    }

    pub(crate) fn of(table: VersionedTable, delivery: Option<Delivery>, partitions: usize) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(1000);
        config.options_mut().optimizer.repartition_file_min_size = 1 << 10;
        let ctx = SessionContext::new_with_config(config);
        ctx.register_table("t", Arc::new(table)).unwrap();
        pagecast_delta::install(&ctx).unwrap();
        let host = delivery.map(|delivery| {
            let pool = Pool::new(PoolOptions::default().memory(64 << 20).page_size(PAGE as u32)).unwrap();
            install_with(&ctx, pool, HostOptions::default().delivery(delivery)).unwrap()
        });
        Self { ctx, host }
    }

    pub(crate) async fn insert(&self, ids: std::ops::Range<i64>) {
        let new = self.ctx.read_batch(rows(ids)).unwrap();
        self.ctx.register_table("new", new.into_view()).unwrap();
        self.run("INSERT INTO t SELECT * FROM new").await;
        self.ctx.deregister_table("new").unwrap();
    }

    pub(crate) async fn try_run(&self, sql: &str) -> datafusion::common::Result<String> {
        let batches = self.ctx.sql(sql).await?.collect().await?;
        Ok(pretty_format_batches(&batches)?.to_string())
    }

    /// The result as text.
    pub(crate) async fn run(&self, sql: &str) -> String {
        self.try_run(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"))
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let text = self.run(sql).await;
        let cell = text.lines().nth(3).unwrap().trim_matches(['|', ' ']).to_owned();
        cell.parse().unwrap_or_else(|_| panic!("{text}"))
    }
}

type Watch = Box<dyn Fn(&Path) + Send + Sync>;

/// A file system in which somebody acts before a file is created or removed.
pub(crate) struct Watched {
    create: Watch,
    remove: Watch,
}

impl Watched {
    pub(crate) fn disk(
        create: impl Fn(&Path) + Send + Sync + 'static,
        remove: impl Fn(&Path) + Send + Sync + 'static,
    ) -> Arc<dyn Disk> {
        Arc::new(Self { create: Box::new(create), remove: Box::new(remove) })
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched")
    }
}

impl Disk for Watched {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        (self.create)(path);
        LocalDisk.create(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.link(from, to)
    }

    fn names(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.names(path)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        (self.remove)(path);
        LocalDisk.remove(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        LocalDisk.create_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        LocalDisk.sync_folder(path)
    }
}
