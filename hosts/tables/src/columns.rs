//! Columns as queries name them, and how files have them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

/// The columns of a table.
#[derive(Clone, Debug)]
pub struct TableColumns {
    all: SchemaRef,
    in_files: SchemaRef,
    partitions: Fields,
    /// Where each of `all` is among those of the files and, behind them, the partition columns.
    places: Vec<usize>,
    found_as: Option<Arc<[Column]>>,
}

/// How files have a column, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The id that files have of it. Where a file has ids, names do not matter.
    pub id: Option<i32>,
    /// Names of it in files without ids.
    pub names: Vec<String>,
    /// What its rows have in a file that lacks it; without it NULL.
    pub default: Option<ScalarValue>,
    /// Of its parts: fields of a struct, the element of a list, key and value of a map.
    pub parts: Vec<Column>,
}

impl Column {
    /// A column without parts of which files have this name.
    pub fn named(name: &str) -> Self {
        Self { names: vec![name.to_owned()], ..Self::default() }
    }

    /// A column without parts of which files have this id.
    pub fn with_id(id: i32) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// The column that this field describes: its name, the id in its metadata, its parts.
    pub fn of_field(field: &Field) -> Self {
        let id = id_of(field);
        let parts = parts_of(field.data_type()).iter().map(|part| Self::of_field(part)).collect();
        Self { id, names: vec![field.name().clone()], default: None, parts }
    }

    /// Where this column is among those of a file.
    pub(crate) fn place(&self, fields: &Fields) -> Option<usize> {
        if let Some(id) = self.id
            && fields.iter().any(|field| id_of(field).is_some())
        {
            return fields.iter().position(|field| id_of(field) == Some(id));
        }
        self.names.iter().find_map(|name| fields.iter().position(|field| field.name() == name))
    }
}

/// The id of a column in a file.
fn id_of(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// The parts of a nested type.
pub fn parts_of(kind: &DataType) -> Fields {
    match kind {
        DataType::Struct(fields) => fields.clone(),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            Fields::from(vec![Arc::clone(element)])
        }
        DataType::Map(entries, _) => parts_of(entries.data_type()),
        _ => Fields::empty(),
    }
}

/// Texts and bytes are read as views, as DataFusion reads those of folders: taking out rows copies
/// 16 bytes of each, whatever its length.
fn as_view(field: &FieldRef) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

impl TableColumns {
    /// Columns that files have by the same names; texts and bytes become views. The values of those
    /// that `partitions` names are not in files, but known of each.
    ///
    /// # Errors
    /// A partition column is none of the table's.
    pub fn new(all: SchemaRef, partitions: &[&str]) -> Result<Self> {
        let as_views: Fields = all.fields().iter().map(as_view).collect();
        let all = Arc::new(Schema::new_with_metadata(as_views, all.metadata().clone()));
        let column = |name: &&str| match all.fields().find(name) {
            Some((_, field)) => Ok(Arc::clone(field)),
            None => plan_err!("partition column {name} is no column of the table"),
        };
        let of_files = |field: &&FieldRef| !partitions.contains(&field.name().as_str());
        let in_files: Fields = all.fields().iter().filter(of_files).cloned().collect();
        let mut next = 0..;
        let place = |field: &FieldRef| match partitions.iter().position(|name| name == field.name()) {
            Some(partition) => in_files.len() + partition,
            None => next.next().unwrap_or_default(),
        };
        let places = all.fields().iter().map(place).collect();
        let partitions = partitions.iter().map(column).collect::<Result<_>>()?;
        Ok(Self { in_files: Arc::new(Schema::new(in_files)), partitions, places, found_as: None, all })
    }

    /// The same columns, which files have as these, in the order of [`TableColumns::in_files`].
    pub fn found_as(self, columns: Vec<Column>) -> Self {
        Self { found_as: Some(columns.into()), ..self }
    }

    /// All of them, in the table's order.
    pub fn all(&self) -> &SchemaRef {
        &self.all
    }

    /// Those that files have.
    pub fn in_files(&self) -> &SchemaRef {
        &self.in_files
    }

    /// Those whose values are known of each file.
    pub fn partitions(&self) -> &Fields {
        &self.partitions
    }

    /// Those that files have, and the partition columns behind them.
    pub(crate) fn with_partitions(&self) -> Schema {
        Schema::new(self.in_files.fields().iter().chain(&self.partitions).cloned().collect::<Fields>())
    }

    /// How files have those of [`TableColumns::in_files`], if not by their names.
    pub(crate) fn in_other_names(&self) -> Option<&Arc<[Column]>> {
        self.found_as.as_ref()
    }

    /// Where columns of the table are among those that the scan of files gives.
    pub(crate) fn scanned(&self, columns: &[usize]) -> Result<Vec<usize>> {
        let place = |&column: &usize| self.places.get(column).copied();
        let places: Option<Vec<usize>> = columns.iter().map(place).collect();
        places.ok_or_else(|| DataFusionError::Internal("a scan of columns that the table lacks".to_owned()))
    }
}
