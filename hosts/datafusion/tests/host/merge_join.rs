//! Joins in chunks against DataFusion's own: the same rows for every kind of join, and plans that
//! keep theirs say why.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, AsArray, Date32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, common, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext, col};
use futures::StreamExt;
use pagecast::{CooperationConfig, Pool, PoolOptions, PredictorConfig};
use pagecast_core::random::Random;
use pagecast_datafusion::{Delivery, Host, HostOptions, install_with};
use tempfile::TempDir;

use crate::data::{register, write_encoded, write_pages};
use crate::peak::Peak;
use crate::rows::{Row, rows, run, same_rows};
use crate::tpch::pool;

/// How a table is laid out.
#[derive(Clone, Copy)]
enum Layout {
    Ascending,
    Descending,
    /// The rows without a key at the end.
    NullsLast,
    Scattered,
}

/// A table of `rows` rows: `k`, which repeats and may be NULL, `l`, a second part of the key, `d`
/// and `s`, the same keys as dates and texts, `v`, which tells rows apart, and `w`, which is wide.
fn table(random: &mut Random, rows: u32, keys: u32, nulls: u32, layout: Layout) -> RecordBatch {
    let key = |random: &mut Random| (random.below(100) >= nulls).then(|| i64::from(random.below(keys)));
    let mut all: Vec<Option<i64>> = (0..rows).map(|_| key(random)).collect();
    match layout {
        Layout::Ascending => all.sort_unstable(),
        Layout::Descending => all.sort_unstable_by(|a, b| b.cmp(a)),
        Layout::NullsLast => all.sort_unstable_by_key(|key| key.unwrap_or(i64::MAX)),
        Layout::Scattered => {}
    }
    let second: Vec<Option<i64>> = (0..rows).map(|_| Some(i64::from(random.below(3)))).collect();
    // What the text says first makes it long: statistics have its beginning alone.
    let texts = all.iter().map(|key| key.map(|key| format!("{}{key:08}", "x".repeat(80))));
    let wide: Vec<String> = (0..rows).map(|_| (0..5).map(|_| format!("{:x}", random.next())).collect()).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("k", Arc::new(Int64Array::from(all.clone())) as ArrayRef, true),
        ("l", Arc::new(Int64Array::from(second)) as _, true),
        ("d", Arc::new(Date32Array::from_iter(all.iter().map(|key| key.map(|key| key as i32)))) as _, true),
        ("s", Arc::new(StringArray::from_iter(texts)) as _, true),
        ("v", Arc::new(Int64Array::from_iter_values(0..i64::from(rows))) as _, true),
        ("w", Arc::new(StringArray::from_iter_values(wide)) as _, true),
    ])
    .unwrap()
}

/// Two tables `a` and `b` on disk, in several files.
struct Tables(TempDir);

impl Tables {
    /// Without dictionaries: in row groups as small as these they would be most of it.
    fn new(of: [&RecordBatch; 2], row_groups: [usize; 2], files: usize) -> Self {
        Self::encoded(of, row_groups, files, false)
    }

    fn encoded(of: [&RecordBatch; 2], row_groups: [usize; 2], files: usize, dictionaries: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (number, name) in ["a", "b"].into_iter().enumerate() {
            let (table, dir) = (of[number], folder.path().join(name));
            std::fs::create_dir(&dir).unwrap();
            let share = table.num_rows().div_ceil(files).max(1);
            for (file, from) in (0..table.num_rows()).step_by(share).enumerate() {
                let rows = table.slice(from, share.min(table.num_rows() - from));
                let path = dir.join(format!("{file}.parquet"));
                write_encoded(&path, &rows, row_groups[number], 10, dictionaries);
            }
        }
        Self(folder)
    }

    fn clustered(rows: u32, layout: Layout) -> Self {
        Self::clustered_and_encoded(rows, layout, false)
    }

