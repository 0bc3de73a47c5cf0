//! The columns of a table, now and before, and as each of its files has them.

use std::collections::BTreeMap;

use datafusion::common::ScalarValue;
use iceberg::spec::{NameMapping, NestedField, NestedFieldRef, PrimitiveLiteral, Schema};
use pagecast_tables::TableColumns;

use crate::columns::{arrow_type, columns, scalar};
use crate::error::{IcebergError, Result};
use crate::metadata::Metadata;

/// The columns of a table, now and before.
#[derive(Debug)]
pub(crate) struct Schemas {
    pub(crate) current: Vec<NestedFieldRef>,
    /// Columns that are in no newer schema.
    gone: BTreeMap<i32, NestedFieldRef>,
    names: Option<NameMapping>,
}

impl Schemas {
    pub(crate) fn of(metadata: &Metadata, schema: &Schema) -> Self {
        let mut older: Vec<_> = metadata.table.schemas_iter().collect();
        older.sort_by_key(|schema| schema.schema_id());
        let fields = |schema: &Schema| schema.as_struct().fields().to_vec();
        let gone = older.into_iter().flat_map(|schema| fields(schema)).map(|field| (field.id, field)).collect();
        Self { current: fields(schema), gone, names: metadata.names.clone() }
    }

    /// A column that is, or was, part of no other.
    pub(crate) fn column(&self, id: i32) -> Option<NestedFieldRef> {
        self.current.iter().find(|field| field.id == id).or_else(|| self.gone.get(&id)).cloned()
    }

    /// Columns of a file that has these constants, and the values of those that are constant.
    pub(crate) fn of_file(
        &self,
        at: &str,
        fields: &[&NestedField],
        constants: &[(i32, Option<PrimitiveLiteral>)],
    ) -> Result<(TableColumns, Vec<ScalarValue>)> {
        let ids: Vec<i32> = constants.iter().map(|(id, _)| *id).collect();
        let columns = columns(at, fields, self.names.as_ref(), &ids)?;
        let value = |field: &&&NestedField| {
            let (_, value) = constants.iter().find(|(id, _)| *id == field.id)?;
            let broken = |fault: String| IcebergError::broken(at, fault);
            let of_kind = || {
                let kind = arrow_type(&field.field_type).map_err(broken)?;
                let Some(value) = value else { return Ok(ScalarValue::try_from(&kind)?) };
                let none = || broken(format!("{value:?} is no value of partition column {}", field.name));
                scalar(value, &kind).ok_or_else(none)
            };
            Some(of_kind())
        };
        let values = fields.iter().filter_map(|field| value(&field)).collect::<Result<_>>()?;
        Ok((columns, values))
    }
}
