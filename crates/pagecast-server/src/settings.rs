//! What a connection may set and ask: PostgreSQL's names, of which few change anything here.

mod options;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

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
    ("default_table_access_method", "heap", Kind::Free),
    ("default_transaction_isolation", "read committed", Kind::Free),
    ("default_transaction_read_only", "on", Kind::Only(&["on", "true", "yes", "1"])),
    ("extra_float_digits", "1", Kind::Free),
    ("geqo", "on", Kind::Free),
    ("idle_in_transaction_session_timeout", "0", Kind::Time),
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
    ("pagecast.again_in", "0", Kind::Seconds),
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
    /// Milliseconds, where no unit is said.
    Time,
    /// Seconds, where no unit is said.
    Seconds,
}

type Changed = BTreeMap<&'static str, String>;

/// Settings that are not what they are at first.
#[derive(Clone, Default)]
struct Values {
    now: Changed,
    /// What is left once the transaction is committed: all but those of SET LOCAL.
    lasting: Changed,
}

/// The settings of a connection, where all that belongs to it finds them.
pub(super) type Shared = Arc<Mutex<Settings>>;

/// The settings of a connection.
#[derive(Clone)]
pub(super) struct Settings {
    values: Values,
    /// What RESET gives back.
    at_start: Changed,
    /// What they were when the transaction began, if one is open.
    began: Option<Values>,
    /// What they were at each savepoint, by its name.
    savepoints: Vec<(String, Values)>,
}

impl Settings {
    /// Those of a user who said `parameters`, of which the unknown ones mean nothing here. What
    /// `options` names is set as if by SET.
    pub(super) fn of(user: &str, timeout: Duration, parameters: &BTreeMap<String, String>) -> Result<Self, Problem> {
        let (values, at_start) = (Values::default(), Changed::new());
        let mut settings = Self { values, at_start, began: None, savepoints: Vec::new() };
        settings.values.now.insert("session_authorization", user.to_owned());
        settings.values.now.insert("statement_timeout", timeout.as_millis().to_string());
        let fatal = |problem| Problem { fatal: true, ..problem };
        let options = parameters.get("options").map_or("", |options| options);
        for (name, value) in options::read(options).map_err(fatal)? {
            settings.set(&name, &value).map_err(fatal)?;
        }
        for (name, value) in parameters {
            if known(name).is_some_and(|(_, _, kind)| !matches!(kind, Kind::ReadOnly)) {
                settings.set(name, value).map_err(fatal)?;
            }
        }
        settings.values.lasting = settings.values.now.clone();
        settings.at_start = settings.values.now.clone();
        Ok(settings)
    }

    pub(super) fn shared(self) -> Shared {
        Arc::new(Mutex::new(self))
    }

