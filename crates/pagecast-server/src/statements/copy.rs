//! `COPY ... TO STDOUT`: what is copied, and how it is laid out.

use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, Statement as Ast,
};
use datafusion::sql::sqlparser::parser::Parser;
use pagecast_sql::semantics::Words;

use crate::problem::Problem;

/// What rows are written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Kind {
    Text,
    Csv,
    Binary,
}

/// How values are laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Layout {
    pub(in super::super) kind: Kind,
    pub(in super::super) delimiter: char,
    pub(in super::super) null: String,
    pub(in super::super) header: bool,
    pub(in super::super) quote: char,
    pub(in super::super) escape: char,
}

/// The statements of a text with a COPY to the client, which DataFusion's own parser does not know.
pub(super) fn parse(sql: &str) -> Option<Vec<Ast>> {
    let statements = Parser::parse_sql(&Words, sql).ok()?;
    let is_copy = |ast: &Ast| matches!(ast, Ast::Copy { to: true, target: CopyTarget::Stdout, .. });
    statements.iter().any(is_copy).then_some(statements)
}

/// The query of a COPY to the client; `None` for what copies elsewhere.
pub(super) fn query(ast: &Ast) -> Result<Option<(String, Layout)>, Problem> {
    let Ast::Copy { source, to: true, target: CopyTarget::Stdout, options, legacy_options, .. } = ast else {
        return Ok(None);
    };
    let query = match source {
        CopySource::Query(query) => query.to_string(),
        CopySource::Table { table_name, columns } if columns.is_empty() => format!("SELECT * FROM {table_name}"),
        CopySource::Table { table_name, columns } => {
            let columns: Vec<String> = columns.iter().map(Ident::to_string).collect();
            format!("SELECT {} FROM {table_name}", columns.join(", "))
        }
    };
    Ok(Some((query, layout(options, legacy_options)?)))
}

fn layout(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Layout, Problem> {
    let refused =
        |what: &str| Err(Problem::error("0A000", format!("COPY with {what} is not answered here; leave it out")));
    let (mut kind, mut header, mut delimiter, mut null) = (Kind::Text, false, None, None);
    let (mut quote, mut escape) = (None, None);
    for option in options {
        match option {
            CopyOption::Format(name) if name.value.eq_ignore_ascii_case("csv") => kind = Kind::Csv,
            CopyOption::Format(name) if name.value.eq_ignore_ascii_case("text") => kind = Kind::Text,
            CopyOption::Format(name) if name.value.eq_ignore_ascii_case("binary") => kind = Kind::Binary,
            CopyOption::Delimiter(mark) => delimiter = Some(*mark),
            CopyOption::Null(text) => null = Some(text.clone()),
            CopyOption::Header(wanted) => header = *wanted,
            CopyOption::Quote(mark) => quote = Some(*mark),
            CopyOption::Escape(mark) => escape = Some(*mark),
            CopyOption::Encoding(name) if ["utf8", "utf-8"].contains(&name.to_ascii_lowercase().as_str()) => {}
            other => return refused(&other.to_string()),
        }
    }
    for option in legacy {
        match option {
            CopyLegacyOption::Binary => kind = Kind::Binary,
            CopyLegacyOption::Delimiter(mark) => delimiter = Some(*mark),
            CopyLegacyOption::Null(text) => null = Some(text.clone()),
            CopyLegacyOption::Header => header = true,
            CopyLegacyOption::Csv(options) => {
                kind = Kind::Csv;
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => header = true,
                        CopyLegacyCsvOption::Quote(mark) => quote = Some(*mark),
                        CopyLegacyCsvOption::Escape(mark) => escape = Some(*mark),
                        other => return refused(&other.to_string()),
                    }
                }
            }
            other => return refused(&other.to_string()),
        }
    }
    if kind == Kind::Binary && (header || delimiter.is_some() || null.is_some() || quote.or(escape).is_some()) {
        let what = "COPY in the binary format has no HEADER, DELIMITER, NULL, QUOTE and ESCAPE; leave them out";
        return Err(Problem::error("42601", what));
    }
    let (quote, csv) = (quote.unwrap_or('"'), kind == Kind::Csv);
    let layout = Layout {
        kind,
        delimiter: delimiter.unwrap_or(if csv { ',' } else { '\t' }),
        null: null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() }),
        header,
        quote,
        escape: escape.unwrap_or(quote),
    };
    let ascii = [layout.delimiter, layout.quote, layout.escape].iter().all(char::is_ascii);
    if !ascii || ['\n', '\r', '\\'].contains(&layout.delimiter) || (csv && layout.delimiter == layout.quote) {
        return Err(Problem::error(
            "22023",
            "COPY takes one plain character as its delimiter, and another as its quote",
        ));
    }
    Ok(layout)
}
