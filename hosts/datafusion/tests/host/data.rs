//! TPC-H at scale factor 0.01 in Parquet, in row groups and pages small enough that there is much
//! to prune.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

const SCALE: f64 = 0.01;
pub(crate) const TABLES: [&str; 8] =
    ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"];

/// The folder that holds one folder per table; made by the first test that wants it, removed by the
/// system with the rest of its temporary files.
pub(crate) fn tpch() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(generate).path()
}

fn generate() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let table = |name: &str, batches: Vec<RecordBatch>, sorted_by: Option<&str>, files: usize| {
        let mut rows = concat_batches(&batches[0].schema(), &batches).unwrap();
        if let Some(column) = sorted_by {
            let order = sort_to_indices(rows.column_by_name(column).unwrap(), None, None).unwrap();
            rows = take_record_batch(&rows, &order).unwrap();
        }
        let dir = folder.path().join(name);
        fs::create_dir(&dir).unwrap();
        let share = rows.num_rows().div_ceil(files);
        for file in 0..files {
            let from = file * share;
            let rows = rows.slice(from, share.min(rows.num_rows() - from));
            write(&dir.join(format!("{file}.parquet")), &rows, 4096);
        }
    };
    let all = |batches: &mut dyn Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>>| {
        batches.collect::<Result<Vec<_>, _>>().unwrap()
    };
    table("customer", all(&mut CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1))), None, 1);
    table("lineitem", all(&mut LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1))), Some("l_shipdate"), 3);
    table("nation", all(&mut NationArrow::new(NationGenerator::new(SCALE, 1, 1))), None, 1);
    table("orders", all(&mut OrderArrow::new(OrderGenerator::new(SCALE, 1, 1))), Some("o_orderdate"), 2);
    table("part", all(&mut PartArrow::new(PartGenerator::new(SCALE, 1, 1))), None, 1);
    table("partsupp", all(&mut PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1))), None, 2);
    table("region", all(&mut RegionArrow::new(RegionGenerator::new(SCALE, 1, 1))), None, 1);
    table("supplier", all(&mut SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1))), None, 1);
    // A file without rows, as writers leave behind.
    let lineitem = folder.path().join("lineitem");
    let schema = tpchgen_arrow::LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1)).next().unwrap().unwrap();
    write(&lineitem.join("3.parquet"), &schema.slice(0, 0), 4096);
    folder
}

/// Writes one file, with pages of about 500 rows and their index.
pub(crate) fn write(path: &Path, rows: &RecordBatch, row_group: usize) {
    write_pages(path, rows, row_group, 500);
}

/// The same with pages of about `page` rows.
pub(crate) fn write_pages(path: &Path, rows: &RecordBatch, row_group: usize, page: usize) {
    write_encoded(path, rows, row_group, page, true);
}

/// The same, with dictionaries or without.
pub(crate) fn write_encoded(path: &Path, rows: &RecordBatch, row_group: usize, page: usize, dictionaries: bool) {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(dictionaries)
        .set_max_row_group_row_count(Some(row_group))
        .set_data_page_row_count_limit(page)
        .set_write_batch_size(page / 2)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    // In pieces, because the writer calls itself for each row group that it begins.
    for from in (0..rows.num_rows()).step_by(row_group) {
        writer.write(&rows.slice(from, row_group.min(rows.num_rows() - from))).unwrap();
    }
    writer.close().unwrap();
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
