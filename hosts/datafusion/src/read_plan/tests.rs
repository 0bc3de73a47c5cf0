#![allow(clippy::unwrap_used)]
//! The plan is exact: what was planned is what the scan then asked for, and what was registered
//! covers it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use pagecast::{PageId, Pool, PoolOptions, Recorder};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::chunks::{chunk_work, chunks};
use crate::install;
use crate::progress::Progress;
use crate::source::PoolScan;

const PAGE: u64 = 4096;
const ROWS: i64 = 12_000;

/// Notes the pages that were asked for.
#[derive(Default)]
struct Requested(Mutex<BTreeSet<u64>>);

impl Recorder for Requested {
    fn request(&self, page: PageId, _bytes: u32) {
        self.0.lock().insert(page.raw());
    }
}

/// Two files of six row groups of ten pages: a number, a text and a struct of both.
fn write_files(folder: &Path) {
    for file in 0..2 {
        let ids = || file * ROWS / 2..(file + 1) * ROWS / 2;
        let number: ArrayRef = Arc::new(Int64Array::from_iter_values(ids()));
        let text: ArrayRef = Arc::new(StringArray::from_iter_values(ids().map(|id| format!("{:x}", id * 7_654_321))));
        let pair = StructArray::try_from(vec![("number", Arc::clone(&number)), ("text", Arc::clone(&text))]).unwrap();
        let rows = RecordBatch::try_from_iter([("id", number), ("text", text), ("pair", Arc::new(pair) as _)]).unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(1000))
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50)
            .set_dictionary_enabled(false)
            .build();
        let to = File::create(folder.join(format!("{file}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(to, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
    }
}

struct Scene {
    ctx: SessionContext,
    host: Arc<Host>,
    requested: Arc<Requested>,
}

/// What one query planned, registered and asked for.
struct Outcome {
    planned: ReadPlan,
    planned_pages: BTreeSet<u64>,
    registered_pages: BTreeSet<u64>,
    requested_pages: BTreeSet<u64>,
    requested_bytes: u64,
}

impl Scene {
    async fn new(folder: &Path, while_decoding: bool) -> Self {
        write_files(folder);
        Self::over(folder, while_decoding).await
    }

    async fn over(folder: &Path, while_decoding: bool) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(3);
        config.options_mut().execution.parquet.pushdown_filters = while_decoding;
        config.options_mut().optimizer.repartition_file_min_size = 1 << 10;
        let ctx = SessionContext::new_with_config(config);
        ctx.register_parquet("t", folder.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
        let requested = Arc::new(Requested::default());
        let recorder = Arc::clone(&requested) as Arc<dyn Recorder>;
        let options = PoolOptions::default().memory(4 << 20).page_size(PAGE as u32).recorder(recorder);
        let host = install(&ctx, Pool::new(options).unwrap()).unwrap();
        Self { ctx, host, requested }
    }

    async fn run(&self, sql: &str) -> Outcome {
        let plan = self.ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let config = scan_of(&plan).unwrap_or_else(|| panic!("no in-order scan for {sql}"));
        let planned =
            plan_reads(&config, &self.host, &self.ctx.task_ctx(), &ExecutionPlanMetricsSet::new()).await.unwrap();
        let before = self.host.pool().stats().bytes_requested;
        self.requested.0.lock().clear();
        collect(plan, self.ctx.task_ctx()).await.unwrap();
        let pages = |(relation, planned): (&Relation, &PlannedRowGroup)| {
            let of = |bytes: &Range<u64>| bytes.start / PAGE..bytes.end.div_ceil(PAGE);
            let page = |block| relation.page(block as u32).raw();
            planned.bytes.iter().flat_map(of).map(page).collect::<Vec<_>>()
        };
        Outcome {
            planned_pages: planned.row_groups().flat_map(pages).collect(),
            registered_pages: Progress::new(&self.host, &planned).registered_pages().map(PageId::raw).collect(),
            requested_pages: self.requested.0.lock().clone(),
            requested_bytes: self.host.pool().stats().bytes_requested - before,
            planned,
        }
    }
}

fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<FileScanConfig> {
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        return exec
            .data_source()
            .downcast_ref::<PoolScan>()
            .filter(|scan| scan.delivery().is_some())
            .map(|scan| scan.config.clone());
    }
    plan.children().into_iter().find_map(scan_of)
}

impl Outcome {
    fn rows(&self) -> u64 {
        self.planned.row_groups().map(|(_, row_group)| row_group.rows).sum()
    }