    fn clustered_and_encoded(rows: u32, layout: Layout, dictionaries: bool) -> Self {
        let mut random = Random::new(7);
        let (a, b) = (table(&mut random, rows, rows / 4, 0, layout), table(&mut random, rows / 4, rows / 4, 0, layout));
        Self::encoded([&a, &b], [rows as usize / 40, rows as usize / 40], 2, dictionaries)
    }

    async fn session(&self, config: SessionConfig) -> SessionContext {
        let ctx = SessionContext::new_with_config(config);
        self.register(&ctx).await;
        ctx
    }

    async fn pooled(&self, options: HostOptions, pool: Pool) -> SessionContext {
        let ctx = self.session(config(true, 2)).await;
        install_with(&ctx, pool, options).unwrap();
        ctx
    }

    async fn register(&self, ctx: &SessionContext) {
        for name in ["a", "b"] {
            register(ctx, name, &self.0.path().join(name)).await;
        }
    }

    /// The table with its key in another type than that of `rows`.
    async fn declare(&self, ctx: &SessionContext, name: &str, rows: &RecordBatch, key: &DataType) {
        let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
        fields[0] = Arc::new(Field::new("k", key.clone(), true));
        let schema = Schema::new(fields);
        let order = vec![vec![col("k").sort(true, true)]];
        let options = ParquetReadOptions::new().schema(&schema).file_sort_order(order);
        let folder = self.path().join(name);
        ctx.register_parquet(name, folder.to_str().unwrap(), options).await.unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Sessions that prefer merge joins, or do not.
fn config(merge: bool, partitions: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(1000);
    let options = config.options_mut();
    options.optimizer.prefer_hash_join = !merge;
    options.optimizer.repartition_file_min_size = 1 << 10;
    options.execution.parquet.enable_page_index = true;
    config
}

/// Options in which every join is worth the chunks.
fn always() -> HostOptions {
    HostOptions::default().join_memory(Some(0)).least_chunks(2)
}

async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

const CHUNKS: &str = "CooperativeMergeJoinExec";

/// One join of each kind, by the columns `on`.
fn joins(on: &str) -> Vec<String> {
    let mut joins: Vec<String> = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
        .into_iter()
        .map(|kind| format!("SELECT a.k, a.v, a.w, b.k, b.v FROM a {kind} b ON {on}"))
        .collect();
    joins.extend(["LEFT SEMI JOIN", "RIGHT SEMI JOIN", "LEFT ANTI JOIN", "RIGHT ANTI JOIN"].map(|kind| {
        let side = if kind.starts_with("LEFT") { "a" } else { "b" };
        format!("SELECT {side}.k, {side}.v, {side}.w FROM a {kind} b ON {on}")
    }));
    joins.push(format!("SELECT k, v, w FROM a WHERE v % 7 = 0 OR EXISTS (SELECT 1 FROM b WHERE {on})"));
    // What decides beside the key, and what is computed above and below the join.
    joins.push(format!("SELECT a.v + b.v AS sum, a.k, a.w FROM a LEFT JOIN b ON {on} AND a.v % 3 < b.v % 5"));
    // A table with itself.
    joins.push("SELECT x.v, y.v, x.w FROM a x JOIN a y ON x.k = y.k AND x.v < y.v".to_owned());
    joins.push(format!("SELECT count(*), sum(b.v), max(a.w) FROM (SELECT * FROM a WHERE v % 2 = 0) a JOIN b ON {on}"));
    joins
}

#[tokio::test]
async fn every_kind_of_join_gives_the_rows_of_datafusion() {
    let fresh = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("PAGECAST_SEED").map_or(fresh, |seed| seed.parse().unwrap());
    println!("PAGECAST_SEED={seed}");
    let mut random = Random::new(seed);
    let layouts = [Layout::Ascending, Layout::Descending, Layout::NullsLast, Layout::Scattered];
    let (mut in_chunks, mut kept) = (0, BTreeMap::<String, usize>::new());
    for round in 0..12 {
        let layout = layouts[round % 4];
        let merge = round < 4;
        let (keys, rows) = (500 + random.below(3000), if merge { 4000 } else { 8000 });
        let a = table(&mut random, rows, keys, random_nulls(round), layout);
        let b = table(&mut random, rows / 3, 1 + keys / (1 + round as u32 % 3), random_nulls(round), layout);
        let tables =
            Tables::new([&a, &b], [40 + random.below(120) as usize, 20 + random.below(60) as usize], 1 + round % 3);
        let on = ["a.k = b.k", "a.d = b.d AND a.l = b.l", "(a.k IS NOT DISTINCT FROM b.k)"][round % 3];
        // With one partition a merge join's order would be that of the result.
        let partitions = 2 + round % 2;
        let stock = tables.session(config(merge, partitions)).await;
        let delivery = [Delivery::OutOfOrder, Delivery::InOrder, Delivery::Stock];
        for delivery in if round == 0 { &delivery[..] } else { &delivery[..1] } {
            let ctx = tables.session(config(merge, partitions)).await;
            let pool = pool(4 << 20);
            install_with(&ctx, pool.clone(), always().delivery(*delivery)).unwrap();
            for sql in joins(on) {
                let shown = shown(&plan(&ctx, &sql).await);
                let is_in_chunks = shown.contains(CHUNKS);
                assert!(!is_in_chunks || *delivery == Delivery::OutOfOrder);
                match shown.split_once("join=as planned (") {
                    _ if is_in_chunks => in_chunks += 1,
                    Some((_, why)) => *kept.entry(why.split(')').next().unwrap().to_owned()).or_insert(0) += 1,
                    None => {}
                }
                let (expected, found) = (run(&stock, &sql).await, run(&ctx, &sql).await);
                assert!(same_rows(&expected, &found), "{} and {}: {sql}\n{shown}", expected.len(), found.len());
            }
            assert_quiet(&pool);
        }
    }
    println!("{in_chunks} joins in chunks; as they were: {kept:#?}");
    assert!(in_chunks >= 30, "{in_chunks} joins in chunks");
}

/// Files whose keys are of another type than the table's: what their footers say of a key is not in
/// the table's unit, scale or order.
#[tokio::test]
async fn keys_that_are_of_another_type_in_the_files_are_not_cut_by_their_statistics() {
    let decimal = |scale| DataType::Decimal128(20, scale);
    let timestamp = |unit| DataType::Timestamp(unit, None);
    for (in_file, declared) in [
        (decimal(2), decimal(4)),
        (timestamp(TimeUnit::Millisecond), timestamp(TimeUnit::Microsecond)),
        (timestamp(TimeUnit::Microsecond), timestamp(TimeUnit::Nanosecond)),
        (timestamp(TimeUnit::Microsecond), timestamp(TimeUnit::Millisecond)),
        (DataType::Int32, DataType::Int64),
    ] {
        let mut random = Random::new(3);
        let ascending = |rows| table(&mut random, rows, rows / 2, 0, Layout::Ascending);
        let [a, b] = [4000, 2000].map(ascending).map(|rows| {
            let schema = rows.schema();
            // Large, so that keys stay apart in a coarser unit.
            let key = rows.column(0).as_primitive::<Int64Type>().unary::<_, Int64Type>(|key| key * 1000);
            let key = arrow::compute::cast(&key, &in_file).unwrap();
            let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
            fields[0] = Arc::new(Field::new("k", in_file.clone(), true));
            let columns = [&[key], &rows.columns()[1..]].concat();
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
        });
        let tables = Tables::new([&a, &b], [100, 50], 2);
        for merge in [true, false] {
            let [stock, ctx] = [(); 2].map(|()| SessionContext::new_with_config(config(merge, 2)));
            install_with(&ctx, pool(4 << 20), always()).unwrap();
            for ctx in [&stock, &ctx] {
                tables.declare(ctx, "a", &a, &declared).await;
                tables.declare(ctx, "b", &b, &declared).await;
            }
            for sql in joins("a.k = b.k") {
                let (expected, found) = (run(&stock, &sql).await, run(&ctx, &sql).await);
                assert!(same_rows(&expected, &found), "{in_file} as {declared}: {sql}");
            }
        }
    }
}

fn random_nulls(round: usize) -> u32 {
    [0, 5, 20, 0, 60][round % 5]
}

/// Nothing of any scan is left in the pool.
fn assert_quiet(pool: &Pool) {
    assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
}

#[tokio::test]
async fn a_plan_says_whether_it_joins_in_chunks_and_why_not() {
    let tables = Tables::clustered(40_000, Layout::Ascending);
    let scattered = Tables::clustered(40_000, Layout::Scattered);
    let dictionaries = Tables::clustered_and_encoded(40_000, Layout::Ascending, true);
    let merge = tables.session(config(true, 2)).await;
    let hash = tables.session(config(false, 2)).await;
    let any_hash = tables.session(config(false, 2)).await;
    let other = scattered.session(config(true, 2)).await;
    let read_again = dictionaries.session(config(true, 2)).await;
    let small_memory = tables.session(config(false, 2)).await;
    for (ctx, options) in [
        (&merge, HostOptions::default().join_memory(Some(0))),
        (&hash, HostOptions::default().join_memory(Some(64 << 20))),
        (&any_hash, always()),
        (&other, HostOptions::default().join_memory(Some(0))),
        (&read_again, HostOptions::default().join_memory(Some(0))),
    ] {
        install_with(ctx, pool(4 << 20), options).unwrap();
    }
    install_with(&small_memory, pool(1 << 20), always()).unwrap();
    let ordered = format!(
        "CREATE EXTERNAL TABLE ordered STORED AS PARQUET WITH ORDER (k) LOCATION '{}'",
        tables.path().join("a").display()
    );
    merge.sql(&ordered).await.unwrap();
    let cases: &[(&SessionContext, &str, Option<&str>)] = &[
        (&merge, "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k", None),
        (&merge, "SELECT a.v % 5, count(*) FROM a JOIN b ON a.k = b.k GROUP BY a.v % 5", None),
        (&merge, "SELECT a.k, count(*) FROM a JOIN b ON a.k = b.k GROUP BY a.k", Some("relies on its order")),
        (&merge, "SELECT a.v FROM a JOIN b ON a.k = b.k ORDER BY a.v", None),
        (&merge, "SELECT a.v FROM a JOIN b ON a.k = b.k LIMIT 10", Some("relies on its order")),
        (&any_hash, "SELECT a.w, b.w FROM a JOIN b ON a.k = b.k WHERE a.v + b.v > 9 LIMIT 10", None),
        (&merge, "SELECT x.v FROM (SELECT k + 0 AS k, v FROM a) x JOIN b ON x.k = b.k", Some("computed")),
        (&merge, "SELECT a.v FROM a JOIN b ON a.s = b.s", Some("truncated")),
        (&merge, "SELECT array_agg(a.v) FROM a JOIN b ON a.k = b.k", Some("in which order rows came")),
        (&merge, "SELECT a.v FROM a JOIN b ON a.k = b.k WHERE a.k < 100", Some("chunks")),
        (&merge, "SELECT k, o.v FROM ordered o JOIN b USING (k) ORDER BY k", None),
        (&other, "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k", Some("row groups overlap")),
        // Each chunk would read the dictionaries of its first and last row groups.
        (&read_again, "SELECT a.w, b.w FROM a JOIN b ON a.k = b.k", Some("row groups overlap")),
        // A pool that holds few of its chunks is no reason: it is about memory.
        (&small_memory, "SELECT a.w, b.w FROM a JOIN b ON a.k = b.k", None),
        (&hash, "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k", Some("KiB at most")),
        (&hash, "SELECT v FROM a WHERE k NOT IN (SELECT k FROM b)", Some("a NULL of one side decides")),
    ];
    for (ctx, sql, why) in cases {
        let shown = shown(&plan(ctx, sql).await);
        match why {
            None => assert!(shown.contains(CHUNKS) && shown.contains("delivery="), "{sql}\n{shown}"),
            Some(why) => {
                let says = shown.contains("join=as planned") && shown.contains(why);
                assert!(!shown.contains(CHUNKS) && says, "{why}: {sql}\n{shown}");
            }
        }
    }
    // What the user sees.
    let explained = rows(&merge.sql(&format!("EXPLAIN {}", cases[0].1)).await.unwrap().collect().await.unwrap());
    assert!(format!("{explained:?}").contains("CooperativeMergeJoin"), "{explained:?}");
}

#[tokio::test]
async fn a_join_in_chunks_takes_a_tenth_of_a_hash_join_s_memory() {
    let tables = Tables::clustered(300_000, Layout::Ascending);
    let mut peaks = Vec::new();
    for join_in_chunks in [false, true] {
        let memory = Arc::new(Peak::default());
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&memory) as _).build_arc().unwrap();
        let ctx = SessionContext::new_with_config_rt(config(false, 1), runtime);
        tables.register(&ctx).await;
        let options = always().join_memory(join_in_chunks.then_some(0));
        install_with(&ctx, pool(8 << 20), options).unwrap();
        let plan = plan(&ctx, "SELECT count(*), max(a.v), max(b.v) FROM a JOIN b ON a.k = b.k").await;
        assert_eq!(shown(&plan).contains(CHUNKS), join_in_chunks, "{}", shown(&plan));
        collect(plan, ctx.task_ctx()).await.unwrap();
        assert_eq!(memory.reserved(), 0, "nothing stays reserved");
        peaks.push(memory.most());
    }
    println!("at most {peaks:?} bytes");
    assert!(peaks[1] * 10 <= peaks[0], "{peaks:?}");
}

