//! Statements as others may see them: on a page, in a history.

use pagecast::storage::without_secrets;

/// Parts of the names of options that are keys.
const KEYS: [&str; 8] =
    ["secret", "password", "token", "access_key", "account_key", "sas_key", "credential", "key_as_hex"];

/// The statement without keys of its options, and without passwords and queries of its URLs.
pub fn shown(sql: &str) -> String {
    let (mut shown, mut rest, mut literal) = (String::with_capacity(sql.len()), sql, "");
    while let Some(start) = rest.find('\'') {
        let (before, quoted) = (&rest[..start], &rest[start + 1..]);
        let named = before.trim_end_matches([' ', '\t', '\r', '\n', '=']);
        let named = named.strip_suffix(" TO").or_else(|| named.strip_suffix(" to")).unwrap_or(named).trim_end();
        // `'name' 'value'`, `name = 'value'`
        let name =
            if named.is_empty() { literal } else { named.rsplit([' ', ',', '(', '\n', '\t']).next().unwrap_or("") };
        let end = end_of_literal(quoted);
        literal = quoted[..end].trim_end_matches('\'');
        shown += before;
        shown += if is_key(name) && !literal.is_empty() { "'***'" } else { &rest[start..start + 1 + end] };
        rest = &quoted[end..];
    }
    without_secrets(&(shown + rest))
}

fn is_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !name.ends_with("key_id") && KEYS.iter().any(|part| name.contains(part))
}

/// Bytes of a literal behind its first quote, with its last. A doubled quote ends none.
fn end_of_literal(quoted: &str) -> usize {
    let mut at = 0;
    while let Some(quote) = quoted[at..].find('\'') {
        at += quote + 1;
        if !quoted[at..].starts_with('\'') {
            return at;
        }
        at += 1;
    }
    quoted.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_shows_no_key() {
        for (sql, seen) in [
            ("SELECT 'it''s' FROM t WHERE a = 'b'", "SELECT 'it''s' FROM t WHERE a = 'b'"),
            (
                "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'http://me:x@h/?sig=x' OPTIONS ('aws.access_key_id' 'a', \
                 'aws.secret_access_key' 'it''s','aws.session_token'  'x')",
                "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'http://h/' OPTIONS ('aws.access_key_id' 'a', \
                 'aws.secret_access_key' '***','aws.session_token'  '***')",
            ),
            ("SET aws.secret_access_key = 'x'", "SET aws.secret_access_key = '***'"),
            ("SET azure.sas_key TO 'x'", "SET azure.sas_key TO '***'"),
            ("OPTIONS ('gcp.token' 'open", "OPTIONS ('gcp.token' '***'"),
            ("SELECT '", "SELECT '"),
        ] {
            assert_eq!(shown(sql), seen);
        }
    }
}
