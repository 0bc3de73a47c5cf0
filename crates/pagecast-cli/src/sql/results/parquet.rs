//! A result as a Parquet file, row group by row group.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::config::ConfigOptions;
use parquet::arrow::ArrowWriter;

use super::{Out, Rows, fault};

/// Writes rows into a Parquet file, as `SET datafusion.execution.parquet...` says.
pub(super) struct File<'a>(ArrowWriter<Out<'a>>);

impl<'a> File<'a> {
    pub(super) fn create(out: Out<'a>, schema: &SchemaRef, config: &ConfigOptions) -> anyhow::Result<Self> {
        let properties = config.execution.parquet.into_writer_properties_builder()?.build();
        Ok(Self(ArrowWriter::try_new(out, schema.clone(), Some(properties))?))
    }
}

impl Rows for File<'_> {
    fn write(&mut self, batch: &RecordBatch) -> std::io::Result<()> {
        self.0.write(batch).map_err(fault)
    }

    fn finish(self: Box<Self>) -> std::io::Result<()> {
        self.0.close().map(drop).map_err(fault)
    }
}
