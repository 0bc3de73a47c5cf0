//! Who may connect: the users of --users, each with a password and, where they differ from the
//! others', limits.
//!
//! A password is kept as PostgreSQL keeps it: salt, StoredKey and ServerKey of SCRAM-SHA-256
//! (RFC 5802, 7677), with which nobody can log in. Lines of `pg_authid` work as they are.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{SCRAM_ITERATIONS, ScramSecret, gen_salted_password};
use tokio_rustls::rustls::crypto::{SecureRandom, ring};

use pagecast_sim::size::{self, Size};

const SCHEME: &str = "SCRAM-SHA-256$";
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// The users that there are.
#[derive(Debug)]
pub struct Users {
    users: HashMap<String, User>,
    /// What stands in for the salts of those who do not exist, so that the two look the same.
    nobody: Vec<u8>,
}

/// One user.
#[derive(Debug)]
pub(super) struct User {
    verifier: Verifier,
    /// Most bytes that DataFusion may take for the user's queries.
    pub(super) memory: Option<u64>,
    /// Most queries of the user that run at once.
    pub(super) queries: Option<usize>,
    /// Most clients of the user that are connected at once.
    pub(super) connections: Option<usize>,
    /// Most of the pool that the user's scans may fill, of 1.
    pub(super) share: Option<f64>,
    /// Finds a place when there is none for others.
    pub(super) administrator: bool,
}

#[derive(Debug)]
struct Verifier {
    salt: Vec<u8>,
    iterations: usize,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Users {
    /// The users of a file: a line for each, `name password`, then `memory=1GiB`, `queries=4`,
    /// `connections=10`, `share=25%` and `admin` if wanted. Empty lines and those that
    /// begin with `#` are none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line is wrong: names the line, and never a password.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut users = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = || format!("{}:{}", path.display(), number + 1);
            let (name, user) = user(line).with_context(place)?;
            if users.insert(name.to_owned(), user).is_some() {
                bail!("{}: user {name} is there twice", place());
            }
        }
        if users.is_empty() {
            bail!("{} names no user; a line is `name password`", path.display());
        }
        Ok(Self { users, nobody: random(KEY_BYTES)? })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &User)> {
        self.users.iter()
    }

    /// What `name` proves a password against. Of a user who does not exist that is something that
    /// no password fits, and the same at every try.
    pub(super) fn secret(&self, name: &str) -> ScramSecret {
        match self.users.get(name) {
            Some(User { verifier, .. }) => ScramSecret::Verifier {
                salt: verifier.salt.clone(),
                iterations: verifier.iterations,
                stored_key: verifier.stored_key.clone(),
                server_key: verifier.server_key.clone(),
            },
            None => {
                let mut salt = gen_salted_password(name, &self.nobody, 1);
                let stored_key = salt.split_off(SALT_BYTES);
                let stored_key = gen_salted_password(name, &stored_key, 1);
                let server_key = stored_key.clone();
                ScramSecret::Verifier { salt, iterations: SCRAM_ITERATIONS, stored_key, server_key }
            }
        }
    }

    /// Whether a password that was sent is the user's. It takes milliseconds of computing, also for
    /// a user who does not exist.
    #[cfg(feature = "flight")]
    pub(super) fn fits(&self, name: &str, password: &str) -> bool {
        let ScramSecret::Verifier { salt, iterations, stored_key, .. } = self.secret(name) else { return false };
        let salted = gen_salted_password(password, &salt, iterations);
        match ScramSecret::verifier_from_salted_password(salt, salted, iterations) {
            ScramSecret::Verifier { stored_key: sent, .. } => are_same(&sent, &stored_key),
            ScramSecret::SaltedPassword { .. } => false,
        }
    }
}

