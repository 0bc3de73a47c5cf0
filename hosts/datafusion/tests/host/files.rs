//! TPC-H at scale factor 0.01 in Parquet files, in row groups and pages small enough that there is
//! much to prune. Tests of other hosts write them, too.

use std::fs::{self, File};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
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

/// Writes a folder that holds one folder per table, with `row_group` rows in each row group.
pub(crate) fn generate(row_group: usize) -> TempDir {
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
            write(&dir.join(format!("{file}.parquet")), &rows, row_group);
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
    write(&lineitem.join("3.parquet"), &schema.slice(0, 0), row_group);
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
