//! What the server says of itself: drivers ask it before they show anything.

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
    SqlTransactionIsolationLevel, XdbcDataType,
};

use crate::server::Limits;

/// What the server is called.
const NAMES: &[(SqlInfo, &str)] = &[
    (SqlInfo::FlightSqlServerName, "pagecast"),
    (SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION")),
    (SqlInfo::FlightSqlServerArrowVersion, "1.5"),
    (SqlInfo::SqlIdentifierQuoteChar, "\""),
    (SqlInfo::SqlSearchStringEscape, "\\"),
    (SqlInfo::SqlExtraNameCharacters, ""),
    (SqlInfo::SqlSchemaTerm, "schema"),
    (SqlInfo::SqlProcedureTerm, "procedure"),
    (SqlInfo::SqlCatalogTerm, "database"),
];

/// What clients can rely on.
const TRUE: &[SqlInfo] = &[
    SqlInfo::FlightSqlServerReadOnly,
    SqlInfo::FlightSqlServerSql,
    SqlInfo::SqlAllTablesAreSelectable,
    SqlInfo::SqlSupportsColumnAliasing,
    SqlInfo::SqlNullPlusNullIsNull,
    SqlInfo::SqlSupportsTableCorrelationNames,
    SqlInfo::SqlSupportsExpressionsInOrderBy,
    SqlInfo::SqlSupportsOrderByUnrelated,
    SqlInfo::SqlSupportsLikeEscapeClause,
    SqlInfo::SqlSupportsNonNullableColumns,
    SqlInfo::SqlCatalogAtStart,
    SqlInfo::SqlCorrelatedSubqueriesSupported,
    SqlInfo::SqlTransactionsSupported,
];

/// What there is not.
const FALSE: &[SqlInfo] = &[
    SqlInfo::FlightSqlServerSubstrait,
    SqlInfo::FlightSqlServerCancel,
    SqlInfo::FlightSqlServerBulkIngestion,
    SqlInfo::FlightSqlServerIngestTransactionsSupported,
    SqlInfo::SqlDdlCatalog,
    SqlInfo::SqlDdlSchema,
    SqlInfo::SqlDdlTable,
    SqlInfo::SqlSupportsDifferentTableCorrelationNames,
    SqlInfo::SqlSupportsIntegrityEnhancementFacility,
    SqlInfo::SqlSelectForUpdateSupported,
    SqlInfo::SqlStoredProceduresSupported,
    SqlInfo::SqlMaxRowSizeIncludesBlobs,
    SqlInfo::SqlDataDefinitionCausesTransactionCommit,
    SqlInfo::SqlDataDefinitionsInTransactionsIgnored,
    SqlInfo::SqlBatchUpdatesSupported,
    SqlInfo::SqlSavepointsSupported,
    SqlInfo::SqlNamedParametersSupported,
    SqlInfo::SqlLocatorsUpdateCopy,
    SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported,
];

/// Which of several things holds.
const CHOICES: &[(SqlInfo, i64)] = &[
    (SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i64),
    (SqlInfo::SqlQuotedIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i64),
    (SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64),
    (SqlInfo::SqlDefaultTransactionIsolation, SqlTransactionIsolationLevel::SqlTransactionReadCommitted as i64),
];

/// Which of several things there are, each a bit, and what clients read as a small number.
const SETS: &[(SqlInfo, i32)] = &[
    (SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Transaction as i32),
    (SqlInfo::SqlSupportedGroupBy, 0b11),
    (SqlInfo::SqlOuterJoinsSupportLevel, 0b111),
    (SqlInfo::SqlSupportedGrammar, 0b111),
    (SqlInfo::SqlAnsi92SupportedLevel, 0b1),
    (SqlInfo::SqlSchemasSupportedActions, 0),
    (SqlInfo::SqlCatalogsSupportedActions, 0),
    (SqlInfo::SqlSupportedPositionedCommands, 0),
    (SqlInfo::SqlSupportedSubqueries, 0b1111),
    (SqlInfo::SqlSupportedUnions, 0b11),
    // None and read committed.
    (SqlInfo::SqlSupportedTransactionsIsolationLevels, 0b101),
    // Forward only, and read only.
    (SqlInfo::SqlSupportedResultSetTypes, 0b10),
    (SqlInfo::SqlSupportedConcurrenciesForResultSetUnspecified, 0b10),
    (SqlInfo::SqlSupportedConcurrenciesForResultSetForwardOnly, 0b10),
    (SqlInfo::SqlSupportedConcurrenciesForResultSetScrollSensitive, 0),
    (SqlInfo::SqlSupportedConcurrenciesForResultSetScrollInsensitive, 0),
];

/// Words of SQL and functions: drivers take a list that is not there amiss.
const LISTS: &[SqlInfo] = &[
    SqlInfo::SqlKeywords,
    SqlInfo::SqlNumericFunctions,
    SqlInfo::SqlStringFunctions,
    SqlInfo::SqlSystemFunctions,
    SqlInfo::SqlDatetimeFunctions,
];

/// What has no limit of its own, which 0 says.
const UNLIMITED: &[SqlInfo] = &[
    SqlInfo::SqlMaxBinaryLiteralLength,
    SqlInfo::SqlMaxCharLiteralLength,
    SqlInfo::SqlMaxColumnNameLength,
    SqlInfo::SqlMaxColumnsInGroupBy,
    SqlInfo::SqlMaxColumnsInIndex,
    SqlInfo::SqlMaxColumnsInOrderBy,
    SqlInfo::SqlMaxColumnsInSelect,
    SqlInfo::SqlMaxColumnsInTable,
    SqlInfo::SqlMaxCursorNameLength,
    SqlInfo::SqlMaxIndexLength,
    SqlInfo::SqlDbSchemaNameLength,
    SqlInfo::SqlMaxProcedureNameLength,
    SqlInfo::SqlMaxCatalogNameLength,
    SqlInfo::SqlMaxRowSize,
    SqlInfo::SqlMaxStatements,
    SqlInfo::SqlMaxTableNameLength,
    SqlInfo::SqlMaxTablesInSelect,
    SqlInfo::SqlMaxUsernameLength,
    SqlInfo::FlightSqlServerTransactionTimeout,
];

/// What the server is and can.
pub(super) fn server(limits: &Limits) -> anyhow::Result<SqlInfoData> {
    let mut all = SqlInfoDataBuilder::new();
    NAMES.iter().for_each(|&(name, value)| all.append(name, value));
    TRUE.iter().for_each(|&name| all.append(name, true));
    FALSE.iter().for_each(|&name| all.append(name, false));
    CHOICES.iter().for_each(|&(name, value)| all.append(name, value));
    SETS.iter().for_each(|&(name, value)| all.append(name, value));
    LISTS.iter().for_each(|&name| all.append(name, &[][..] as &[&str]));
    UNLIMITED.iter().for_each(|&name| all.append(name, 0i64));
    all.append(SqlInfo::SqlMaxConnections, limits.connections as i64);
    all.append(SqlInfo::SqlMaxStatementLength, limits.message as i64);
    all.append(SqlInfo::FlightSqlServerStatementTimeout, limits.statement_timeout.as_millis() as i64);
    Ok(all.build()?)
}

/// The types of SQL that columns have: name, kind, digits or bytes if they are bounded, and the
/// quotes of their values.
const TYPES: &[(&str, XdbcDataType, Option<i32>, Option<&str>)] = &[
    ("boolean", XdbcDataType::XdbcBit, Some(1), None),
    ("smallint", XdbcDataType::XdbcSmallint, Some(5), None),
    ("integer", XdbcDataType::XdbcInteger, Some(10), None),
    ("bigint", XdbcDataType::XdbcBigint, Some(19), None),
    ("real", XdbcDataType::XdbcReal, Some(7), None),
    ("double precision", XdbcDataType::XdbcDouble, Some(15), None),
    ("numeric", XdbcDataType::XdbcNumeric, Some(76), None),
    ("text", XdbcDataType::XdbcVarchar, None, Some("'")),
    ("bytea", XdbcDataType::XdbcVarbinary, None, Some("'")),
    ("date", XdbcDataType::XdbcDate, Some(10), Some("'")),
    ("time", XdbcDataType::XdbcTime, Some(15), Some("'")),
    ("timestamp", XdbcDataType::XdbcTimestamp, Some(29), Some("'")),
    ("interval", XdbcDataType::XdbcInterval, None, Some("'")),
];

/// The types that there are.
pub(super) fn types() -> anyhow::Result<XdbcTypeInfoData> {
    let mut all = XdbcTypeInfoDataBuilder::new();
    for &(name, kind, column_size, quote) in TYPES {
        let is_number = quote.is_none() && kind != XdbcDataType::XdbcBit;
        all.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: kind,
            column_size,
            literal_prefix: quote.map(str::to_owned),
            literal_suffix: quote.map(str::to_owned),
            create_params: None,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: kind == XdbcDataType::XdbcVarchar,
            searchable: Searchable::Full,
            unsigned_attribute: is_number.then_some(false),
            fixed_prec_scale: false,
            auto_increment: is_number.then_some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: (kind == XdbcDataType::XdbcNumeric).then_some(0),
            maximum_scale: (kind == XdbcDataType::XdbcNumeric).then_some(76),
            sql_data_type: kind,
            datetime_subcode: None,
            num_prec_radix: is_number.then_some(10),
            interval_precision: None,
        });
    }
    Ok(all.build()?)
}
