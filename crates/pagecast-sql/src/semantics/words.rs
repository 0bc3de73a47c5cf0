//! The words that a statement may be written in: PostgreSQL's, and some of DuckDB's that have no
//! meaning there.

use std::any::TypeId;

use datafusion::config::Dialect as Named;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence, dialect_from_str};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

const BASE: PostgreSqlDialect = PostgreSqlDialect {};

/// PostgreSQL's dialect with `{'a': 1}`, `SELECT * EXCLUDE (a)` and `FROM t`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words;

/// The words of SQL that a session has been set to; ours, unless it was.
pub fn dialect(ctx: &SessionContext) -> Box<dyn Dialect> {
    match ctx.state_ref().read().config_options().sql_parser.dialect {
        Named::Generic => Box::new(Words),
        named => dialect_from_str(named).unwrap_or_else(|| Box::new(Words)),
    }
}

macro_rules! has {
    ($($what:ident),* $(,)?) => {
        $(fn $what(&self) -> bool {
            true
        })*
    };
}

impl Dialect for Words {
    /// The parser asks for PostgreSQL's dialect by its type, too.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    /// A name may stand between backticks, too.
    fn is_delimited_identifier_start(&self, character: char) -> bool {
        character == '`' || BASE.is_delimited_identifier_start(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        BASE.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        BASE.is_identifier_part(character)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        BASE.is_reserved_for_identifier(keyword)
    }

    /// A sign begins a number behind an operator, as in `a<-1`.
    fn is_custom_operator_part(&self, character: char) -> bool {
        !matches!(character, '+' | '-' | '`') && BASE.is_custom_operator_part(character)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        BASE.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        BASE.prec_value(precedence)
    }

    // PostgreSQL's.
    has!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_expr_name,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    );

    // DuckDB's.
    has!(
        supports_dictionary_syntax,
        support_map_literal_syntax,
        supports_struct_literal,
        supports_from_first_select,
        supports_select_wildcard_except,
        supports_select_wildcard_exclude,
        supports_select_wildcard_replace,
        supports_projection_trailing_commas,
        supports_values_as_table_factor,
    );
}
