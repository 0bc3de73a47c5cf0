//! A cast as a function, of whose order and bounds nobody concludes anything.

use std::sync::Arc;

use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// Casts its first argument to the type of its second.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CastFunction {
    signature: Signature,
    /// Whether a value that has no equal in the type is an error, and not NULL.
    fails: bool,
}

impl CastFunction {
    pub(super) fn new(fails: bool) -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable), fails }
    }
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        if self.fails { "cast" } else { "try_cast" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        internal_err!("a cast has a field, which says whether it may be NULL")
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let [value, of_type] = arguments.arg_fields else { return plan_err!("a cast has a value and a type") };
        let nullable = value.is_nullable() || !self.fails;
        Ok(Arc::new(Field::new(self.name(), of_type.data_type().clone(), nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, of_type] = &arguments.args[..] else { return plan_err!("a cast has a value and a type") };
        let options = CastOptions { safe: !self.fails, ..DEFAULT_CAST_OPTIONS };
        value.cast_to(&of_type.data_type(), Some(&options))
    }
}
