//! The eight tables, a Parquet file each, rows in the order of their keys as dbgen writes them.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use indicatif::ProgressBar;
use parquet::arrow::ArrowWriter;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::bench::generated;

/// Raised when the same parameters give other files.
const VERSION: u32 = 1;

/// The folder with the tables at scale factor `scale`.
pub(in crate::bench) fn folder(scale: f64) -> anyhow::Result<PathBuf> {
    generated::folder(&format!("tpch-sf{scale}-rg128Ki-snappy-v{VERSION}"), |folder| write(scale, folder))
}

type Batches<'a> = dyn Iterator<Item = Result<RecordBatch, ArrowError>> + 'a;

/// Generates and writes the tables.
fn write(scale: f64, folder: &Path) -> anyhow::Result<()> {
    let bar = generated::bar((scale * 8_661_245.0) as u64);
    let table = |name: &'static str, batches: &mut Batches<'_>| -> anyhow::Result<()> {
        bar.set_message(format!("writing {name}"));
        one(&folder.join(format!("{name}.parquet")), batches, &bar)
    };
    table("region", &mut RegionArrow::new(RegionGenerator::new(scale, 1, 1)))?;
    table("nation", &mut NationArrow::new(NationGenerator::new(scale, 1, 1)))?;
    table("supplier", &mut SupplierArrow::new(SupplierGenerator::new(scale, 1, 1)))?;
    table("part", &mut PartArrow::new(PartGenerator::new(scale, 1, 1)))?;
    table("partsupp", &mut PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1)))?;
    table("customer", &mut CustomerArrow::new(CustomerGenerator::new(scale, 1, 1)))?;
    table("orders", &mut OrderArrow::new(OrderGenerator::new(scale, 1, 1)))?;
    table("lineitem", &mut LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)))?;
    bar.finish_and_clear();
    Ok(())
}

fn one(path: &Path, batches: &mut Batches<'_>, bar: &ProgressBar) -> anyhow::Result<()> {
    let mut batches = batches.peekable();
    let Some(Ok(first)) = batches.peek() else { anyhow::bail!("{}: the generator gave no rows", path.display()) };
    let mut writer = ArrowWriter::try_new(File::create(path)?, first.schema(), Some(generated::properties()))?;
    for batch in batches {
        let batch = batch?;
        bar.inc(batch.num_rows() as u64);
        writer.write(&batch)?;
    }
    writer.into_inner()?.sync_all()?;
    Ok(())
}
