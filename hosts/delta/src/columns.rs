//! The columns of a table: what queries name, and what its files have.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use delta_kernel::engine::arrow_conversion::TryFromKernel;
use delta_kernel::schema::{DataType as KernelType, StructType};
use delta_kernel::snapshot::Snapshot;
use delta_kernel::table_features::ColumnMappingMode;
use pagecast_tables::{Column, TableColumns, as_type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::{DeltaError, Result};

/// The columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// As queries name them, and how files have them.
    pub(crate) table: TableColumns,
    /// In the table's order, by the names that they have in the log and in files.
    stored: SchemaRef,
    /// Those of them that are in the files.
    pub(crate) in_files: SchemaRef,
    /// The same with the ids that files have of them, where columns are mapped.
    pub(crate) written: SchemaRef,
    /// How files have those of them.
    pub(crate) found_as: Vec<Column>,
    /// Those whose values are in the log.
    pub(crate) partitions: Fields,
    /// In the table's order, with the parts that may not be NULL.
    required: SchemaRef,
}

impl Columns {
    pub(crate) fn of(root: &Path, table: &Snapshot) -> Result<Self> {
        let table = table.table_configuration();
        let (required, with_ids) = (arrow(root, &table.logical_schema())?, arrow(root, &table.physical_schema())?);
        let (all, stored) = (plain_all(&required, false), plain_all(&with_ids, false));
        let names = table.logical_partition_columns();
        let inside = |stored: &Schema| -> SchemaRef {
            let pairs = all.fields().iter().zip(stored.fields());
            let pairs = pairs.filter(|(field, _)| !names.contains(field.name()));
            Arc::new(Schema::new(pairs.map(|(_, stored)| Arc::clone(stored)).collect::<Fields>()))
        };
        let (in_files, written) = (inside(&stored), inside(&plain_all(&with_ids, true)));
        let partition = |name: &String| {
            let stored = all.fields().find(name).map(|(place, _)| Arc::clone(&stored.fields()[place]));
            stored.ok_or_else(|| {
                DeltaError::broken(root, None, format!("the log names a partition column that is none: {name}"))
            })
        };
        let partitions = names.iter().map(partition).collect::<Result<_>>()?;
        let mapped = all != stored;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut columns = TableColumns::new(Arc::new(all), &names)?;
        let by_id = table.table_properties().column_mapping_mode == Some(ColumnMappingMode::Id);
        let fields = if by_id { &written } else { &in_files };
        let found_as: Vec<_> = fields.fields().iter().map(|field| Column::of_field(field)).collect();
        if mapped {
            columns = columns.found_as(found_as.clone());
        }
        let (stored, required) = (Arc::new(stored), Arc::new(required));
        Ok(Self { table: columns, stored, in_files, written, found_as, partitions, required })
    }

    /// As queries name them, in the table's order.
    pub(crate) fn all(&self) -> &SchemaRef {
        self.table.all()
    }

    /// The first column, or part of one, that is NULL in one of these rows and may not be.
    pub(crate) fn missing(&self, rows: &RecordBatch) -> Option<String> {
        let columns = self.required.fields().iter().zip(rows.columns());
        columns.into_iter().find_map(|(field, values)| missing(field, values, None))
    }

    /// Rows of a file as those of the columns in files.
    pub(crate) fn of_file(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let rows: ArrayRef = Arc::new(StructArray::from(rows));
        let rows = as_type(&rows, &DataType::Struct(self.in_files.fields().clone()), &self.found_as)?;
        Ok(RecordBatch::from(rows.as_struct()))
    }

    /// Rows of all columns by the names that these have in the log and in files.
    pub(crate) fn to_stored(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = rows.columns().iter().zip(rows.schema_ref().fields()).zip(self.stored.fields());
        let stored = |((column, field), stored): ((_, &FieldRef), &FieldRef)| {
            Ok(as_type(column, stored.data_type(), &Column::of_field(field).parts)?)
        };
        let columns = columns.map(stored).collect::<Result<_>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.stored), columns).map_err(DataFusionError::from)?)
    }
}

/// The name of what is NULL in `values`, where what it is part of is not, and may not be.
fn missing(field: &Field, values: &ArrayRef, above: Option<&NullBuffer>) -> Option<String> {
    let is_missing = |nulls: &NullBuffer| {
        (0..nulls.len()).any(|row| nulls.is_null(row) && above.is_none_or(|above| above.is_valid(row)))
    };
    if !field.is_nullable() && values.nulls().is_some_and(is_missing) {
        return Some(field.name().clone());
    }
    let (DataType::Struct(fields), Some(parts)) = (field.data_type(), values.as_struct_opt()) else { return None };
    let nulls = NullBuffer::union(above, values.nulls());
    let part = fields.iter().zip(parts.columns()).find_map(|(field, part)| missing(field, part, nulls.as_ref()))?;
    Some(format!("{}.{part}", field.name()))
}

fn arrow(root: &Path, schema: &StructType) -> Result<Schema> {
    if let Some(field) = schema.fields().find(|field| has_variant(field.data_type())) {
        let feature = format!("variantType (column {})", field.name());
        return Err(DeltaError::Feature { path: root.to_owned(), what: "its readers must know", feature });
    }
    Schema::try_from_kernel(schema)
        .map_err(|error| DeltaError::broken(root, None, format!("the schema in the log makes no sense ({error})")))
}

fn has_variant(kind: &KernelType) -> bool {
    match kind {
        KernelType::Variant(_) => true,
        KernelType::Struct(fields) => fields.fields().any(|field| has_variant(field.data_type())),
        KernelType::Array(list) => has_variant(list.element_type()),
        KernelType::Map(map) => has_variant(map.key_type()) || has_variant(map.value_type()),
        KernelType::Primitive(_) => false,
    }
}

/// The columns without what the log notes beside them, but for the ids that files have of them. Files
/// of other writers may say that parts can be NULL which cannot.
fn plain_all(schema: &Schema, ids: bool) -> Schema {
    Schema::new(schema.fields().iter().map(|field| plain(field, ids)).collect::<Fields>())
}

fn plain(field: &FieldRef, ids: bool) -> FieldRef {
    let part = |field| Arc::new(plain(field, ids).as_ref().clone().with_nullable(true));
    let kind = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        DataType::List(element) => DataType::List(part(element)),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return Arc::clone(field) };
            let pair = pair.iter().map(|field| if field.is_nullable() { part(field) } else { plain(field, ids) });
            let pair = Field::new(entries.name(), DataType::Struct(pair.collect()), false);
            DataType::Map(Arc::new(pair), *sorted)
        }
        other => other.clone(),
    };
    let id = field.metadata().get_key_value(PARQUET_FIELD_ID_META_KEY).filter(|_| ids);
    let id = id.map(|(key, id)| (key.clone(), id.clone()));
    Arc::new(Field::new(field.name(), kind, field.is_nullable()).with_metadata(id.into_iter().collect()))
}
