//! Which query a scan is a run of, for a pool that expects queries that come back.
//!
//! A query is known by what its plan says of the scan: the table, the columns that are read, the
//! filter and the limit. A date or time in the filter that lies near today moves with it, as in
//! `day >= current_date - 7`: it counts by its age in days. One that lies further back is of a
//! fixed range and counts as it is. What a filter learns while the query runs does not count.
//!
//! What is expected is what the last run has read. Files that came since are so from the first run
//! that reads them.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, config_datafusion_err, config_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileSource, ParquetSource};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use pagecast::Pool;
use pagecast::forecast::Query;
use parking_lot::Mutex;

/// Options of a session that has a pool, as [`install`](crate::install) gives it them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecurringOptions {
    /// Seconds from the start of a query to that of its next run, where whoever asks knows, as a
    /// scheduler does: `SET pagecast.again_in = 3600`. 0, the default: that is learned.
    pub again_in: u32,
}

const AGAIN_IN: &str = "again_in";

impl ConfigExtension for RecurringOptions {
    const PREFIX: &'static str = "pagecast";
}

impl ExtensionOptions for RecurringOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(*self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        if key != AGAIN_IN {
            return config_err!("pagecast.{key}: there is pagecast.{AGAIN_IN} alone");
        }
        let seconds = value.trim().parse();
        let wrong = |_| config_datafusion_err!("pagecast.{AGAIN_IN}: `{value}` is no number of seconds, as 3600");
        self.again_in = seconds.map_err(wrong)?;
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let description = "seconds after which the queries of the session come again; 0: that is learned";
        let key = format!("{}.{AGAIN_IN}", Self::PREFIX);
        vec![ConfigEntry { key, value: Some(self.again_in.to_string()), description }]
    }
}

const DAY: i64 = 86_400;
/// A time that is no more days off is taken to move with the day.
const NEAR: i64 = 400;
/// Characters of what a query reads, in words.
const MOST_WORDS: usize = 200;

/// Tables that are remembered; with more all are forgotten.
const TABLES: usize = 4096;

/// Queries whose words are remembered, more than a pool knows; with more all are forgotten.
const QUERIES: usize = 4096;

/// What is remembered beside what the pool knows.
#[derive(Debug, Default)]
pub(crate) struct Recurring {
    /// When the newest file of each table was changed last, in milliseconds since the epoch.
    tables: Mutex<HashMap<u64, i64>>,
    /// By fingerprint what a query reads, for people.
    reads: Mutex<HashMap<u64, String>>,
}

impl Recurring {
    /// The query that a scan of `config` is a run of, if the pool is to know. The pool is told of a
    /// table that has changed since a scan was planned last.
    pub(crate) fn query_of(
        &self,
        config: &FileScanConfig,
        source: &ParquetSource,
        pool: &Pool,
        session: &ConfigOptions,
    ) -> Option<Query> {
        if !pool.forecasts() {
            return None;
        }
        let again_in = session.extensions.get::<RecurringOptions>().map_or(0, |options| options.again_in);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
        let query = Query { again_in, ..query_at(config, source, now) };
        self.describe(query, config, source);
        if self.has_changed(query.table, newest(config)) {
            pool.table_changed(query.table);
        }
        Some(query)
    }

    /// What the query of a fingerprint reads, in words, if it ran in this session.
    pub(crate) fn reads_of(&self, fingerprint: u64) -> Option<String> {
        self.reads.lock().get(&fingerprint).cloned()
    }

    fn describe(&self, query: Query, config: &FileScanConfig, source: &ParquetSource) {
        let mut reads = self.reads.lock();
        if reads.len() >= QUERIES {
            reads.clear();
        }
        reads.entry(query.fingerprint).or_insert_with(|| describe(config, source));
    }

    fn has_changed(&self, table: u64, newest: i64) -> bool {
        let mut tables = self.tables.lock();
        if tables.len() >= TABLES {
            tables.clear();
        }
        let known = tables.entry(table).or_insert(newest);
        std::mem::replace(known, newest.max(*known)) < newest
    }
}

