//! Expressions over columns of the table, in terms of the columns of a file. What reads, prunes or
//! filters a file asks this, and so never confuses columns that have changed their names.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory, replace_columns_with_literals,
};

use pagecast_corrections::{compares, uuid};

use crate::columns::Column;
use crate::nested::AsInTable;

/// Finds columns by their ids, or by names that files have for them.
#[derive(Clone, Debug)]
pub(crate) struct ByFoundColumns {
    in_files: SchemaRef,
    found_as: Arc<[Column]>,
}

impl ByFoundColumns {
    /// `found_as` are the columns `in_files`, in their order.
    pub(crate) fn new(in_files: SchemaRef, found_as: Arc<[Column]>) -> Self {
        Self { in_files, found_as }
    }
}

impl PhysicalExprAdapterFactory for ByFoundColumns {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let mut defaults = HashMap::new();
        let mut nested = HashMap::new();
        // What is no column of the table has a name that none has, unless it is made while reading.
        let is_made = |name: &str| logical.index_of(name).is_ok() && self.in_files.index_of(name).is_err();
        let unnamed = |(at, field): (usize, &FieldRef)| match is_made(field.name()) {
            true => field.as_ref().clone(),
            false => field.as_ref().clone().with_name(format!("\0{at}")),
        };
        let mut known: Vec<Field> = physical.fields().iter().enumerate().map(unnamed).collect();
        for (number, (field, column)) in self.in_files.fields().iter().zip(self.found_as.iter()).enumerate() {
            let Some(place) = column.place(physical.fields()) else {
                if let Some(value) = &column.default {
                    defaults.insert(field.name().clone(), value.cast_to(field.data_type())?);
                }
                continue;
            };
            let stored = physical.field(place);
            let mut kind = stored.data_type();
            let is_made = is_nested(field.data_type())
                || uuid::is_text(field) && *kind == DataType::FixedSizeBinary(16)
                || matches!(field.data_type(), DataType::Interval(_)) && *kind == DataType::FixedSizeBinary(12);
            if is_made && kind != field.data_type() {
                kind = field.data_type();
                nested.insert(place, number);
            }
            known[place] = Field::new(field.name(), kind.clone(), stored.is_nullable());
        }
        let known = Arc::new(Schema::new(known));
        let by_name = DefaultPhysicalExprAdapterFactory.create(logical, known)?;
        Ok(Arc::new(OfFile { columns: self.clone(), physical, defaults, nested, by_name }))
    }
}

fn is_nested(kind: &DataType) -> bool {
    matches!(kind, DataType::Struct(_) | DataType::List(_) | DataType::Map(..))
}

/// A column of UUIDs beside a text as bytes beside bytes, of which bounds in files are.
fn in_bytes(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let compared = expr.downcast_ref::<expressions::BinaryExpr>().filter(|compared| compares(*compared.op()))?;
    // What may be NULL in the table and not in the file is cast, to the same type.
    let cast = compared.left().downcast_ref::<expressions::CastExpr>();
    let column = cast.map_or(compared.left(), |cast| cast.expr());
    let column = column.downcast_ref::<AsInTable>().filter(|column| uuid::is_text(&column.to))?;
    let text = compared.right().downcast_ref::<expressions::Literal>()?.value().try_as_str()??;
    let bytes = uuid::parsed(text).filter(|bytes| uuid::text(bytes) == text)?;
    let bytes = expressions::lit(ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())));
    Some(Arc::new(expressions::BinaryExpr::new(Arc::clone(&column.column), *compared.op(), bytes)))
}

/// For one file.
#[derive(Debug)]
struct OfFile {
    columns: ByFoundColumns,
    physical: SchemaRef,
    /// Values of columns that the file lacks.
    defaults: HashMap<String, ScalarValue>,
    /// Which columns of the file are made into nested ones, UUIDs or intervals of the table, and
    /// into which.
    nested: HashMap<usize, usize>,
    /// DataFusion's, over the file's columns by the names that the table has for them.
    by_name: Arc<dyn PhysicalExprAdapter>,
}

impl PhysicalExprAdapter for OfFile {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = self.by_name.rewrite(replace_columns_with_literals(expr, &self.defaults)?)?;
        let in_file = |expr| {
            self.in_file(&expr).or_else(|| in_bytes(&expr)).map_or_else(|| Transformed::no(expr), Transformed::yes)
        };
        expr.transform_up(|expr| Ok(in_file(expr))).data()
    }
}

impl OfFile {
    /// A column by the file's own name.
    fn in_file(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let place = expr.downcast_ref::<expressions::Column>()?.index();
        let name = self.physical.fields().get(place)?.name();
        let column: Arc<dyn PhysicalExpr> = Arc::new(expressions::Column::new(name, place));
        let Some(&number) = self.nested.get(&place) else { return Some(column) };
        let to = Arc::clone(&self.columns.in_files.fields()[number]);
        Some(Arc::new(AsInTable { column, to, found_as: (Arc::clone(&self.columns.found_as), number) }))
    }
}
