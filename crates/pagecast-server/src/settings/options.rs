//! Settings of a connection's first message: `-c statement_timeout=5s --geqo=off`. libpq has them
//! of `options` and PGOPTIONS.

use crate::problem::Problem;

/// Names and values. A backslash takes the next character as it is, a blank too.
pub(super) fn read(options: &str) -> Result<Vec<(String, String)>, Problem> {
    let (mut settings, mut words) = (Vec::new(), words(options).into_iter());
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next().ok_or_else(|| wrong("-c", "a setting is missing behind it"))?
        } else if let Some(setting) = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            setting.to_owned()
        } else {
            return Err(wrong(&word, "write -c name=value or --name=value"));
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| wrong(&setting, "a value is missing"))?;
        // A name on the command line has lines where others have underlines.
        settings.push((name.trim().replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn wrong(word: &str, what: &str) -> Problem {
    Problem::error("42601", format!("invalid command-line argument for server process: {word}: {what}"))
}

fn words(options: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn options_are_settings() {
        let of = |options: &str| {
            let settings = read(options).unwrap();
            settings.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            of("-c statement_timeout=5s -csearch_path=x --lock-timeout=1"),
            ["statement_timeout=5s", "search_path=x", "lock_timeout=1"]
        );
        assert_eq!(of("  -c application_name=a\\ b\\\\c  "), ["application_name=a b\\c"]);
        assert!(of("").is_empty());
        for wrong in ["-c", "-c x", "-x", "x=1"] {
            assert_eq!(read(wrong).unwrap_err().code, "42601", "{wrong}");
        }
    }
}
