//! Tables that have versions, in sessions with and without a pool: all scans of a statement are of
//! one version, others have names, and files of which no row is asked for are left out.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::HostOptions;
use pagecast_tables::{
    Asked, TableColumns, TableFile, TableSnapshot, TableVersion, TableVersions, VersionedTable, Wanted,
};
use tempfile::TempDir;

/// A table that has one file more whenever it is asked for its newest version. File `i` has the
/// numbers `v` from `10 * i` on, ten of them, and the key `i % 3`, or NULL where that is two.
#[derive(Debug)]
struct Growing {
    folder: TempDir,
    /// A file is written once: a second writer would replace it under a statement that reads it.
    writing: tokio::sync::Mutex<()>,
    files: AtomicI64,
    columns: TableColumns,
    keys: Vec<String>,
}

impl Growing {
    fn new() -> Arc<Self> {
        let kind = DataType::Int64;
        let all = Schema::new(vec![Field::new("v", kind.clone(), true), Field::new("k", kind, true)]);
        let columns = TableColumns::new(Arc::new(all), &["k"]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Arc::new(Self {
            folder,
            writing: tokio::sync::Mutex::default(),
            files: AtomicI64::new(2),
            columns,
            keys: vec!["k".to_owned()],
        })
    }

    async fn file(&self, i: i64) -> PathBuf {
        let path = self.folder.path().join(format!("{i}.parquet"));
        let _writing = self.writing.lock().await;
        if !path.exists() {
            let sql =
                format!("COPY (SELECT value AS v FROM range({}, {})) TO '{}'", 10 * i, 10 * i + 10, path.display());
            SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap();
        }
        path
    }

    async fn version(&self, files: i64) -> Arc<dyn TableVersion> {
        let mut of_files = Vec::new();
        for i in 0..files {
            let path = self.file(i).await;
            let bytes = path.metadata().unwrap().len();
            let path = object_store::path::Path::from_absolute_path(path).unwrap();
            let key = (i % 3 < 2).then_some(i % 3);
            of_files
                .push(TableFile::listed(PartitionedFile::new(path.to_string(), bytes), vec![ScalarValue::Int64(key)]));
        }
        Arc::new(Grown { columns: self.columns.clone(), files: of_files })
    }
}

#[async_trait]
impl TableVersions for Growing {
    async fn columns(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(self.columns.all()))
    }

    async fn newest(&self, _state: &dyn Session, _asked: &Asked<'_>) -> Result<Arc<dyn TableVersion>> {
        Ok(self.version(self.files.fetch_add(1, SeqCst) + 1).await)
    }

    async fn named(&self, name: &str) -> Result<Option<Arc<dyn TableVersion>>> {
        let Ok(files) = name.parse() else { return plan_err!("there is no version {name}") };
        Ok(Some(self.version(files).await))
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }
}

#[derive(Debug)]
struct Grown {
    columns: TableColumns,
    files: Vec<TableFile>,
}

#[async_trait]
impl TableVersion for Grown {
    fn schema(&self) -> &SchemaRef {
        self.columns.all()
    }

    async fn scan(&self, state: &dyn Session, wanted: &Wanted<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        TableSnapshot::new(ObjectStoreUrl::local_filesystem(), self.columns.clone(), self.files.clone())
            .measured()
            .matching(state, wanted.filters)?
            .scan(state, wanted.columns, wanted.limit)
    }
}

/// Sessions without a pool and with one, whose table `t` grows.
async fn sessions() -> Vec<(SessionContext, Arc<Growing>)> {
    let mut sessions = Vec::new();
    for with_pool in [false, true] {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        if with_pool {
            let pool = Pool::new(PoolOptions::default().memory(4 << 20)).unwrap();
            pagecast_datafusion::install_with(&ctx, pool, HostOptions::default()).unwrap();
        }
        pagecast_tables::install(&ctx).unwrap();
        pagecast_tables::install(&ctx).unwrap();
        let growing = Growing::new();
        let table = VersionedTable::newest(Arc::clone(&growing) as _).await.unwrap();
        ctx.register_table("t", Arc::new(table)).unwrap();
        sessions.push((ctx, growing));
    }
    sessions
}

async fn shown(ctx: &SessionContext, sql: &str) -> String {
    let rows = async { ctx.sql(sql).await?.collect().await };
    rows.await.map_or_else(|error| error.to_string(), |rows| pretty_format_batches(&rows).unwrap().to_string())
}

#[tokio::test]
async fn all_scans_of_a_statement_are_of_one_version() {
    for (ctx, growing) in sessions().await {
        ctx.sql("CREATE VIEW w AS SELECT v FROM t WHERE v >= 0").await.unwrap();
        let mut files = growing.files.load(SeqCst);
        for sql in [
            "SELECT count(*) FROM t",
            "SELECT max(b.n) FROM (SELECT count(*) AS n FROM t) a JOIN (SELECT count(v) AS n FROM t) b ON a.n = b.n",
            "SELECT count(*) FROM t WHERE v IN (SELECT v FROM w) AND EXISTS (SELECT 1 FROM t u WHERE u.v = t.v)",
            "WITH c AS (SELECT v FROM t) SELECT count(*) FROM c x JOIN c y USING (v) JOIN w USING (v)",
            "SELECT (SELECT max(v) FROM t) + 1 FROM t WHERE v = (SELECT max(v) FROM w) ORDER BY 1 LIMIT 1",
        ] {
            files += 1;
            let found = shown(&ctx, sql).await;
            assert!(found.contains(&format!("| {} ", 10 * files)), "{sql}\n{found}\n{files} files");
            assert_eq!(growing.files.load(SeqCst), files, "{sql}: the version was asked for more than once");
        }
    }
}

