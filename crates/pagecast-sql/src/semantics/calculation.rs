//! Functions that plans call for what PostgreSQL means. Most have no name that SQL knows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use crate::classed::Classed;
use crate::held::Held;
pub(super) use crate::values::by_arrays;

/// The type of what a function gives.
#[derive(Clone, Debug)]
pub(super) enum Gives {
    Always(DataType),
    /// What the types of its arguments say.
    By(fn(&[DataType]) -> Result<DataType>),
}

/// One function: its name says all that sets it apart from others.
struct Calculation {
    name: String,
    /// The number of its call, where nobody names it.
    call: Option<u64>,
    gives: Gives,
    run: fn(&ScalarFunctionArgs) -> Result<ColumnarValue>,
    signature: Signature,
}

impl fmt::Debug for Calculation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calculation").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Calculation {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Calculation {}

impl Hash for Calculation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Calculation {
    fn name(&self) -> &str {
        &self.name
    }

    /// The name of a column that has none. It is short: DataFusion writes all names below whenever
    /// it asks for a type, and a long sum would take forever.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        match self.call {
            Some(call) => Ok(format!("{}#{call}", self.name)),
            None => {
                let names: Vec<_> = arguments.iter().map(|argument| argument.schema_name().to_string()).collect();
                Ok(format!("{}({})", self.name, names.join(",")))
            }
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        // Those of long sums are asked for so often that their planning takes seconds.
        Held::check_current()?;
        match &self.gives {
            Gives::Always(kind) => Ok(kind.clone()),
            Gives::By(kind) => kind(arguments),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.run)(&args)
    }
}

/// The type of what a call gives, if its arguments need not be asked for theirs: those of a long
/// sum are as long.
pub(super) fn known_type(function: &ScalarUDF) -> Option<&DataType> {
    match &function.inner().downcast_ref::<Calculation>()?.gives {
        Gives::Always(kind) => Some(kind),
        Gives::By(_) => None,
    }
}

/// A function with other arguments.
pub(super) fn call_again(function: &ScalarFunction, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: function.func.clone(), args })
}

/// Whether this is one of them, of which nearly all refuse some values.
pub(super) fn may_fail(function: &ScalarUDF) -> bool {
    function.inner().is::<Calculation>()
}

/// A function of so many arguments as are given, whose answer depends on them alone.
pub(super) fn function(
    name: impl Into<String>,
    gives: Gives,
    run: fn(&ScalarFunctionArgs) -> Result<ColumnarValue>,
) -> ScalarUDF {
    ScalarUDF::new_from_impl(made(name.into(), gives, run, None))
}

fn made(
    name: String,
    gives: Gives,
    run: fn(&ScalarFunctionArgs) -> Result<ColumnarValue>,
    call: Option<u64>,
) -> Calculation {
    let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    Calculation { name, call, gives, run, signature: Signature::one_of(any, Volatility::Immutable) }
}

/// A call of a function that has no name.
pub(super) fn call(
    name: impl Into<String>,
    gives: Gives,
    run: fn(&ScalarFunctionArgs) -> Result<ColumnarValue>,
    arguments: Vec<Expr>,
) -> Expr {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let number = CALLS.fetch_add(1, Ordering::Relaxed);
    ScalarUDF::new_from_impl(made(name.into(), gives, run, Some(number))).call(arguments)
}

/// An error that keeps its class on its way through DataFusion.
pub(super) fn error(code: &'static str, message: impl Into<String>) -> DataFusionError {
    Classed::new(code, message).into()
}

/// What PostgreSQL does, and what nothing here does.
pub(super) fn refused(message: impl Into<String>) -> DataFusionError {
    Classed::refused(message).into()
}