/// Whether the bytes are the same; how long it takes does not say where they differ.
#[cfg(feature = "flight")]
fn are_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// The user of a line.
fn user(line: &str) -> anyhow::Result<(&str, User)> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(password)) = (words.next(), words.next()) else {
        bail!("no password follows the user's name; a line is `name password`");
    };
    let verifier = match password.strip_prefix(SCHEME) {
        Some(rest) => Verifier::parse(rest).ok_or_else(|| anyhow!("the password of {name} is no {SCHEME}..."))?,
        None => Verifier::of(password)?,
    };
    let mut user = User { verifier, memory: None, queries: None, connections: None, share: None, administrator: false };
    for word in words {
        match word.split_once('=') {
            Some(("memory", size)) => match size.parse() {
                Ok(Size::Bytes(bytes)) if bytes > 0 => user.memory = Some(bytes),
                _ => bail!("memory={size} is no amount of memory; write memory=1GiB"),
            },
            Some(("queries", count)) => match count.parse() {
                Ok(count) if count > 0 => user.queries = Some(count),
                _ => bail!("queries={count} is no number of queries; write queries=4"),
            },
            Some(("connections", count)) => match count.parse() {
                Ok(count) if count > 0 => user.connections = Some(count),
                _ => bail!("connections={count} is no number of connections; write connections=10"),
            },
            Some(("share", size)) => {
                user.share = Some(size::share(size).map_err(|what| anyhow!("share={size}: {what}"))?);
            }
            None if word == "admin" => user.administrator = true,
            _ => bail!(
                "`{word}` is unknown; what may follow a password is memory=1GiB, queries=4, connections=10, share=25% \
                 and admin"
            ),
        }
    }
    Ok((name, user))
}

impl Verifier {
    /// Of a password.
    fn of(password: &str) -> anyhow::Result<Self> {
        let salt = random(SALT_BYTES)?;
        let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        match ScramSecret::verifier_from_salted_password(salt, salted, SCRAM_ITERATIONS) {
            ScramSecret::Verifier { salt, iterations, stored_key, server_key } => {
                Ok(Self { salt, iterations, stored_key, server_key })
            }
            ScramSecret::SaltedPassword { .. } => bail!("a password cannot be kept"),
        }
    }

    /// Of `4096:salt$StoredKey:ServerKey`, each in base64.
    fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.split_once('$')?;
        let ((iterations, salt), (stored, server)) = (head.split_once(':')?, keys.split_once(':')?);
        let of_base64 = |text: &str| STANDARD.decode(text).ok();
        let verifier = Self {
            salt: of_base64(salt)?,
            iterations: iterations.parse().ok().filter(|&count| count > 0)?,
            stored_key: of_base64(stored)?,
            server_key: of_base64(server)?,
        };
        let keys = [&verifier.stored_key, &verifier.server_key];
        (keys.iter().all(|key| key.len() == KEY_BYTES) && !verifier.salt.is_empty()).then_some(verifier)
    }
}

/// Bytes that nobody can guess.
pub(super) fn random(count: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let source: &dyn SecureRandom = ring::default_provider().secure_random;
    source.fill(&mut bytes).map_err(|_| anyhow!("the system gives no random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_have_a_name_a_password_and_limits() {
        let (name, one) = user("ada secret memory=64MiB queries=2 share=25% connections=3 admin").unwrap();
        assert_eq!((name, one.memory, one.queries, one.share), ("ada", Some(64 << 20), Some(2), Some(0.25)));
        assert_eq!((one.connections, one.administrator), (Some(3), true));
        for (line, what) in [
            ("ada", "no password"),
            ("ada x memory=0", "memory=0"),
            ("ada x queries=many", "queries=many"),
            ("ada x connections=0", "connections=0"),
            ("ada x share=0%", "share=0%"),
            ("ada x share=2", "share=2"),
            ("ada x y", "`y` is unknown"),
            ("ada SCRAM-SHA-256$4096:AAAA", "is no SCRAM-SHA-256$"),
        ] {
            let error = user(line).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_line_of_postgresql_is_a_password() {
        let key = STANDARD.encode([7; KEY_BYTES]);
        let line = format!("ada SCRAM-SHA-256$4096:{}${key}:{key}", STANDARD.encode([1; SALT_BYTES]));
        let (_, ada) = user(&line).unwrap();
        assert_eq!((ada.verifier.iterations, ada.verifier.salt.len()), (4096, SALT_BYTES));
    }
}
