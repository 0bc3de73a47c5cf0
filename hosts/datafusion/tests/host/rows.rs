//! Query results as rows, and what it means that two results are equal.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use datafusion::prelude::SessionContext;

/// How far two floats may be apart, relative to the larger one: partial sums are added in another
/// order.
const TOLERANCE: f64 = 1e-9;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    Float(f64),
    Text(String),
}

impl Cell {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
            (a, b) => a == b,
        }
    }

    /// Floats last and roughly, so that rows which differ by rounding sort alike.
    fn sort_key(&self) -> (bool, String) {
        match self {
            Self::Text(text) => (false, text.clone()),
            Self::Float(value) => (true, format!("{value:.6e}")),
        }
    }
}

pub(crate) type Row = Vec<Cell>;

pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let cell = |column: &dyn Array, row: usize| match column.data_type() {
        DataType::Float64 if column.is_valid(row) => Cell::Float(column.as_primitive::<Float64Type>().value(row)),
        _ => Cell::Text(array_value_to_string(column, row).unwrap()),
    };
    let of_batch = |batch: &RecordBatch| -> Vec<Row> {
        let rows = 0..batch.num_rows();
        rows.map(|row| batch.columns().iter().map(|column| cell(column, row)).collect()).collect()
    };
    batches.iter().flat_map(of_batch).collect()
}

pub(crate) async fn run(ctx: &SessionContext, sql: &str) -> Vec<Row> {
    let batches = ctx.sql(sql).await.unwrap().collect().await;
    rows(&batches.unwrap_or_else(|error| panic!("{error}\n{sql}")))
}

fn same_row(a: &Row, b: &Row) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}

/// Whether the results hold the same rows, in any order.
pub(crate) fn same_rows(a: &[Row], b: &[Row]) -> bool {
    let sorted = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.sort_by_cached_key(|row| {
            let mut key: Vec<_> = row.iter().map(Cell::sort_key).collect();
            key.sort_by_key(|(float, _)| *float);
            key
        });
        rows
    };
    a.len() == b.len() && sorted(a).iter().zip(&sorted(b)).all(|(a, b)| same_row(a, b))
}

/// Whether the results agree in these columns, row by row: the columns of ORDER BY.
pub(crate) fn same_order(a: &[Row], b: &[Row], columns: &[usize]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| columns.iter().all(|&column| a[column].same(&b[column])))
}