    /// Sets what is called `name`.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        if let Some((name, value)) = self.checked(name, value)? {
            self.values.lasting.insert(name, value.clone());
            self.values.now.insert(name, value);
        }
        Ok(())
    }

    /// The same up to the end of the transaction, which may be one of this statement alone.
    pub(super) fn set_local(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        if let Some((name, value)) = self.checked(name, value)? {
            self.values.now.insert(name, value);
        }
        Ok(())
    }

    /// What `set_config` does: `local` is up to the end of the transaction, and no value is the one
    /// at start. What the setting is then.
    pub(super) fn configure(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, Problem> {
        let value = value.unwrap_or("default");
        let checked = self.checked(name, value)?;
        match local {
            true => self.set_local(name, value)?,
            false => self.set(name, value)?,
        }
        checked.map_or_else(|| self.named(name), |(_, value)| Ok(value))
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.began.get_or_insert_with(|| self.values.clone());
    }

    /// The transaction ends, and what was set in it stays.
    pub(super) fn commit(&mut self) {
        (self.began, self.values.now) = (None, self.values.lasting.clone());
        self.savepoints.clear();
    }

    /// The transaction ends as if it had not been.
    pub(super) fn roll_back(&mut self) {
        if let Some(began) = self.began.take() {
            self.values = Values { now: began.lasting.clone(), lasting: began.lasting };
        }
        self.savepoints.clear();
    }

    pub(super) fn savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_owned(), self.values.clone()));
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), Problem> {
        let at = self.at_savepoint(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    /// All since a savepoint is as if it had not been; the savepoint stays.
    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<(), Problem> {
        let at = self.at_savepoint(name)?;
        self.savepoints.truncate(at + 1);
        self.values = self.savepoints[at].1.clone();
        Ok(())
    }

    fn at_savepoint(&self, name: &str) -> Result<usize, Problem> {
        let at = self.savepoints.iter().rposition(|(known, _)| known == name);
        at.ok_or_else(|| Problem::error("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    /// A name as it is written and what it would be; `None` for what stays as it is.
    fn checked(&self, name: &str, value: &str) -> Result<Option<(&'static str, String)>, Problem> {
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
            Kind::Seconds => value = seconds(&value).ok_or_else(|| no_time(name, &value))?.to_string(),
        }
        Ok(Some((name, value)))
    }

    pub(super) fn reset(&mut self, name: &str) -> Result<(), Problem> {
        self.set(name, "default")
    }

    pub(super) fn reset_all(&mut self) {
        self.values = Values { now: self.at_start.clone(), lasting: self.at_start.clone() };
    }

    /// What `name` is, and how it is written; `None` if nobody knows it.
    pub(super) fn get(&self, name: &str) -> Option<(&'static str, String)> {
        let (name, first, _) = known(name)?;
        Some((name, self.values.now.get(name).map_or(*first, |value| value).to_owned()))
    }

    /// The same, where somebody must know it.
    pub(super) fn named(&self, name: &str) -> Result<String, Problem> {
        self.get(name).map(|(_, value)| value).ok_or_else(|| unknown(name))
    }

    /// Whether tables of a schema are found without its name.
    pub(super) fn searches(&self, schema: &str, user: &str) -> bool {
        let path = self.get("search_path").map_or(String::new(), |(_, path)| path);
        path.split(',')
            .map(|name| name.trim().trim_matches('"'))
            .any(|name| schema == if name == "$user" { user } else { name })
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
            let value = self.values.now.get(name).map_or(first, |value| value);
            (name, value, first, !matches!(kind, Kind::ReadOnly))
        })
    }

    /// What clients hear of.
    pub(super) fn reported(&self) -> impl Iterator<Item = (String, String)> {
        REPORTED.iter().filter_map(|name| self.get(name)).map(|(name, value)| (name.to_owned(), value))
    }

    /// How long a statement may take.
    pub(super) fn statement_timeout(&self) -> Option<Duration> {
        self.time("statement_timeout")
    }

    /// How long a client may ask nothing while its transaction is open.
    pub(super) fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.time("idle_in_transaction_session_timeout")
    }

    /// Seconds after which the statements of the connection come again; 0 where that is learned.
    pub(super) fn again_in(&self) -> u32 {
        self.get("pagecast.again_in").and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    }

    /// A time, if one is set.
    fn time(&self, name: &str) -> Option<Duration> {
        let (_, value) = self.get(name)?;
        value.parse().ok().filter(|&millis| millis > 0).map(Duration::from_millis)
    }
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
    Problem::error("22023", format!("{name}: `{value}` is no time; write 5s or 2min"))
}

/// Seconds of `3600`, `90s` or `1h`.
fn seconds(text: &str) -> Option<u32> {
    let plain = text.trim().parse::<u64>().ok();
    plain.or_else(|| Some(milliseconds(text)? / 1000))?.try_into().ok()
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
        for (text, seconds) in [("3600", 3600), ("1d", 86_400), (" 90s", 90), ("default", 0)] {
            settings.set("pagecast.again_in", text).unwrap();
            assert_eq!(settings.again_in(), seconds, "{text}");
        }
        for text in ["soon", "-1", "99999999999"] {
            assert_eq!(settings.set("pagecast.again_in", text).unwrap_err().code, "22023", "{text}");
        }
        settings.set("idle_in_transaction_session_timeout", "1s").unwrap();
        assert_eq!(settings.idle_in_transaction_timeout(), Some(Duration::from_secs(1)));
        assert_eq!(settings.set("client_encoding", "'utf-8'"), Ok(()));
        assert_eq!(settings.set("client_encoding", "LATIN1").unwrap_err().code, "22023");
        assert_eq!(settings.set("timezone", "Europe/Berlin"), Ok(()));
        assert_eq!(settings.get("timezone"), Some(("TimeZone", "UTC".to_owned())));
        assert_eq!(settings.set("wal_level", "x").unwrap_err().code, "42704");
        assert_eq!(settings.set("server_version", "17").unwrap_err().code, "55P02");
    }

    #[test]
    fn transactions_take_settings_back() {
        let mut settings = Settings::of("ada", Duration::ZERO, &BTreeMap::new()).unwrap();
        let name = |settings: &Settings| settings.get("application_name").unwrap().1;
        settings.set_local("application_name", "nobody").unwrap();
        settings.commit();
        assert_eq!(name(&settings), "");
        settings.set("application_name", "a").unwrap();
        settings.begin();
        settings.set("application_name", "b").unwrap();
        settings.savepoint("s");
        settings.set_local("application_name", "c").unwrap();
        assert_eq!(name(&settings), "c");
        settings.roll_back_to("s").unwrap();
        assert_eq!(name(&settings), "b");
        settings.set_local("application_name", "d").unwrap();
        settings.commit();
        assert_eq!(name(&settings), "b");
        settings.begin();
        settings.set("application_name", "e").unwrap();
        assert_eq!(settings.roll_back_to("s").unwrap_err().code, "3B001");
        settings.roll_back();
        assert_eq!(name(&settings), "b");
    }
}
