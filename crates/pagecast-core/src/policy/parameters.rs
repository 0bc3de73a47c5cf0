//! Policies as text: `name(parameter=value,...)`, its values checked against what the policy
//! declares, and the errors.

use super::ALL;
use alloc::{borrow::ToOwned, format, string::String, vec::Vec};
use core::fmt;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A whole number between the two, both included.
    Count(u64, u64),
    /// A whole number between the two, both included, or `all`, which is [`super::ALL`].
    CountOrAll(u64, u64),
    /// A number between the two, both included.
    Number(f64, f64),
    /// A part of the pool between the two, both included: `0.25` or `25%`. With an upper end above
    /// 1, a multiple.
    Share(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
}

/// What a parameter is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// Of a count.
    Count(u64),
    /// Of a number or a share.
    Number(f64),
    /// Of a word.
    Word(&'static str),
}

/// A parameter that a policy declares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) default: Value,
    pub(super) kind: Kind,
}

/// All parameters of a policy with their values.
#[derive(Clone, Debug)]
pub(super) struct Values {
    declared: &'static [Parameter],
    values: Vec<Value>,
}

/// The memory of a policy beside the word in each frame's header, ghosts included: an upper bound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Memory {
    /// Bytes for each frame.
    pub(super) per_frame: f64,
    /// Bytes beside: what does not grow with the frames, or only so far.
    pub(super) apart: u32,
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
    /// Two of the values exclude each other.
    Contradiction {
        /// The policy.
        policy: &'static str,
        /// Which, and what would do.
        reason: String,
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
            Self::Contradiction { policy, reason } => write!(f, "policy `{policy}`: {reason}"),
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
    fn parse(self, text: &str) -> Option<Value> {
        let number = |text: &str, low: f64, high: f64| {
            let number = text.parse::<f64>().ok().filter(|n| n.is_finite())?;
            Some(number).filter(|n| (low..=high).contains(n))
        };
        match self {
            Kind::CountOrAll(..) if text == "all" => Some(Value::Count(ALL.into())),
            Kind::Count(low, high) | Kind::CountOrAll(low, high) => {
                text.parse().ok().filter(|n| (low..=high).contains(n)).map(Value::Count)
            }
            Kind::Number(low, high) => number(text, low, high).map(Value::Number),
            Kind::Share(low, high) => match text.strip_suffix('%') {
                Some(percent) => {
                    number(percent, 100.0 * low, 100.0 * high).map(|percent| Value::Number(percent / 100.0))
                }
                None => number(text, low, high).map(Value::Number),
            },
            Kind::Word(words) => words.iter().find(|&&word| word == text).copied().map(Value::Word),
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
    fn write(self, f: &mut impl fmt::Write, value: Value) -> fmt::Result {
        match (self, value) {
            (Kind::CountOrAll(..), Value::Count(count)) if count == u64::from(ALL) => f.write_str("all"),
            (_, Value::Count(count)) => write!(f, "{count}"),
            (Kind::Share(..), Value::Number(share)) => write!(f, "{}", Percent(share)),
            (_, Value::Number(number)) => write!(f, "{number}"),
            (_, Value::Word(word)) => f.write_str(word),
        }
    }
}

impl Values {
    fn value(&self, name: &str) -> Value {
        let at = self.declared.iter().position(|parameter| parameter.name == name);
        self.values[at.expect("a policy asks for parameters that it declares")]
    }

    /// The value of a count that the policy declares.
    pub(super) fn count(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Count(count) => count,
            other => panic!("`{name}` is declared as another kind: {other:?}"),
        }
    }

    /// The same, of one that is declared below 2^32.
    pub(super) fn small(&self, name: &str) -> u32 {
        self.count(name) as u32
    }

    /// The value of a number or share that the policy declares.
    pub(super) fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Number(number) => number,
            other => panic!("`{name}` is declared as another kind: {other:?}"),
        }
    }

    /// Whether a word that the policy declares is this one.
    pub(super) fn is(&self, name: &str, word: &str) -> bool {
        self.word(name) == word
    }

    /// The value of a word that the policy declares.
    pub(super) fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Word(word) => word,
            other => panic!("`{name}` is declared as another kind: {other:?}"),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (parameter, &value)) in self.declared.iter().zip(&self.values).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{}=", parameter.name)?;
            parameter.kind.write(f, value)?;
        }
        Ok(())
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
) -> Result<Values, PolicyError> {
    let mut values: Vec<Value> = declared.iter().map(|parameter| parameter.default).collect();
    let mut given = alloc::vec![false; declared.len()];
    if arguments.trim().is_empty() {
        return Ok(Values { declared, values });
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
    Ok(Values { declared, values })
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
