//! Columns of Parquet files whose Arrow types lose or hide values.
//!
//! * A dictionary's type comes from the writer's own notes (`ARROW:schema`). The codes of a pandas
//!   `Categorical` have 8 bits, and the values of two row groups or files need more. Such columns
//!   are read as their values.
//! * A zone is how the writer saw moments. A session sees them in UTC.
//! * ENUM is read as bytes; the format's specification calls it a text where there are no enums.
//! * UUID is read as 16 bytes, and nothing tells it from other bytes. It gets Arrow's mark. An
//!   [interval](crate::intervals) loses its months, and gets one of ours.
//! * Of two columns of one name the second is never found. It becomes `name_1`, as in DuckDB.
//!
//! Needed for arrow-rs 59. The first part goes when readers widen codes, the second and third when
//! arrow-rs reads the annotations (its feature of canonical types does so for UUID).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema, parquet_to_arrow_schema};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::errors::Result;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use crate::statistics::believed;
use crate::{intervals, uuid};

/// A footer as it should be read, and [believed](crate::statistics).
///
/// # Errors
/// A row group has another number of columns than the file.
pub fn read(footer: ParquetMetaData) -> Result<ParquetMetaData> {
    // A schema that is none is for those who ask for a column.
    let corrected = corrected(&footer).ok().flatten();
    believed(corrected.unwrap_or(footer))
}

/// The footer as it should be read; nothing if that is how it is.
///
/// # Errors
/// Its schema is none.
pub(crate) fn corrected(footer: &ParquetMetaData) -> Result<Option<ParquetMetaData>> {
    let of_file = footer.file_metadata();
    let parquet = match Names::default().apart(of_file.schema_descr().root_schema()) {
        Some(root) => Arc::new(SchemaDescriptor::new(Arc::new(root))),
        None => of_file.schema_descr_ptr(),
    };
    let mut notes = of_file.key_value_metadata().cloned();
    if let Some(renamed) = renamed(of_file, &parquet)? {
        notes = Some(noted(notes, &renamed));
    }
    let arrow = parquet_to_arrow_schema(&parquet, notes.as_ref())?;
    let fields = corrected_fields(arrow.fields(), of_file.schema_descr().root_schema().get_fields());
    if fields == *arrow.fields() && Arc::ptr_eq(&parquet, &of_file.schema_descr_ptr()) {
        return Ok(None);
    }
    // What is not in the writer's notes would come back as it was.
    let notes = noted(notes, &Schema::new_with_metadata(fields, arrow.metadata));
    let of_file = FileMetaData::new(
        of_file.version(),
        of_file.num_rows(),
        of_file.created_by().map(str::to_owned),
        Some(notes),
        parquet,
        of_file.column_orders().cloned(),
    );
    let new = ParquetMetaDataBuilder::new(of_file).set_row_groups(footer.row_groups().to_vec());
    let new = new.set_column_index(footer.column_index().cloned()).set_offset_index(footer.offset_index().cloned());
    Ok(Some(new.build()))
}

/// The columns by their new names; nothing if they have those. The writer's notes have the old.
fn renamed(of_file: &FileMetaData, parquet: &SchemaDescriptor) -> Result<Option<Schema>> {
    let (old, new) = (of_file.schema_descr().root_schema().get_fields(), parquet.root_schema().get_fields());
    if old.iter().zip(new).all(|(old, new)| old.name() == new.name()) {
        return Ok(None);
    }
    let arrow = parquet_to_arrow_schema(of_file.schema_descr(), of_file.key_value_metadata())?;
    let fields = arrow.fields().iter().zip(new);
    let fields: Fields = fields.map(|(field, new)| field.as_ref().clone().with_name(new.name())).collect();
    Ok(Some(Schema::new_with_metadata(fields, arrow.metadata)))
}

/// A writer's notes, with these columns.
fn noted(notes: Option<Vec<KeyValue>>, columns: &Schema) -> Vec<KeyValue> {
    let mut notes = notes.unwrap_or_default();
    notes.retain(|note| note.key != ARROW_SCHEMA_META_KEY);
    notes.push(KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(columns)));
    notes
}

/// Names of columns, of which each is one column's.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    /// The schema with names that are each one column's, and ENUM as STRING; nothing if it is so.
    fn apart(mut self, root: &Type) -> Option<Type> {
        self.0.extend(root.get_fields().iter().map(|field| field.name().to_owned()));
        let (mut seen, mut changed) = (HashSet::new(), false);
        let fields = root.get_fields().iter().map(|field| {
            let name = if seen.insert(field.name()) { field.name().to_owned() } else { self.new_one(field.name()) };
            let new = texts(field, &name);
            changed |= new.is_some();
            new.map_or_else(|| Arc::clone(field), Arc::new)
        });
        let fields: Vec<TypePtr> = fields.collect();
        let new = || Type::group_type_builder(root.name()).with_fields(fields).build().ok();
        if changed { new() } else { None }
    }

    fn new_one(&mut self, name: &str) -> String {
        let mut numbers = 1..;
        loop {
            let new = format!("{name}_{}", numbers.next().unwrap_or(u64::MAX));
            if self.0.insert(new.clone()) {
                return new;
            }
        }
    }
}

