//! What a connection may set and ask: PostgreSQL's names, of which few change anything here.

use std::collections::BTreeMap;
use std::time::Duration;

use super::problem::Problem;

/// Names, what they are at first, and what they may be.
const KNOWN: &[(&str, &str, Kind)] = &[
    ("application_name", "", Kind::Free),
    ("bytea_output", "hex", Kind::Only(&["hex"])),
    ("check_function_bodies", "on", Kind::Free),
    ("client_encoding", "UTF8", Kind::Only(&["utf8", "unicode"])),
    ("client_min_messages", "notice", Kind::Free),
    ("cursor_tuple_fraction", "0.1", Kind::Free),
    ("DateStyle", "ISO, MDY", Kind::Fixed),
    ("default_transaction_isolation", "read committed", Kind::Free),
    ("default_transaction_read_only", "on", Kind::Only(&["on", "true", "yes", "1"])),
    ("extra_float_digits", "1", Kind::Free),
    ("geqo", "on", Kind::Free),
    ("idle_in_transaction_session_timeout", "0", Kind::Free),
    ("in_hot_standby", "off", Kind::ReadOnly),
    ("integer_datetimes", "on", Kind::ReadOnly),
    ("IntervalStyle", "postgres", Kind::Only(&["postgres"])),
    ("is_superuser", "off", Kind::ReadOnly),
    ("jit", "off", Kind::Free),
    ("lc_collate", "C", Kind::ReadOnly),
    ("lc_ctype", "C", Kind::ReadOnly),
    ("lc_messages", "C", Kind::Free),
    ("lock_timeout", "0", Kind::Free),
    ("max_identifier_length", "63", Kind::ReadOnly),
    ("max_index_keys", "32", Kind::ReadOnly),
    ("quote_all_identifiers", "off", Kind::Free),
    ("role", "none", Kind::Free),
    ("row_security", "on", Kind::Free),
    ("search_path", "public", Kind::Free),
    ("server_encoding", "UTF8", Kind::ReadOnly),
    ("server_version", VERSION, Kind::ReadOnly),
    ("server_version_num", "160000", Kind::ReadOnly),
    ("session_authorization", "", Kind::ReadOnly),
    ("ssl_renegotiation_limit", "0", Kind::Free),
    ("standard_conforming_strings", "on", Kind::Only(&["on", "true", "yes", "1"])),
    ("statement_timeout", "0", Kind::Time),
    ("synchronize_seqscans", "on", Kind::Free),
    ("TimeZone", "UTC", Kind::Fixed),
    ("transaction_isolation", "read committed", Kind::Free),
    ("transaction_read_only", "on", Kind::Only(&["on", "true", "yes", "1"])),
];

/// The version of PostgreSQL whose clients are understood, and ours.
pub(super) const VERSION: &str = concat!("16.0 (pagecast ", env!("CARGO_PKG_VERSION"), ")");

/// What a client hears of without asking.
const REPORTED: &[&str] = &[
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// What a setting may be.
#[derive(Clone, Copy)]
enum Kind {
    /// Anything: nothing here depends on it.
    Free,
    /// One of these; others would be a promise that is not kept.
    Only(&'static [&'static str]),
    /// Whatever is asked for, it stays what it is: it changes how values look, and not what they
    /// are.
    Fixed,
    ReadOnly,
    Time,
}

/// The settings of a connection.
#[derive(Clone, PartialEq)]
pub(super) struct Settings {
    /// Those that are not what they are at first.
    changed: BTreeMap<&'static str, String>,
    /// What RESET gives back.
    at_start: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Those of a user who said `parameters`, of which the unknown ones mean nothing here.
    pub(super) fn of(user: &str, timeout: Duration, parameters: &BTreeMap<String, String>) -> Result<Self, Problem> {
        let mut settings = Self { changed: BTreeMap::new(), at_start: BTreeMap::new() };
        settings.changed.insert("session_authorization", user.to_owned());
        settings.changed.insert("statement_timeout", timeout.as_millis().to_string());
        for (name, value) in parameters {
            if known(name).is_some_and(|(_, _, kind)| !matches!(kind, Kind::ReadOnly)) {
                settings.set(name, value).map_err(|problem| Problem { fatal: true, ..problem })?;
            }
        }
        settings.at_start = settings.changed.clone();
        Ok(settings)
    }

