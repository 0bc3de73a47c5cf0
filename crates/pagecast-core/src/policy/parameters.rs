//! Policies as text: `name(parameter=value,...)`, its values checked against what the policy declares, and the errors.

use super::ALL;
use alloc::{borrow::ToOwned, format, string::String, vec::Vec};
use core::fmt;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A whole number between the two, both included.
    Count(u64, u64),
    /// A whole number between the two, both included, or `all`, which is [`super::ALL`].
    CountOrAll(u32, u32),
    /// A number between the two, both included.
    Number(f64, f64),
    /// A part of the pool between the two, both included: `0.25` or `25%`. With an upper end above 1, a multiple.
    Share(f64, f64),
    /// One of these words; the value is its index.
    Word(&'static [&'static str]),
}

/// A parameter that a policy declares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) default: f64,
    pub(super) kind: Kind,
}

/// Why a policy could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has this name.
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// The policy has no parameter of this name.
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// The parameter asked for.
        parameter: String,
        /// The parameters that the policy has.
        known: Vec<&'static str>,
    },
    /// The value is no number, not a number of the right kind, or out of range.
    BadValue {
        /// The policy.
        policy: &'static str,
        /// Its parameter.
        parameter: &'static str,
        /// The value as given.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// The text is not `name` or `name(parameter=value,...)`.
    Syntax {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A pool without frames has no victim.
    NoFrames,
    /// The policy looks into the future, which only the replay of a trace has.
    NeedsTrace {
        /// The policy.
        policy: &'static str,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy { name, known } => {
                write!(f, "unknown policy `{name}`; there are {}", known.join(", "))
            }
            Self::UnknownParameter { policy, parameter, known } if known.is_empty() => {
                write!(f, "policy `{policy}` takes no parameters, not even `{parameter}`")
            }
            Self::UnknownParameter { policy, parameter, known } => {
                write!(f, "policy `{policy}` has no parameter `{parameter}`; it has {}", known.join(", "))
            }
            Self::BadValue { policy, parameter, value, expected } => {
                write!(f, "policy `{policy}`: `{parameter}={value}` must be {expected}")
            }
            Self::Syntax { text, reason } => {
                write!(f, "policy `{text}`: {reason}; write name or name(parameter=value,...)")
            }
            Self::NoFrames => f.write_str("a replacement policy needs at least one frame"),
            Self::NeedsTrace { policy } => {
                write!(f, "policy `{policy}` needs to know the future and works only in the replay of a trace")
            }
        }
    }
}

impl core::error::Error for PolicyError {}

impl Kind {
    /// The value that `text` stands for.
    fn parse(self, text: &str) -> Option<f64> {
        match self {
            Kind::Count(low, high) => text.parse::<u64>().ok().filter(|n| (low..=high).contains(n)).map(|n| n as f64),
            Kind::CountOrAll(..) if text == "all" => Some(ALL.into()),
            Kind::CountOrAll(low, high) => Kind::Count(low.into(), high.into()).parse(text),
            Kind::Number(low, high) => finite(text).filter(|n| (low..=high).contains(n)),
            Kind::Share(low, high) => {
                let share = match text.strip_suffix('%') {
                    Some(percent) => finite(percent)? / 100.0,
                    None => finite(text)?,
                };
                Some(share).filter(|n| (low..=high).contains(n))
            }
            Kind::Word(words) => words.iter().position(|&word| word == text).map(|i| i as f64),
        }
    }

    fn expected(self) -> String {
        match self {
            Kind::Count(low, high) => format!("a whole number from {low} to {high}"),
            Kind::CountOrAll(low, high) => format!("a whole number from {low} to {high}, or all"),
            Kind::Number(low, high) => format!("a number from {low} to {high}"),
            Kind::Share(low, high) => {
                format!("a share from {} to {}", Percent(low), Percent(high))
            }
            Kind::Word(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// Writes `value` in the form that `parse` reads.
    pub(super) fn write(self, f: &mut impl fmt::Write, value: f64) -> fmt::Result {
        match self {
            Kind::CountOrAll(..) if value == f64::from(ALL) => f.write_str("all"),
            Kind::Count(..) | Kind::CountOrAll(..) | Kind::Number(..) => write!(f, "{value}"),
            Kind::Share(..) => write!(f, "{}", Percent(value)),
            Kind::Word(words) => f.write_str(words[value as usize]),
        }
    }
}

/// A share, written with up to ten digits so that binary fractions do not show.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:.8}", self.0 * 100.0);
        write!(f, "{}%", digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|n| n.is_finite())
}

/// Splits `name(arguments)` into its two parts; the second is empty for a bare name.
pub(super) fn split_call(text: &str) -> Result<(&str, &str), PolicyError> {
    let syntax = |reason| PolicyError::Syntax { text: text.to_owned(), reason };
    let Some((name, rest)) = text.split_once('(') else {
        return if text.contains(')') { Err(syntax("`)` without `(`")) } else { Ok((text, "")) };
    };
    let arguments = rest.strip_suffix(')').ok_or_else(|| syntax("the text does not end in `)`"))?;
    if arguments.contains(['(', ')']) {
        return Err(syntax("parentheses inside parentheses"));
    }
    Ok((name.trim_end(), arguments))
}

/// The values of all parameters in the order of their declaration, `arguments` over the defaults.
pub(super) fn resolve(
    policy: &'static str,
    declared: &'static [Parameter],
    arguments: &str,
) -> Result<Vec<f64>, PolicyError> {
    let mut values: Vec<f64> = declared.iter().map(|parameter| parameter.default).collect();
    let mut given = alloc::vec![false; declared.len()];
    if arguments.trim().is_empty() {
        return Ok(values);
    }
    for argument in arguments.split(',') {
        let syntax = |reason| PolicyError::Syntax { text: format!("{policy}({arguments})"), reason };
        let (name, value) = argument.split_once('=').ok_or_else(|| syntax("a parameter without `=`"))?;
        let (name, value) = (name.trim(), value.trim());
        let i = declared.iter().position(|parameter| parameter.name == name).ok_or_else(|| {
            PolicyError::UnknownParameter {
                policy,
                parameter: name.to_owned(),
                known: declared.iter().map(|parameter| parameter.name).collect(),
            }
        })?;
        if core::mem::replace(&mut given[i], true) {
            return Err(syntax("a parameter is given twice"));
        }
        values[i] = declared[i].kind.parse(value).ok_or_else(|| PolicyError::BadValue {
            policy,
            parameter: declared[i].name,
            value: value.to_owned(),
            expected: declared[i].kind.expected(),
        })?;
    }
    Ok(values)
}

/// Splits at the commas that are not inside parentheses.
pub(super) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
}