#[tokio::test]
async fn versions_have_names() {
    for (ctx, growing) in sessions().await {
        let both = "SELECT (SELECT count(*) FROM \"t@1\") AS one, (SELECT count(*) FROM \"t@2\") AS two";
        assert!(shown(&ctx, both).await.contains("| 10  | 20  |"));
        assert_eq!(growing.files.load(SeqCst), 2);
        assert!(shown(&ctx, "SELECT * FROM \"t@x\"").await.contains("there is no version x"));
        assert!(shown(&ctx, "SELECT * FROM \"u@1\"").await.contains("not found"));
        assert!(shown(&ctx, "INSERT INTO t VALUES (1, 1)").await.contains("read here, and not changed"));
        assert!(shown(&ctx, "INSERT INTO \"t@1\" VALUES (1, 1)").await.contains("only the newest can be changed"));
    }
}

/// Beside the same rows without files.
#[tokio::test]
async fn filters_of_keys_leave_out_files_and_no_rows() {
    for (ctx, _) in sessions().await {
        let rows = "SELECT value AS v, CASE WHEN value / 10 % 3 < 2 THEN value / 10 % 3 END AS k FROM range(60)";
        ctx.sql(&format!("CREATE TABLE rows AS {rows}")).await.unwrap().collect().await.unwrap();
        for condition in [
            "true",
            "k = 1",
            "k <> 1",
            "NOT (k = 1)",
            "k IS NULL",
            "k IS NOT NULL",
            "k IN (0, NULL)",
            "k NOT IN (0)",
            "k NOT IN (0, NULL)",
            "k = 1 OR v = 25",
            "k IS NULL AND v > 40",
            "coalesce(k, 7) = 7",
            "k > 0 AND k < 0",
            "k = 7",
            "k IS DISTINCT FROM 1",
            "(k = 1) IS NULL",
            "k = v / 10 % 3",
            "random() < 2 AND k = 0",
            "k IN (SELECT k FROM rows WHERE v = 12)",
            "k = (SELECT min(k) FROM rows)",
            "CAST(k AS VARCHAR) = '1'",
        ] {
            for select in ["count(*), count(k), min(k), max(k), sum(v)", "count(*)", "min(v), max(v), count(v)"] {
                let of = |table: &str| format!("SELECT {select} FROM {table} AS t WHERE {condition}");
                let (found, expected) = (shown(&ctx, &of("\"t@6\"")).await, shown(&ctx, &of("rows")).await);
                assert_eq!(found, expected, "{select} WHERE {condition}");
            }
            let of = |table: &str| format!("SELECT k, v FROM {table} AS t WHERE {condition} ORDER BY v LIMIT 13");
            assert_eq!(shown(&ctx, &of("\"t@6\"")).await, shown(&ctx, &of("rows")).await, "{condition}");
        }
        let groups = shown(&ctx, "EXPLAIN SELECT v FROM \"t@6\" WHERE k IS NULL").await;
        assert!(
            groups.contains("2.parquet") && groups.contains("5.parquet") && !groups.contains("0.parquet"),
            "{groups}"
        );
    }
}

/// 64 statements at once out of a pool that holds little, of which a third is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_statements_at_once_see_whole_versions() {
    for (ctx, growing) in sessions().await {
        growing.version(30).await;
        growing.files.store(12, SeqCst);
        let statement = |i: usize, ctx: SessionContext| async move {
            let sql = match i % 4 {
                0 => "SELECT count(*), sum(v), count(DISTINCT k) FROM \"t@17\"",
                1 => "SELECT count(*), max(v) FROM t WHERE v >= 0 AND k IS NULL",
                2 => "SELECT count(*), max(a.v) FROM t a JOIN t b ON a.v = b.v",
                _ => "SELECT v, k FROM \"t@29\" WHERE v % 7 = 3 ORDER BY v",
            };
            let rows = ctx.sql(sql).await?.collect();
            match i % 3 {
                0 => {
                    tokio::time::timeout(std::time::Duration::from_micros(100 * i as u64), rows).await.ok().transpose()
                }
                _ => Ok(Some(rows.await?)),
            }
        };
        let running: Vec<_> = (0..64).map(|i| tokio::spawn(statement(i, ctx.clone()))).collect();
        for (i, running) in running.into_iter().enumerate() {
            let Some(rows) = running.await.unwrap().unwrap() else { continue };
            let number = |column: usize| rows[0].column(column).as_primitive::<Int64Type>().value(0);
            match i % 4 {
                0 => assert_eq!((number(0), number(1), number(2)), (170, 169 * 85, 2)),
                // The newest version may be any, and is a whole one.
                1 => assert_eq!(number(0), 10 * ((number(1) / 10 + 1) / 3)),
                2 => assert_eq!(number(0), number(1) + 1),
                _ => assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 41),
            }
        }
    }
}
