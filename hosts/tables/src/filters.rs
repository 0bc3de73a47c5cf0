//! Files of which no row is asked for, by their values of the partition columns.

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{Fields, Schema};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::logical_expr::Expr;

/// Whether a filter asks for nothing but these columns, of which there are some.
pub fn is_of_keys(filter: &Expr, keys: &[impl AsRef<str>]) -> bool {
    let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
    !keys.is_empty() && expr_applicable_for_cols(&keys, filter)
}

/// For each of these files, by its values of the columns: whether all filters that ask for nothing
/// else hold. A filter that is NULL does not.
pub(crate) fn matching<'a>(
    state: &dyn Session,
    columns: &Fields,
    values: impl ExactSizeIterator<Item = &'a [ScalarValue]> + Clone,
    filters: &[Expr],
) -> Result<Vec<bool>> {
    let mut matches = vec![true; values.len()];
    let names: Vec<&str> = columns.iter().map(|column| column.name().as_str()).collect();
    let mut filters = filters.iter().filter(|filter| is_of_keys(filter, &names)).peekable();
    if matches.is_empty() || filters.peek().is_none() {
        return Ok(matches);
    }
    let arrays = (0..columns.len()).map(|i| ScalarValue::iter_to_array(values.clone().map(|of| of[i].clone())));
    let nullable = columns.iter().map(|column| column.as_ref().clone().with_nullable(true));
    let rows = RecordBatch::try_new(Schema::new(nullable.collect::<Vec<_>>()).into(), arrays.collect::<Result<_>>()?)?;
    let schema = DFSchema::try_from(rows.schema())?;
    for filter in filters {
        let holds =
            state.create_physical_expr(filter.clone(), &schema)?.evaluate(&rows)?.into_array(rows.num_rows())?;
        let holds: &BooleanArray = holds.as_boolean();
        for (file, holds) in matches.iter_mut().zip(holds) {
            *file &= holds == Some(true);
        }
    }
    Ok(matches)
}