#[tokio::test]
async fn who_goes_early_leaves_nothing_behind() {
    let tables = Tables::clustered(40_000, Layout::Ascending);
    let ctx = tables.session(config(true, 3)).await;
    let pool = pool(4 << 20);
    let host: Arc<Host> = install_with(&ctx, pool.clone(), HostOptions::default().join_memory(Some(0))).unwrap();
    // A limit.
    assert_eq!(run(&ctx, "SELECT a.v FROM a JOIN b ON a.k = b.k LIMIT 10").await.len(), 10);
    assert_quiet(&pool);
    // A stream that is dropped after its first rows, beside one that is never asked.
    let joined = plan(&ctx, "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k").await;
    assert!(shown(&joined).contains(CHUNKS), "{}", shown(&joined));
    let mut first = joined.execute(0, ctx.task_ctx()).unwrap();
    let second = joined.execute(1, ctx.task_ctx()).unwrap();
    assert!(first.next().await.unwrap().unwrap().num_rows() > 0);
    assert_eq!(pool.unordered_scans().len(), 1, "one scan of both tables");
    assert!(host.scans().iter().all(|place| place.path.starts_with(tables.path())));
    drop((first, second));
    assert_quiet(&pool);
    // The same plan once more, and again.
    let whole: Vec<Row> = rows(&collect(Arc::clone(&joined), ctx.task_ctx()).await.unwrap());
    let again: Vec<Row> = rows(&collect(joined, ctx.task_ctx()).await.unwrap());
    assert!(same_rows(&whole, &again));
    let stock = tables.session(config(true, 3)).await;
    assert!(same_rows(&whole, &run(&stock, "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k").await));
    assert_quiet(&pool);
}