    /// Sets what is called `name`. Gives the name as it is written, if clients hear of it.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>, Problem> {
        let (name, first, kind) = known(name).ok_or_else(|| unknown(name))?;
        let value =
            if value.eq_ignore_ascii_case("default") { self.at_start.get(name).map_or(*first, |v| v) } else { value };
        let mut value = value.to_owned();
        match kind {
            Kind::Free => {}
            Kind::Only(allowed) if allowed.contains(&word(&value).as_str()) => value = (*first).to_owned(),
            Kind::Only(_) => {
                return Err(Problem::error("22023", format!("{name} is {first} here, and not {value}")));
            }
            Kind::Fixed => return Ok(None),
            Kind::ReadOnly => return Err(Problem::error("55P02", format!("{name} cannot be set"))),
            Kind::Time => value = milliseconds(&value).ok_or_else(|| no_time(name, &value))?.to_string(),
        }
        self.changed.insert(name, value);
        Ok(REPORTED.contains(name).then_some(name))
    }

    pub(super) fn reset(&mut self, name: &str) -> Result<Option<&'static str>, Problem> {
        self.set(name, "default")
    }

    pub(super) fn reset_all(&mut self) {
        self.changed = self.at_start.clone();
    }

    /// What `name` is, and how it is written; `None` if nobody knows it.
    pub(super) fn get(&self, name: &str) -> Option<(&'static str, String)> {
        let (name, first, _) = known(name)?;
        Some((name, self.changed.get(name).map_or(*first, |value| value).to_owned()))
    }

    /// The query that SHOW of a name, or of all, is.
    pub(super) fn shown(&self, name: &str) -> Option<String> {
        if name.eq_ignore_ascii_case("all") {
            let all = "SELECT name, setting, short_desc AS description FROM pg_catalog.pg_settings ORDER BY name";
            return Some(all.to_owned());
        }
        let (name, value) = self.get(name)?;
        Some(format!("SELECT '{}' AS {}", value.replace('\'', "''"), name.to_ascii_lowercase()))
    }

    /// All of them: the name, what it is, what it is at first, and whether it can be set.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &str, &'static str, bool)> {
        KNOWN.iter().map(|&(name, first, kind)| {
            let value = self.changed.get(name).map_or(first, |value| value);
            (name, value, first, !matches!(kind, Kind::ReadOnly))
        })
    }

    /// What clients hear of.
    pub(super) fn reported(&self) -> impl Iterator<Item = (String, String)> {
        REPORTED.iter().filter_map(|name| self.get(name)).map(|(name, value)| (name.to_owned(), value))
    }

    /// How long a statement may take.
    pub(super) fn statement_timeout(&self) -> Option<Duration> {
        let (_, value) = self.get("statement_timeout")?;
        value.parse().ok().filter(|&millis| millis > 0).map(Duration::from_millis)
    }
}

/// What `name` is in every connection at first.
pub(super) fn at_first(name: &str) -> Option<String> {
    known(name).map(|(_, first, _)| (*first).to_owned())
}

/// A word as it is compared: `'utf-8'` is utf8, as clients write it in many ways.
fn word(value: &str) -> String {
    value.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

fn known(name: &str) -> Option<&'static (&'static str, &'static str, Kind)> {
    KNOWN.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

fn unknown(name: &str) -> Problem {
    Problem::error("42704", format!("unrecognized configuration parameter \"{name}\""))
}

fn no_time(name: &str, value: &str) -> Problem {
    Problem::error("22023", format!("{name}: `{value}` is no time; write 5000 for milliseconds, 5s or 2min"))
}

/// Milliseconds of `5000`, `5s` or `2min`.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_start().len() - text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.trim_start().split_at(digits);
    let each = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(each)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_keep_only_promises_that_hold() {
        let mut settings = Settings::of("ada", Duration::ZERO, &BTreeMap::new()).unwrap();
        assert_eq!(settings.statement_timeout(), None);
        settings.set("STATEMENT_TIMEOUT", "2min").unwrap();
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(120)));
        settings.reset("statement_timeout").unwrap();
        assert_eq!(settings.statement_timeout(), None);
        assert_eq!(settings.set("client_encoding", "'utf-8'"), Ok(Some("client_encoding")));
        assert_eq!(settings.set("client_encoding", "LATIN1").unwrap_err().code, "22023");
        assert_eq!(settings.set("timezone", "Europe/Berlin"), Ok(None));
        assert_eq!(settings.get("timezone"), Some(("TimeZone", "UTC".to_owned())));
        assert_eq!(settings.set("wal_level", "x").unwrap_err().code, "42704");
        assert_eq!(settings.set("server_version", "17").unwrap_err().code, "55P02");
    }
}
