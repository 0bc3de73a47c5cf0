//! `FROM generate_series(...)` of moments. DataFusion's takes those with nanoseconds alone, and
//! moments have microseconds here.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use datafusion::prelude::SessionContext;

use super::calculation::refused;

const NAME: &str = "generate_series";

#[derive(Debug)]
struct Series(Arc<dyn TableFunctionImpl>);

/// Puts it in the place of DataFusion's.
pub(super) fn install(ctx: &SessionContext) -> Result<()> {
    let inner = Arc::clone(ctx.table_function(NAME)?.function());
    ctx.register_udtf(NAME, Arc::new(Series(inner)));
    Ok(())
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs().iter().map(in_nanos).collect::<Result<Vec<_>>>()?;
        self.0.call_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

fn in_nanos(expr: &Expr) -> Result<Expr> {
    if let Expr::Literal(value, metadata) = expr
        && let DataType::Timestamp(_, zone) = value.data_type()
    {
        let nanos = value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone));
        let value = nanos.map_err(|_| refused("generate_series knows moments of the years 1678 to 2261 here"))?;
        return Ok(Expr::Literal(value, metadata.clone()));
    }
    Ok(expr.clone())
}
