//! A policy as it is asked for, `name(parameter=value,...)`: read, checked and made.

use super::catalog::{CATALOG, Entry, check, names, visit};
use super::parameters::{PolicyError, Values, resolve, split_call, split_list};
use super::{ConcurrentPolicy, Policy, SequentialPolicy, Visitor};
use alloc::{borrow::ToOwned, boxed::Box, string::String, vec::Vec};
use core::{fmt, str::FromStr};

/// A policy by name and parameters, checked.
///
/// ```
/// use pagecast_core::policy::{Policy, PolicySpec};
///
/// let clock: PolicySpec = "clock(max=3)".parse()?;
/// assert_eq!((clock.name(), clock.params().as_str()), ("clock(max=3)", "max=3,init=1"));
/// assert!(matches!(clock.build(1024, 42)?, Policy::Concurrent(_)));
/// # Ok::<(), pagecast_core::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicySpec {
    text: String,
    entry: &'static Entry,
    values: Values,
}

impl PolicySpec {
    /// Reads `name` or `name(parameter=value,...)`; parameters that are not named take their
    /// defaults.
    ///
    /// # Errors
    ///
    /// The name or a parameter is unknown, a value is out of range, values exclude each other, or
    /// the text has another form.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(PolicyError::Syntax { text: String::new(), reason: "the name is missing" });
        }
        let (name, arguments) = split_call(text)?;
        let entry = CATALOG
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| PolicyError::UnknownPolicy { name: name.to_owned(), known: names().collect() })?;
        let values = resolve(entry.name, entry.parameters, arguments)?;
        check(entry.name, &values)?;
        Ok(Self { text: text.to_owned(), entry, values })
    }

    /// Reads policies separated by commas; commas inside parentheses do not separate.
    ///
    /// # Errors
    ///
    /// That of the first which cannot be read; an empty place between commas is one.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PolicyError> {
        split_list(text).map(Self::parse).collect()
    }

    /// The policy as it was given.
    pub fn name(&self) -> &str {
        &self.text
    }

    /// The name without parameters.
    pub fn algorithm(&self) -> &'static str {
        self.entry.name
    }

    /// All parameters with their values, `max=5,init=1`; empty if there are none.
    pub fn params(&self) -> String {
        alloc::format!("{}", self.values)
    }

    /// Whether the policy needs to know the future ([`super::Belady`]) and only a replay can run
    /// it.
    pub fn needs_trace(&self) -> bool {
        self.entry.name == "opt"
    }

    /// Whether whoever runs the policy is to expect queries that come back, as `pbm(forecast=on)`
    /// asks for; see [`Forecast`](crate::forecast::Forecast). The policy itself is the same.
    pub fn forecasts(&self) -> bool {
        self.entry.name == "pbm" && self.values.is("forecast", "on")
    }

    /// Whether the policy looks at how page ids lie to each other, so that a replay must not number
    /// the pages anew. `pbm` does so for pages that scans read, and a replay of scans keeps their
    /// ids for every policy.
    pub fn needs_page_ids(&self) -> bool {
        matches!(self.entry.name, "cfdc" | "pbm-pq" | "lru-2prio")
    }

    /// An upper bound for the bytes of memory that the policy takes for each frame, ghosts
    /// included, beside the frame's own word: what a pool sets aside before it is built, with
    /// [`PolicySpec::bytes_apart`]. What `opt` needs to know of its trace is not in it.
    pub fn bytes_per_frame(&self) -> u32 {
        let bytes = (self.entry.memory)(&self.values, 1).per_frame;
        bytes as u32 + u32::from(f64::from(bytes as u32) < bytes)
    }

    /// An upper bound for the bytes of memory that the policy takes beside, in a pool of `frames`
    /// frames: what does not grow with them, or only so far.
    pub fn bytes_apart(&self, frames: u32) -> u32 {
        (self.entry.memory)(&self.values, frames).apart
    }

    /// The policy for `frames` frames, handed to `visitor` with its type. `seed` decides what it
    /// leaves to chance.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NoFrames`] for no frames, [`PolicyError::NeedsTrace`] for `opt`.
    pub fn visit<V: Visitor>(&self, frames: u32, seed: u64, visitor: V) -> Result<V::Output, PolicyError> {
        if frames == 0 {
            return Err(PolicyError::NoFrames);
        }
        if self.needs_trace() {
            return Err(PolicyError::NeedsTrace { policy: self.entry.name });
        }
        visit(self.entry.name, (frames, &self.values, seed), visitor)
    }

    /// The policy for `frames` frames, boxed. `seed` decides what it leaves to chance.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NoFrames`] for no frames, [`PolicyError::NeedsTrace`] for `opt`.
    pub fn build(&self, frames: u32, seed: u64) -> Result<Policy, PolicyError> {
        struct Boxed;
        impl Visitor for Boxed {
            type Output = Policy;
            fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Policy {
                Policy::Concurrent(Box::new(policy))
            }
            fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Policy {
                Policy::Sequential(Box::new(policy))
            }
        }
        self.visit(frames, seed, Boxed)
    }
}

