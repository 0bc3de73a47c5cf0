#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::row_groups::RowGroups;
use crate::source::PoolScan;
use crate::units::UnitRead;
use crate::{HostOptions, install_with};

const PAGE: u64 = 4096;
const ROWS: i64 = 60_000;
const ROW_GROUP: i64 = 500;

/// A file of 120 row groups, of which about ten are a unit.
fn write_file(folder: &Path) {
    let ids = 0..ROWS;
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(ids.map(|id| format!("{:x}", id * 7_654_321))));
    let rows = RecordBatch::try_from_iter([("id", number), ("text", text)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROW_GROUP as usize)).build();
    let file = File::create(folder.join("t.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    for from in (0..ROWS).step_by(ROW_GROUP as usize) {
        writer.write(&rows.slice(from as usize, ROW_GROUP as usize)).unwrap();
    }
    writer.close().unwrap();
}

struct Scene {
    ctx: SessionContext,
    host: Arc<Host>,
}

impl Scene {
    async fn new(folder: &Path, partitions: usize) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(partitions);
        config.options_mut().optimizer.repartition_file_min_size = 1 << 10;
        let ctx = SessionContext::new_with_config(config);
        ctx.register_parquet("t", folder.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
        let pool = Pool::new(PoolOptions::default().memory(16 << 20).page_size(PAGE as u32)).unwrap();
        let host = install_with(&ctx, pool, HostOptions::default()).unwrap();
        Self { ctx, host }
    }

    async fn scan(&self, sql: &str) -> FileScanConfig {
        let mut plan = self.ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        while let [child] = plan.children()[..] {
            plan = Arc::clone(child);
        }
        let scan = plan.downcast_ref::<DataSourceExec>().unwrap();
        scan.data_source().downcast_ref::<PoolScan>().unwrap().config().clone()
    }

    async fn cut(&self, sql: &str) -> Vec<UnitRead> {
        let (config, context) = (self.scan(sql).await, self.ctx.task_ctx());
        let plan = plan_reads(&config, &self.host, &context, &ExecutionPlanMetricsSet::new()).await.unwrap();
        Work::of_units(plan, PAGE).reads
    }

    async fn chunks(&self, sql: &str) -> Arc<Chunks> {
        let (config, context, metrics) = (self.scan(sql).await, self.ctx.task_ctx(), ScanMetrics::default());
        Chunks::plan(&config, &self.host, &context, &metrics, Delivery::OutOfOrder).await.unwrap()
    }
}

#[tokio::test]
async fn units_are_those_of_the_file_whatever_is_read_of_it() {
    let folder = tempfile::tempdir().unwrap();
    write_file(folder.path());
    let one = Scene::new(folder.path(), 1).await;
    let all = one.cut("SELECT id, text FROM t").await;
    assert!((8..30).contains(&all.len()), "{} units", all.len());
    let row_groups: Vec<_> = all.iter().flat_map(|read| &read.row_groups).map(|planned| planned.number).collect();
    assert!(row_groups.iter().copied().eq(0..120), "each row group is in one unit: {row_groups:?}");
    let blocks = |read: &UnitRead| -> BTreeSet<u64> {
        let set = (0..u64::from(read.unit.blocks)).filter(|bit| read.need[*bit as usize / 64] >> (bit % 64) & 1 == 1);
        set.map(|bit| u64::from(read.unit.first) + bit).collect()
    };
    for (scene, sql) in [
        (&one, "SELECT text FROM t"),
        (&one, "SELECT id FROM t WHERE id BETWEEN 20000 AND 30000"),
        // Ranges of the file, which meet inside units.
        (&Scene::new(folder.path(), 7).await, "SELECT id, text FROM t"),
    ] {
        let some = scene.cut(sql).await;
        let mut units: Vec<_> = some.iter().map(|read| read.unit.first).collect();
        units.dedup();
        assert_eq!(units.len(), some.len(), "a unit is one chunk: {sql}");
        for read in some {
            let whole = all.iter().find(|whole| whole.unit.first == read.unit.first).unwrap();
            // Another session opened the file anew, so its relation has another number.
            assert_eq!(whole.unit.blocks, read.unit.blocks, "{sql}");
            let bytes = read.row_groups.iter().flat_map(|planned| &planned.bytes);
            let planned: BTreeSet<u64> = bytes.flat_map(|range| range.start / PAGE..range.end.div_ceil(PAGE)).collect();
            assert!(!planned.is_empty());
            assert_eq!(blocks(&read), planned, "{sql}");
        }
    }
}

/// The numbers of the row groups that a chunk has.
fn numbers(file: &PartitionedFile) -> Vec<usize> {
    file.extension::<RowGroups>().unwrap().0.iter().map(|numbers| numbers.start).collect()
}

#[tokio::test]
async fn a_chunk_that_was_not_read_is_handed_out_again_and_no_other_is() {
    let folder = tempfile::tempdir().unwrap();
    write_file(folder.path());
    let scene = Scene::new(folder.path(), 2).await;
    let chunks = scene.chunks("SELECT id, text FROM t").await;
    assert!(matches!(&*chunks, Chunks::OutOfOrder(_)));
    let pool = scene.host.pool();
    let mut rows = Vec::new();
    // The first is given back, the second was read in part, and when the third is given back,
    // nobody reads for a while.
    let (_, unread, handed) = chunks.next().await.unwrap();
    let given_back = numbers(&unread[0]);
    drop((unread, handed));
    for turn in 0.. {
        if turn == 2 {
            chunks.finish();
            assert_eq!((pool.scans().len(), pool.unordered_scans().len()), (0, 0));
            assert_eq!(scene.host.sharing(), [0; 5]);
            chunks.register();
        }
        let Some((_, files, handed)) = chunks.next().await else { break };
        let wanted: u64 = scene.host.sharing()[0];
        assert!(wanted > 0 && scene.host.sharing()[1..] == [0; 4]);
        if turn != 1 {
            handed.delivered();
            rows.extend(files.iter().flat_map(numbers));
        }
    }
    assert!(rows.iter().any(|number| given_back.contains(number)));
    rows.sort_unstable();
    assert!(rows.iter().copied().eq(0..120), "{rows:?}");
    assert_eq!(pool.unordered_scans()[0].1.out, 0);
    drop(chunks);
    assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
}