/// A column by this name, in which ENUM is STRING and INTERVAL is its bytes; nothing if it is so
/// already.
fn texts(column: &Type, name: &str) -> Option<Type> {
    let info = column.get_basic_info();
    let is_enum = info.logical_type_ref() == Some(&LogicalType::Enum) || info.converted_type() == ConvertedType::ENUM;
    let parts: Vec<Option<Type>> = match column.is_group() {
        true => column.get_fields().iter().map(|part| texts(part, part.name())).collect(),
        false => Vec::new(),
    };
    let is_interval = info.converted_type() == ConvertedType::INTERVAL;
    if !is_enum && !is_interval && name == column.name() && parts.iter().all(Option::is_none) {
        return None;
    }
    let (id, logical) = (info.has_id().then(|| info.id()), info.logical_type_ref().cloned());
    if column.is_group() {
        let parts = parts.into_iter().zip(column.get_fields());
        let parts = parts.map(|(new, part)| new.map_or_else(|| Arc::clone(part), Arc::new)).collect();
        let group = Type::group_type_builder(name).with_fields(parts).with_id(id).with_logical_type(logical);
        let group = group.with_converted_type(info.converted_type());
        return if info.has_repetition() { group.with_repetition(info.repetition()) } else { group }.build().ok();
    }
    let (logical, converted) = match () {
        () if is_enum => (Some(LogicalType::String), ConvertedType::UTF8),
        () if is_interval => (None, ConvertedType::NONE),
        () => (logical, info.converted_type()),
    };
    let Type::PrimitiveType { physical_type, type_length, scale, precision, .. } = column else { return None };
    let leaf = Type::primitive_type_builder(name, *physical_type).with_repetition(info.repetition()).with_id(id);
    let leaf = leaf.with_length(*type_length).with_scale(*scale).with_precision(*precision);
    leaf.with_logical_type(logical).with_converted_type(converted).build().ok()
}

/// The columns without dictionaries, and with UUIDs marked.
fn corrected_fields(fields: &Fields, in_file: &[TypePtr]) -> Fields {
    fields.iter().enumerate().map(|(at, field)| corrected_field(field, in_file.get(at))).collect()
}

fn corrected_field(field: &FieldRef, in_file: Option<&TypePtr>) -> FieldRef {
    let kind = corrected_kind(field.data_type(), in_file);
    let info = in_file.map(|column| column.get_basic_info());
    let mark = match kind {
        DataType::FixedSizeBinary(16) if !uuid::is_in_file(field) => {
            info.filter(|info| info.logical_type_ref() == Some(&LogicalType::Uuid)).map(|_| uuid::EXTENSION)
        }
        DataType::FixedSizeBinary(12) if !intervals::is_in_file(field) => {
            info.filter(|info| info.converted_type() == ConvertedType::INTERVAL).map(|_| intervals::MARK)
        }
        _ => None,
    };
    if mark.is_none() && kind == *field.data_type() {
        return Arc::clone(field);
    }
    let mut notes = field.metadata().clone();
    notes.extend(mark.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Arc::new(Field::new(field.name(), kind, field.is_nullable()).with_metadata(notes))
}

fn corrected_kind(kind: &DataType, in_file: Option<&TypePtr>) -> DataType {
    let element = |element: &FieldRef| corrected_field(element, in_file.map(element_of));
    match kind {
        DataType::Dictionary(_, values) => corrected_kind(values, in_file),
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("UTC".into())),
        DataType::Struct(fields) => {
            let parts = in_file.filter(|column| column.is_group()).map_or(&[][..], |column| column.get_fields());
            DataType::Struct(corrected_fields(fields, parts))
        }
        DataType::List(part) => DataType::List(element(part)),
        DataType::LargeList(part) => DataType::LargeList(element(part)),
        DataType::FixedSizeList(part, len) => DataType::FixedSizeList(element(part), *len),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return kind.clone() };
            let pair = corrected_fields(pair, in_file.map_or(&[], |column| innermost(column).get_fields()));
            DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(DataType::Struct(pair))), *sorted)
        }
        _ => kind.clone(),
    }
}

/// The group in which a map has its keys and values, or a list its elements.
fn innermost(column: &TypePtr) -> &TypePtr {
    match column.is_group() {
        true => column.get_fields().first().filter(|inner| inner.is_group()).unwrap_or(column),
        false => column,
    }
}

/// What the elements of a list are: lists of three levels have a group between.
fn element_of(list: &TypePtr) -> &TypePtr {
    let is_list = list.get_basic_info().logical_type_ref() == Some(&LogicalType::List)
        || list.get_basic_info().converted_type() == ConvertedType::LIST;
    let repeated = match list.is_group() && is_list {
        true => list.get_fields().first().unwrap_or(list),
        false => list,
    };
    match repeated.is_group() && repeated.get_fields().len() == 1 && is_list {
        true => &repeated.get_fields()[0],
        false => repeated,
    }
}
