//! What goes wrong, as clients are told: a class that programs understand (SQLSTATE) and one line.

use std::fmt;

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;
use pagecast_sql::query::Ended;
use pagecast_sql::{Classed, OverBudget, tables};
use pgwire::messages::response::ErrorResponse;

use pagecast_sim::report::text::one_line;

/// An error for a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Problem {
    /// Whether the connection ends with it.
    pub(super) fatal: bool,
    /// SQLSTATE.
    pub(super) code: &'static str,
    pub(super) message: String,
    /// The character of the statement at fault, counted from 1.
    pub(super) position: Option<usize>,
}

impl Problem {
    /// One that ends a statement.
    pub(super) fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { fatal: false, code, message: message.into(), position: None }
    }

    /// One that ends a connection.
    pub(super) fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self { fatal: true, ..Self::error(code, message) }
    }

    /// What DataFusion says, or what it hands on from us.
    pub(super) fn of(error: &DataFusionError) -> Self {
        if let Some(classed) = Classed::of(error) {
            return classed.clone().into();
        }
        Self::error(code(error.find_root()), tables::message(error))
    }

    pub(super) fn response(&self) -> ErrorResponse {
        let severity = if self.fatal { "FATAL" } else { "ERROR" };
        let mut fields = vec![
            (b'S', severity.to_owned()),
            (b'V', severity.to_owned()),
            (b'C', self.code.to_owned()),
            (b'M', one_line(&self.message)),
        ];
        fields.extend(self.position.map(|position| (b'P', position.to_string())));
        ErrorResponse::new(fields)
    }
}

/// What somebody may not do, where DataFusion asks for an error of its own.
#[derive(Debug)]
pub(super) struct Refused(pub(super) String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl From<Classed> for Problem {
    fn from(error: Classed) -> Self {
        Self::error(error.code, error.message)
    }
}

impl From<Ended> for Problem {
    fn from(ended: Ended) -> Self {
        match &ended {
            Ended::Failed(error) => Self::of(error),
            Ended::Lost(_) => Self::error("XX000", ended.to_string()),
            Ended::Dropped => Self::error("57P01", ended.to_string()),
        }
    }
}

/// Of the connection itself: nobody is there to be told.
impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::TimedOut => {
                Self::fatal("08006", "terminating connection: its client did not read for too long (--write-timeout)")
            }
            _ => Self::fatal("08006", "the client has gone"),
        }
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<ArrowError>() {
            Some(arrow) => Self::error(of_arrow(arrow), arrow.to_string()),
            None => Self::error("XX000", format!("{error:#}")),
        }
    }
}

fn code(root: &DataFusionError) -> &'static str {
    match root {
        DataFusionError::SQL(..) => "42601",
        DataFusionError::SchemaError(error, _) => match **error {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            _ => "42701",
        },
        DataFusionError::Plan(message) => of_plan(message),
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::ResourcesExhausted(_) => "53200",
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        // What a file's reader says, and no decoder.
        DataFusionError::ParquetError(error) if matches!(**error, ParquetError::External(_)) => "58000",
        DataFusionError::ParquetError(_) => "XX001",
        DataFusionError::ObjectStore(_) => "58030",
        DataFusionError::IoError(error) => of_io(error),
        DataFusionError::Internal(_) => "XX000",
        DataFusionError::Configuration(_) => "22023",
        DataFusionError::External(error) if error.is::<OverBudget>() => "53200",
        DataFusionError::External(error) if error.is::<Refused>() => "42501",
        DataFusionError::External(error) if is_of_a_pattern(&error.to_string()) => "2201B",
        _ => "58000",
    }
}

fn of_plan(message: &str) -> &'static str {
    if message.contains("table '") && message.contains("not found") {
        "42P01"
    } else if message.contains("Invalid function") {
        "42883"
    } else if message.contains("No function matches") || message.contains("to the signature") {
        "42804"
    } else {
        "42000"
    }
}

fn of_arrow(error: &ArrowError) -> &'static str {
    match error {
        ArrowError::DivideByZero => "22012",
        ArrowError::CastError(what) if is_too_large(what) => "22003",
        ArrowError::CastError(_) | ArrowError::ParseError(_) => "22P02",
        ArrowError::InvalidArgumentError(what) if what.contains("is too large to store in a Decimal") => "22003",
        ArrowError::ComputeError(what) if what.contains("overflow on abs") => "22003",
        ArrowError::ComputeError(what) if is_of_a_pattern(what) => "2201B",
        ArrowError::ArithmeticOverflow(_) => "22003",
        ArrowError::InvalidArgumentError(_) => "22023",
        ArrowError::NotYetImplemented(_) => "0A000",
        ArrowError::IoError(_, error) => of_io(error),
        ArrowError::ExternalError(error) if is_of_a_pattern(&error.to_string()) => "2201B",
        ArrowError::ExternalError(_) => "58000",
        _ => "XX000",
    }
}

/// Whether a regular expression is none, or too large a one.
fn is_of_a_pattern(what: &str) -> bool {
    ["regex parse error", "Compiled regex exceeds", "Regular expression did not compile"]
        .iter()
        .any(|begins| what.starts_with(begins))
}

/// Whether a cast failed as its type has no such number.
fn is_too_large(what: &str) -> bool {
    what.contains("is out of range") || (what.contains("Can't cast value") && what.contains("to type Int"))
}

fn of_io(error: &std::io::Error) -> &'static str {
    if error.kind() == std::io::ErrorKind::StorageFull { "53100" } else { "58030" }
}
