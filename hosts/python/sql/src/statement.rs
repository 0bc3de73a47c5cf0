//! A statement that was planned, and runs when its rows are asked for.

use std::pin::pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ffi::FFI_ArrowSchema;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::DataFrame;
use pagecast_sql::query::{Ended, Query};
use pagecast_sql::{check, patient, semantics, shape, summary, syntax};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors;
use crate::open::Open;
use crate::rows::{Rows, Stage, Stream};

/// What a statement gives.
enum Kind {
    /// Rows, anew whenever they are asked for.
    Query(Arc<DataFrame>),
    /// It has run, and these are its rows.
    Done(Vec<RecordBatch>),
}

/// What a text is, before it does anything.
enum Text {
    /// Not one statement, but so many.
    Statements(usize),
    /// A statement that says what another one gives.
    Describes,
    Query(DataFrame),
    Change(DataFrame),
}

impl Text {
    async fn read(open: &Open, sql: &str) -> anyhow::Result<Self> {
        let ctx = &open.engine.ctx;
        check::statement(ctx, &open.engine.closed, sql)?;
        let described = summary::described(sql);
        let statements = syntax::statements(described.as_deref().unwrap_or(sql)).unwrap_or(1);
        if statements != 1 {
            return Ok(Self::Statements(statements));
        }
        if described.is_some() {
            return Ok(Self::Describes);
        }
        let frame = semantics::frame(ctx, sql).await.map_err(Ended::Failed)?;
        Ok(if is_query(frame.logical_plan()) { Self::Query(frame) } else { Self::Change(frame) })
    }
}

/// A statement of a session.
#[pyclass(frozen, module = "pagecast_sql._engine")]
pub(crate) struct Statement {
    open: Arc<Open>,
    schema: SchemaRef,
    kind: Kind,
}

impl Statement {
    /// Plans the one statement of `sql`. What changes something runs at once.
    pub(crate) fn of(py: Python<'_>, open: &Arc<Open>, sql: &str) -> PyResult<Self> {
        let engine = &open.engine;
        let failed =
            |error| errors::of(&check::with_names(&engine.ctx, error, "connect(data=...) names a folder of tables"));
        // A thread of Python's may have any stack, and a text any length.
        let (opened, text) = (Arc::clone(open), sql.to_owned());
        let read = open.wait(py, pin!(Query::plan(async move { Ok(Text::read(&opened, &text).await) })))?;
        let frame = match read.map_err(|ended| failed(ended.into()))?.map_err(failed)? {
            Text::Statements(0) => return Err(PyValueError::new_err("there is no statement")),
            Text::Statements(several) => {
                return Err(PyValueError::new_err(format!("{several} statements: sql() takes one")));
            }
            Text::Describes => {
                let rows = open.wait(py, pin!(async { rest(Query::start(&engine.ctx, sql).await?).await }))?;
                return rows
                    .map(|(schema, rows)| Self { open: Arc::clone(open), schema, kind: Kind::Done(rows) })
                    .map_err(|ended| failed(ended.into()));
            }
            Text::Query(frame) => {
                let schema = Arc::new(frame.schema().as_arrow().clone());
                return Ok(Self { open: Arc::clone(open), schema, kind: Kind::Query(Arc::new(frame)) });
            }
            Text::Change(frame) => frame,
        };
        let ran = open.wait(py, pin!(async { rest(Query::run(patient::execute(frame)).await?).await }))?;
        let (schema, rows) = ran.map_err(|ended| failed(ended.into()))?;
        Ok(Self { open: Arc::clone(open), schema, kind: Kind::Done(rows) })
    }

    fn frame(&self) -> PyResult<&DataFrame> {
        match &self.kind {
            Kind::Query(frame) => Ok(frame),
            Kind::Done(_) => Err(PyValueError::new_err("the statement is no query: it has run")),
        }
    }

    /// The rows from the first on, for one consumer.
    fn rows(&self, py: Python<'_>) -> PyResult<Rows> {
        let frame = match &self.kind {
            Kind::Done(rows) => {
                let stage = Stage::Kept(rows.clone().into_iter());
                return Ok(Rows::new(Arc::clone(&self.open), Arc::clone(&self.schema), stage));
            }
            Kind::Query(frame) => Arc::clone(frame),
        };
        let planned = self.open.wait(py, pin!(Query::plan(patient::execute(frame.as_ref().clone()))))?;
        let rows = planned.map_err(|ended| errors::of(&ended.into()))?;
        Ok(Rows::new(Arc::clone(&self.open), rows.schema(), Stage::Planned(rows)))
    }
}

impl Drop for Statement {
    /// A plan is dropped level by level, and a thread of Python's may have any stack.
    fn drop(&mut self) {
        let kind = std::mem::replace(&mut self.kind, Kind::Done(Vec::new()));
        if let Kind::Query(_) = kind {
            _ = shape::with_stack(move || drop(kind));
        }
    }
}

/// Whether a plan does nothing but give rows.
fn is_query(plan: &LogicalPlan) -> bool {
    let changes = |plan: &LogicalPlan| {
        matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_))
    };
    // EXPLAIN ANALYZE does what it explains.
    !plan.exists(|node| Ok(changes(node))).unwrap_or(true)
}

/// All rows of a query.
async fn rest(mut query: Query) -> Result<(SchemaRef, Vec<RecordBatch>), Ended> {
    let mut rows = Vec::new();
    while let Some(batch) = query.next().await? {
        rows.push(batch);
    }
    Ok((Arc::clone(query.schema()), rows))
}

#[pymethods]
impl Statement {
    /// Names of its columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        let schema = schema.map_err(|error| errors::of_arrow(&error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Its rows, from the first on.
    fn stream(&self, py: Python<'_>) -> PyResult<Stream> {
        Ok(Stream::of(self.rows(py)?))
    }

    /// The first rows as a table of characters, and whether there are more.
    fn text(&self, py: Python<'_>, rows: usize) -> PyResult<(String, bool)> {
        let mut taken = self.rows(py)?;
        let (mut shown, mut count) = (vec![RecordBatch::new_empty(taken.schema())], 0);
        while let Some(batch) = taken.next_in(py)? {
            let room = rows - count.min(rows);
            count += batch.num_rows();
            shown.push(batch.slice(0, batch.num_rows().min(room)));
            if count > rows {
                break;
            }
        }
        let text = pretty_format_batches(&shown).map_err(|error| errors::of_arrow(&error))?;
        Ok((text.to_string(), count > rows))
    }

    /// A query of some of its columns and rows: those for which the SQL expression is true, up to
    /// so many.
    #[pyo3(signature = (columns=None, predicate=None, rows=None))]
    fn narrowed(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        predicate: Option<&str>,
        rows: Option<usize>,
    ) -> PyResult<Self> {
        let frame = self.frame()?;
        let narrow = || -> datafusion::error::Result<_> {
            let mut frame = frame.clone();
            if let Some(predicate) = predicate {
                frame = frame.clone().filter(semantics::condition(&frame, predicate)?)?;
            }
            if let Some(columns) = columns {
                frame = frame.select(columns.into_iter().map(|name| Expr::Column(Column::from_name(name))))?;
            }
            Ok(Arc::new(if rows.is_some() { frame.limit(0, rows)? } else { frame }))
        };
        let narrowed = py.detach(|| shape::with_stack(narrow)).map_err(PyErr::from)?;
        let frame = narrowed.map_err(|error| errors::of_datafusion(&error))?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        Ok(Self { open: Arc::clone(&self.open), schema, kind: Kind::Query(frame) })
    }
}