impl FromStr for PolicySpec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::parse(text)
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloc::string::ToString;

    fn error(text: &str) -> String {
        PolicySpec::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn names_are_sorted_and_parse() {
        assert!(CATALOG.is_sorted_by(|a, b| a.name < b.name));
        for name in names() {
            let spec = PolicySpec::parse(name).unwrap();
            assert_eq!((spec.name(), spec.algorithm()), (name, name));
            let resolved = alloc::format!("{name}({})", spec.params());
            assert_eq!(PolicySpec::parse(&resolved).unwrap().params(), spec.params(), "{resolved}");
        }
    }

    #[test]
    fn what_excludes_each_other_is_refused_in_one_line() {
        assert_eq!(
            error("pbm-published(bulk=20)"),
            "policy `pbm-published`: `bulk=20` needs `samples=20` or more, not 10"
        );
        assert!(PolicySpec::parse("pbm-published(bulk=20,samples=20)").is_ok());
        assert_eq!(
            error("pbm(samples=some)"),
            "policy `pbm`: `samples=some` must be a whole number from 1 to 256, or all"
        );
        assert_eq!(error("pbm(history=1)"), "policy `pbm`: `history=1` must be one of on, off");
        assert_eq!(
            error("pbm(frequency=off)"),
            "policy `pbm` has no parameter `frequency`; it has samples, history, forecast"
        );
        assert_eq!(error("lirs(hir=101%)"), "policy `lirs`: `hir=101%` must be a share from 0% to 100%");
    }

    /// Every line of the catalog asks for what it declares, by its kind, and says what it takes.
    #[test]
    fn every_policy_can_be_made_from_its_line() {
        for spec in names().map(|name| PolicySpec::parse(name).unwrap()).filter(|spec| !spec.needs_trace()) {
            assert!(spec.build(3, 1).is_ok(), "{spec}");
            assert!(spec.bytes_apart(3) >= 4 << 10, "{spec}");
        }
        let params = |text: &str| PolicySpec::parse(text).unwrap().params();
        assert_eq!(params("pbm-paper"), "samples=10,bulk=1,frequency=off,fallback=off");
        assert_eq!(params("pbm(samples=all)"), "samples=all,history=on,forecast=off");
        assert_eq!(params("2q"), "in=25%,out=50%");
    }

    #[test]
    fn a_list_splits_outside_parentheses_only() {
        let list = PolicySpec::parse_list("clock(max=1, init=0), lru,pbm").unwrap();
        assert_eq!(list.iter().map(PolicySpec::name).collect::<Vec<_>>(), ["clock(max=1, init=0)", "lru", "pbm"]);
        assert_eq!(list[0].params(), "max=1,init=0");
        assert!(PolicySpec::parse_list("clock,,lru").is_err());
        assert!(PolicySpec::parse_list("clock,").is_err());
    }

    #[test]
    fn errors_name_what_there_is() {
        assert!(error("clok").contains("unknown policy `clok`; there are"));
        assert!(error("clok").contains("clock,"));
        assert_eq!(error("clock(maks=2)"), "policy `clock` has no parameter `maks`; it has max, init");
        assert_eq!(error("lru(k=2)"), "policy `lru` takes no parameters, not even `k`");
        for bad in ["NaN", "-1", "300", "2.5", "", "9999999999999999999999"] {
            let text = alloc::format!("clock(max={bad})");
            assert_eq!(
                error(&text),
                alloc::format!("policy `clock`: `max={bad}` must be a whole number from 0 to 255")
            );
        }
        for bad in ["", "clock(", "clock)", "clock(max)", "clock(max=1,max=2)", "clock((max=1))", "clock(max=1)x"] {
            assert!(error(bad).contains("write name or name(parameter=value,...)"), "{bad}: {}", error(bad));
        }
    }

    #[test]
    fn no_frames_and_no_future_are_refused() {
        assert_eq!(PolicySpec::parse("lru").unwrap().build(0, 1).err(), Some(PolicyError::NoFrames));
        let opt = PolicySpec::parse("opt").unwrap();
        assert!(opt.needs_trace());
        assert_eq!(opt.build(8, 1).err(), Some(PolicyError::NeedsTrace { policy: "opt" }));
    }
}