/// Columns and files of a scan, and the columns of its filter. No value: who may see this need not
/// see what others ask for.
fn describe(config: &FileScanConfig, source: &ParquetSource) -> String {
    let fields = source.table_schema().table_schema().fields();
    let columns = source.projection().map(|projection| projection.column_indices()).unwrap_or_default();
    let columns: Vec<_> = columns.iter().filter_map(|&at| fields.get(at)).map(|field| field.name().as_str()).collect();
    let from = place(config).rsplit('/').next().unwrap_or_default();
    let mut words = format!("{} FROM {from}", columns.join(", "));
    let by: BTreeSet<_> =
        source.filter().iter().flat_map(collect_columns).map(|column| column.name().to_owned()).collect();
    if !by.is_empty() {
        words += &format!(" by {}", Vec::from_iter(by).join(", "));
    }
    words.chars().take(MOST_WORDS).collect()
}

fn newest(config: &FileScanConfig) -> i64 {
    files(config).map(|file| file.object_meta.last_modified.timestamp_millis()).max().unwrap_or(0)
}

fn files(config: &FileScanConfig) -> impl Iterator<Item = &PartitionedFile> {
    config.file_groups.iter().flat_map(FileGroup::iter)
}

fn query_at(config: &FileScanConfig, source: &ParquetSource, now: i64) -> Query {
    let mut table = DefaultHasher::new();
    config.object_store_url.hash(&mut table);
    source.table_schema().table_schema().fields().iter().for_each(|field| field.name().hash(&mut table));
    place(config).hash(&mut table);
    let table = table.finish();
    let mut plan = DefaultHasher::new();
    (table, config.limit).hash(&mut plan);
    let columns = source.projection().map(|projection| projection.column_indices());
    columns.hash(&mut plan);
    if let Some(filter) = source.filter() {
        timeless(filter, now).to_string().hash(&mut plan);
    }
    Query { fingerprint: plan.finish(), table, again_in: 0 }
}

/// Where the files of a table lie, without the folders that name values of columns. Of a single
/// file, which may come in parts, it is the file.
fn place(config: &FileScanConfig) -> &str {
    let mut paths = files(config).map(|file| file.object_meta.location.as_ref());
    let first = paths.next().unwrap_or_default();
    if paths.all(|path| path == first) {
        return first;
    }
    let folder = first.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.find('=').map_or(folder, |at| folder[..at].rsplit_once('/').map_or("", |(root, _)| root))
}

/// The filter without what moves with the day or is learned on the way.
fn timeless(filter: Arc<dyn PhysicalExpr>, now: i64) -> Arc<dyn PhysicalExpr> {
    let text = |text: String| Transformed::yes(Arc::new(Literal::new(ScalarValue::from(text))) as _);
    let replaced = Arc::clone(&filter).transform(|node: Arc<dyn PhysicalExpr>| {
        if node.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
            return Ok(text("learned".to_owned()));
        }
        let age = node.downcast_ref::<Literal>().and_then(|literal| age(literal.value(), now));
        Ok(age.map_or_else(|| Transformed::no(node), |age| text(format!("{age} days ago"))))
    });
    replaced.map_or(filter, |replaced| replaced.data)
}