#[tokio::test]
async fn a_file_that_changes_ends_the_join_by_its_name() {
    let tables = Tables::clustered(40_000, Layout::Ascending);
    let ctx = tables.session(config(true, 2)).await;
    let pool = pool(4 << 20);
    install_with(&ctx, pool.clone(), HostOptions::default().join_memory(Some(0))).unwrap();
    let joined = plan(&ctx, "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k").await;
    assert!(shown(&joined).contains(CHUNKS));
    let path = tables.path().join("b/1.parquet");
    let mut random = Random::new(1);
    write_pages(&path, &table(&mut random, 100, 10, 0, Layout::Ascending), 50, 10);
    let error = collect(joined, ctx.task_ctx()).await.unwrap_err().to_string();
    assert!(error.contains("b/1.parquet"), "{error}");
    assert_quiet(&pool);
}

/// Eight at the same pace, in a pool that holds three quarters of what each reads: they read little
/// more than one does. They go in turns, a batch each: tasks that find all in memory run to their
/// end without a wait, one after the other, and then there is nobody to share with.
#[tokio::test]
async fn joins_in_chunks_share_what_is_loaded() {
    let tables = Tables::clustered(60_000, Layout::Ascending);
    let stock = tables.session(config(true, 2)).await;
    let sql = "SELECT a.v, a.w, b.v, b.w FROM a JOIN b ON a.k = b.k";
    let expected = run(&stock, sql).await;
    let mut read = Vec::new();
    for joins in [1, 8] {
        let options = PoolOptions::default().memory(9 << 20).page_size(4096);
        let options = options.cooperation(CooperationConfig::default()).predictor(PredictorConfig::default());
        let pool = Pool::new(options).unwrap();
        let ctx = tables.pooled(HostOptions::default().join_memory(Some(0)), pool.clone()).await;
        let mut streams = Vec::new();
        for join in 0..joins {
            let joined = plan(&ctx, sql).await;
            let shown = shown(&joined);
            assert!(shown.contains(CHUNKS) && !shown.contains("delivery=in-order"), "{shown}");
            streams.extend((0..2).map(|partition| (join, joined.execute(partition, ctx.task_ctx()).unwrap())));
        }
        let mut found = vec![Vec::new(); joins];
        while !streams.is_empty() {
            let mut left = Vec::new();
            for (join, mut stream) in streams {
                if let Some(batch) = stream.next().await {
                    found[join].push(batch.unwrap());
                    left.push((join, stream));
                }
            }
            streams = left;
        }
        assert!(same_rows(&expected, &rows(&found[0])));
        let count = |found: &Vec<RecordBatch>| found.iter().map(RecordBatch::num_rows).sum::<usize>();
        assert!(found.iter().all(|found| count(found) == expected.len()));
        assert_quiet(&pool);
        let stats = pool.stats();
        read.push((stats.bytes_read, stats.chunks, stats.chunks_shared));
        println!("{} frames of {}", pool.frames(), stats.loads);
    }
    println!("{read:?} bytes, chunks, shared chunks");
    assert!(read[1].0 * 10 <= read[0].0 * 11, "{read:?}");
    assert!(read[1].2 * 2 > read[1].1, "{read:?}");
}

/// One plan that runs twice at the same time: each has all rows once, whose partitions ever open
/// first.
#[tokio::test]
async fn a_plan_that_runs_twice_gives_each_its_rows() {
    let tables = Tables::clustered(40_000, Layout::Ascending);
    let ctx = tables.pooled(always(), pool(4 << 20)).await;
    for sql in ["SELECT v FROM a", "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k"] {
        let expected = run(&tables.session(config(true, 2)).await, sql).await;
        let plan = plan(&ctx, sql).await;
        assert_eq!(plan.output_partitioning().partition_count(), 2);
        assert!(shown(&plan).contains("delivery=out-of-order"), "{}", shown(&plan));
        let contexts = [ctx.task_ctx(), ctx.task_ctx()];
        let open = |partition: usize| contexts.each_ref().map(|of| plan.execute(partition, Arc::clone(of)).unwrap());
        let ([a, b], [c, d]) = (open(0), open(1));
        let both = futures::join!(common::collect(a), common::collect(b), common::collect(c), common::collect(d));
        let found = [[both.0.unwrap(), both.2.unwrap()].concat(), [both.1.unwrap(), both.3.unwrap()].concat()];
        for found in found {
            assert!(same_rows(&expected, &rows(&found)), "{sql}");
        }
    }
}
