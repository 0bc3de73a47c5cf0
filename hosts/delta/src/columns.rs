//! The columns of a table: what queries name, and what its files have.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use delta_kernel::engine::arrow_conversion::TryFromKernel;
use delta_kernel::schema::{DataType as KernelType, StructType};
use delta_kernel::snapshot::Snapshot;

use crate::error::{DeltaError, Result};

/// The columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// In the table's order.
    pub(crate) all: SchemaRef,
    /// Those that are in the files, by the names that they have there.
    pub(crate) in_files: SchemaRef,
    /// Those whose values are in the log, by the names that they have there.
    pub(crate) partitions: Fields,
    /// Where each is among those of the files and, behind them, the partition columns.
    pub(crate) places: Vec<usize>,
    /// Whether these are other names than those of queries.
    pub(crate) mapped: bool,
}

impl Columns {
    pub(crate) fn of(root: &Path, table: &Snapshot) -> Result<Self> {
        let table = table.table_configuration();
        let (all, stored) = (arrow(root, &table.logical_schema())?, arrow(root, &table.physical_schema())?);
        let names = table.logical_partition_columns();
        let is_partition = |field: &FieldRef| names.contains(field.name());
        let pairs = || all.fields().iter().zip(stored.fields());
        let in_files: Fields =
            pairs().filter(|(field, _)| !is_partition(field)).map(|(_, stored)| Arc::clone(stored)).collect();
        let partition = |name: &String| {
            let stored = pairs().find(|(field, _)| field.name() == name).map(|(_, stored)| Arc::clone(stored));
            stored.ok_or_else(|| {
                DeltaError::broken(root, None, format!("the log names a partition column that is none: {name}"))
            })
        };
        let partitions = names.iter().map(partition).collect::<Result<_>>()?;
        let mut next = 0..;
        let place = |field: &FieldRef| match names.iter().position(|name| name == field.name()) {
            Some(partition) => in_files.len() + partition,
            None => next.next().unwrap_or_default(),
        };
        let places = all.fields().iter().map(place).collect();
        let mapped = pairs().any(|(field, stored)| field != stored);
        Ok(Self { all: Arc::new(all), in_files: Arc::new(Schema::new(in_files)), partitions, places, mapped })
    }
}

fn arrow(root: &Path, schema: &StructType) -> Result<Schema> {
    if let Some(field) = schema.fields().find(|field| has_variant(field.data_type())) {
        let feature = format!("variantType (column {})", field.name());
        return Err(DeltaError::Feature { path: root.to_owned(), what: "its readers must know", feature });
    }
    let schema = Schema::try_from_kernel(schema)
        .map_err(|error| DeltaError::broken(root, None, format!("the schema in the log makes no sense ({error})")))?;
    Ok(Schema::new(schema.fields().iter().map(plain).collect::<Fields>()))
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

/// The column without what the log notes beside it, which queries do not see.
fn plain(field: &FieldRef) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::List(element) => DataType::List(plain(element)),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries), *sorted),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), kind, field.is_nullable()))
}