    fn assert_exact(&self, sql: &str) {
        assert_eq!(self.planned.bytes(), self.requested_bytes, "{sql}");
        assert_eq!(self.planned_pages, self.requested_pages, "{sql}");
        assert_eq!(self.registered_pages, self.requested_pages, "{sql}");
    }
}

#[tokio::test]
async fn what_is_planned_is_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path(), false).await;
    let all = scene.run("SELECT * FROM t").await;
    all.assert_exact("all columns");
    assert_eq!(all.rows(), ROWS as u64);

    let column = scene.run("SELECT sum(id) FROM t").await;
    column.assert_exact("one column");
    assert!(column.planned.bytes() < all.planned.bytes() / 3);

    let row_groups = scene.run("SELECT max(text) FROM t WHERE id >= 3000 AND id < 5000").await;
    row_groups.assert_exact("two row groups");
    assert_eq!(row_groups.rows(), 2000);

    let pages = scene.run("SELECT max(text) FROM t WHERE id >= 3250 AND id < 3350").await;
    pages.assert_exact("two pages of one row group");
    assert_eq!(pages.rows(), 1000);
    assert!(pages.planned.bytes() < row_groups.planned.bytes() / 6);

    let leaf = scene.run("SELECT max(get_field(pair, 'text')) FROM t").await;
    leaf.assert_exact("a leaf of a struct");
    let whole = scene.run("SELECT pair FROM t").await;
    whole.assert_exact("a struct");
    assert!(leaf.planned.bytes() < whole.planned.bytes());
}

#[tokio::test]
async fn rows_without_columns_are_planned_without_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path(), false).await;
    let none = scene.run("SELECT 1 FROM t").await;
    none.assert_exact("no column");
    assert_eq!((none.rows(), none.planned.bytes()), (ROWS as u64, 0));
    let nothing = scene.run("SELECT text FROM t WHERE id < 0").await;
    nothing.assert_exact("no row group");
    assert_eq!(nothing.rows(), 0);
}

#[tokio::test]
async fn a_filter_while_decoding_reads_part_of_what_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path(), true).await;
    let sql = "SELECT max(get_field(pair, 'number')) FROM t WHERE text LIKE '%ff%' AND id >= 2000";
    let filtered = scene.run(sql).await;
    assert_eq!(filtered.rows(), ROWS as u64 - 2000);
    assert!(filtered.requested_pages.is_subset(&filtered.planned_pages));
    assert_eq!(filtered.registered_pages, filtered.planned_pages);
    assert!(filtered.requested_bytes > 0 && filtered.requested_bytes <= filtered.planned.bytes());
}

/// A file of 600 row groups of ten rows.
fn write_small_row_groups(folder: &Path) {
    let batch = |from: i64| {
        let number: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 10));
        let text: ArrayRef = Arc::new(StringArray::from_iter_values((from..from + 10).map(|id| format!("{id:x}"))));
        RecordBatch::try_from_iter([("id", number), ("text", text)]).unwrap()
    };
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10)).build();
    let to = File::create(folder.join("small.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(to, batch(0).schema(), Some(properties)).unwrap();
    (0..600).for_each(|row_group| writer.write(&batch(row_group * 10)).unwrap());
    writer.close().unwrap();
}

#[tokio::test]
async fn small_row_groups_come_in_chunks_that_carry_nothing_of_the_others() {
    let folder = tempfile::tempdir().unwrap();
    write_small_row_groups(folder.path());
    let scene = Scene::over(folder.path(), false).await;
    let all = scene.run("SELECT max(text), sum(id) FROM t").await;
    all.assert_exact("all row groups");
    let some = scene.run("SELECT max(text) FROM t WHERE id < 45 OR id > 5555").await;
    some.assert_exact("some row groups");
    assert_eq!(some.rows(), 50 + 450);

    let [file] = &all.planned.files[..] else { panic!("{} files", all.planned.files.len()) };
    let opened: Vec<_> = chunks(&file.row_groups, chunk_work(&all.planned, 2)).collect();
    assert!(opened.len() <= 40, "{} chunks for two partitions", opened.len());
    let carried = |chunk: &&[PlannedRowGroup]| {
        let file = file.with(chunk);
        (file.extension::<ParquetAccessPlan>().unwrap().len(), file.extension::<RowGroups>().unwrap().0.len())
    };
    let (accesses, numbers): (Vec<_>, Vec<_>) = opened.iter().map(carried).unzip();
    assert_eq!((accesses.iter().sum::<usize>(), numbers.iter().sum::<usize>()), (600, 600));
    // Where a row group is work enough, it is a chunk.
    assert_eq!(chunks(&file.row_groups, 1).count(), 600);
}