/// How many whole days a time lies back, if it is near.
fn age(value: &ScalarValue, now: i64) -> Option<i64> {
    let seconds = match value {
        ScalarValue::Date32(Some(day)) => i64::from(*day) * DAY,
        ScalarValue::Date64(Some(millis)) => millis.div_euclid(1000),
        _ if matches!(value.data_type(), DataType::Timestamp(..)) => {
            match value.cast_to(&DataType::Timestamp(TimeUnit::Second, None)) {
                Ok(ScalarValue::TimestampSecond(Some(seconds), _)) => seconds,
                _ => return None,
            }
        }
        _ => return None,
    };
    // Of a date today counts as a whole, so that its age is the same all day.
    let now =
        if matches!(value, ScalarValue::Date32(_) | ScalarValue::Date64(_)) { now.div_euclid(DAY) * DAY } else { now };
    let age = (now - seconds).div_euclid(DAY);
    (-NEAR..=NEAR).contains(&age).then_some(age)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;
    use std::path::Path;

    use datafusion::arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch};
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::physical_plan::{ExecutionPlan, collect};
    use datafusion::prelude::{ParquetReadOptions, SessionContext};
    use pagecast::PoolOptions;
    use parquet::arrow::ArrowWriter;

    use super::*;

    /// 2026-11-27.
    const TODAY: i64 = 20_784;

    fn write(folder: &Path, name: &str) {
        let day: ArrayRef = Arc::new(Date32Array::from_iter_values(TODAY as i32 - 1000..TODAY as i32));
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let rows = RecordBatch::try_from_iter([("day", day), ("id", Arc::clone(&id)), ("other", id)]).unwrap();
        std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        let mut writer = ArrowWriter::try_new(File::create(folder.join(name)).unwrap(), rows.schema(), None).unwrap();
        writer.write(&rows).and_then(|()| writer.close()).unwrap();
    }

    async fn context(folder: &Path) -> SessionContext {
        let ctx = SessionContext::new();
        ctx.register_parquet("t", folder.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
        ctx
    }

    fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<FileScanConfig> {
        let exec = plan.downcast_ref::<DataSourceExec>();
        let config = exec.and_then(|exec| exec.data_source().downcast_ref::<FileScanConfig>().cloned());
        config.or_else(|| plan.children().into_iter().find_map(scan_of))
    }

    /// The fingerprint of a query that runs at noon of a day.
    async fn fingerprint(ctx: &SessionContext, sql: &str, day: i64) -> u64 {
        let plan = ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let config = scan_of(&plan).unwrap();
        let source = config.file_source();
        query_at(&config, source.downcast_ref().unwrap(), day * DAY + DAY / 2).fingerprint
    }

    #[test]
    fn who_says_when_a_query_comes_again_says_seconds() {
        let mut options = ConfigOptions::new();
        options.extensions.insert(RecurringOptions::default());
        options.set("pagecast.again_in", "3600").unwrap();
        assert_eq!(options.extensions.get(), Some(&RecurringOptions { again_in: 3600 }));
        for (key, value, said) in [("again_in", "soon", "`soon` is no number"), ("again", "1", "pagecast.again: ")] {
            let error = options.set(&format!("pagecast.{key}"), value).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let entries = options.entries();
        let shown = entries.iter().find(|entry| entry.key == "pagecast.again_in").unwrap();
        assert_eq!(shown.value.as_deref(), Some("3600"));
    }

    #[tokio::test]
    async fn what_moves_with_the_day_is_the_same_query() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "year=2025/a.parquet");
        write(folder.path(), "year=2026/b.parquet");
        let ctx = context(folder.path()).await;
        let of = async |sql: &str, day| fingerprint(&ctx, &format!("SELECT sum(id) FROM t WHERE {sql}"), day).await;
        let week = of("day >= DATE '2026-11-20'", TODAY).await;
        assert_eq!(week, of("day >= DATE '2026-11-21'", TODAY + 1).await, "the last seven days");
        assert_ne!(week, of("day >= DATE '2026-11-20'", TODAY + 1).await, "the last eight");
        let fixed = of("day >= DATE '1999-01-01'", TODAY).await;
        assert_eq!(fixed, of("day >= DATE '1999-01-01'", TODAY + 1).await);
        assert_ne!(fixed, of("day >= DATE '1999-01-02'", TODAY + 1).await);
        assert_ne!(fixed, of("day >= DATE '1999-01-01' AND id > 7", TODAY).await);
        let other = fingerprint(&ctx, "SELECT sum(other) FROM t WHERE day >= DATE '1999-01-01'", TODAY).await;
        assert_ne!(fixed, other, "other columns");
        // A file more is no other table.
        write(folder.path(), "year=2027/c.parquet");
        let grown = context(folder.path()).await;
        let sql = "SELECT sum(id) FROM t WHERE day >= DATE '1999-01-01'";
        assert_eq!(fixed, fingerprint(&grown, sql, TODAY).await);
    }

    #[tokio::test]
    async fn the_pool_learns_what_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        (0..3).for_each(|number| write(folder.path(), &format!("{number}.parquet")));
        let options = PoolOptions::default().memory(8 << 20).policy("pbm(forecast=on)".parse().unwrap());
        let (ctx, pool) = (context(folder.path()).await, pagecast::Pool::new(options).unwrap());
        crate::install(&ctx, pool.clone()).unwrap();
        for _ in 0..3 {
            for sql in ["SELECT sum(id) FROM t", "SELECT max(day), count(other) FROM t WHERE id > 7"] {
                let plan = ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
                collect(plan, ctx.task_ctx()).await.unwrap();
            }
        }
        let starts: Vec<_> = pool.templates().iter().map(|known| known.starts_seen()).collect();
        assert_eq!(starts, [3, 3]);
        assert_eq!(pool.expected().len(), 2);
    }

    #[test]
    fn a_newer_file_is_a_change() {
        let tables = Recurring::default();
        let changed: Vec<_> = [5, 5, 4, 6, 6].map(|newest| tables.has_changed(1, newest)).into();
        assert_eq!(changed, [false, false, false, true, false]);
    }
}
