//! A tier as it is asked for, `name(parameter=value,...)`.

use crate::simulation::SimulationError;
use pagecast_core::policy::{Batching, PolicySpec};
use pagecast_core::random::Random;
use pagecast_core::tier::{Admission, Budget, Offer, Predicted, SecondTouch, Tier};
use std::fmt;

/// What fills a tier, and who leaves it.
#[derive(Clone, Debug)]
pub struct FlashSpec {
    text: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Slots of a page each, and the policy that says who leaves.
    Slots(AdmissionSpec, PolicySpec),
    /// Blocks of so many pages, first in, first out.
    Blocks(u32),
    /// The fewest reads from the store that there can be under the pool.
    Opt,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum AdmissionSpec {
    /// This part of all, by chance.
    Share(f64),
    SecondTouch,
    /// Ours: the reads that a write is to be worth, and the pages that may be written per request.
    Predicted {
        reads: u32,
        budget: Option<f64>,
    },
}

/// The names that there are.
const KNOWN: &str = "predicted, second-touch, tenth, all, blocks, opt";
const DEFAULT_BLOCK: u32 = 64;

impl FlashSpec {
    /// Reads `predicted(reads=32,budget=5%,evict=pbm)`, `second-touch(evict=lru)`,
    /// `tenth(evict=lru)`, `all(evict=lru)`, `blocks(pages=64)` or `opt`. `evict` is any policy of
    /// the pool.
    ///
    /// ```
    /// use pagecast_sim::flash::FlashSpec;
    ///
    /// assert_eq!(FlashSpec::parse("all(evict=pbm(samples=64))").unwrap().to_string(), "all(evict=pbm(samples=64))");
    /// assert!(FlashSpec::parse("al").unwrap_err().contains("second-touch"));
    /// assert!(FlashSpec::parse("opt(evict=lru)").unwrap_err().contains("no parameter"));
    /// ```
    ///
    /// # Errors
    ///
    /// What is wrong, and what there is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, arguments) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => {
                (name, rest.strip_suffix(')').ok_or_else(|| format!("`{text}` does not end in `)`"))?)
            }
        };
        let mut arguments = Arguments::split(text, arguments)?;
        let kind = match name {
            "predicted" => {
                let reads = arguments.number("reads", 1.0, 1e6)?.map_or(Predicted::READS, |reads| reads as u32);
                let budget = arguments.number("budget", 0.0, 1e6)?;
                Kind::Slots(AdmissionSpec::Predicted { reads, budget }, arguments.policy("pbm")?)
            }
            "second-touch" => Kind::Slots(AdmissionSpec::SecondTouch, arguments.policy("lru")?),
            "tenth" => Kind::Slots(AdmissionSpec::Share(0.1), arguments.policy("lru")?),
            "all" => Kind::Slots(AdmissionSpec::Share(1.0), arguments.policy("lru")?),
            "blocks" => {
                let pages = arguments.number("pages", 1.0, f64::from(u32::MAX))?;
                Kind::Blocks(pages.map_or(DEFAULT_BLOCK, |pages| pages as u32))
            }
            "opt" => Kind::Opt,
            _ => return Err(format!("no tier `{name}`; there are {KNOWN}")),
        };
        arguments.finish(name)?;
        Ok(Self { text: text.to_owned(), kind })
    }

    /// Ours and what it is measured against, each as it is by default.
    pub const DEFAULTS: &str = "predicted,second-touch,tenth,all,blocks,opt";
}

impl fmt::Display for FlashSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What stands in the parentheses and was not asked for yet.
struct Arguments<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Arguments<'a> {
    /// Commas in parentheses belong to a policy.
    fn split(text: &str, arguments: &'a str) -> Result<Self, String> {
        let mut depth = 0;
        let parts = arguments.split(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && depth == 0
        });
        let pair = |part: &'a str| {
            let (name, value) = part.split_once('=')?;
            Some((name.trim(), value.trim()))
        };
        let parts = parts.filter(|part| !part.trim().is_empty());
        let pairs: Option<Vec<_>> = parts.map(pair).collect();
        pairs.map(Self).ok_or_else(|| format!("`{text}` is not name(parameter=value,...)"))
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|(given, _)| *given == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn number(&mut self, name: &str, low: f64, high: f64) -> Result<Option<f64>, String> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let number = match text.strip_suffix('%') {
            Some(percent) => percent.parse().map(|percent: f64| percent / 100.0),
            None => text.parse(),
        };
        let number = number.ok().filter(|number| (low..=high).contains(number));
        number.map(Some).ok_or_else(|| format!("`{name}={text}` must be a number from {low} to {high}"))
    }

    fn policy(&mut self, default: &str) -> Result<PolicySpec, String> {
        let spec: PolicySpec = self.take("evict").unwrap_or(default).parse().map_err(|error| format!("{error}"))?;
        if spec.needs_trace() {
            return Err(format!("`evict={spec}` needs the future; there is the tier `opt`"));
        }
        Ok(spec)
    }

    fn finish(self, name: &str) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |(unknown, _)| Err(format!("tier `{name}` has no parameter `{unknown}`")))
    }
}

/// A tier of `slots` slots.
pub(super) fn tier(
    admission: AdmissionSpec,
    evict: &PolicySpec,
    slots: u32,
    seed: u64,
) -> Result<Tier, SimulationError> {
    let admission: Box<dyn Admission + Send> = match admission {
        AdmissionSpec::Share(share) => Box::new(Share { share, random: Random::new(seed) }),
        AdmissionSpec::SecondTouch => Box::new(SecondTouch::new(slots)),
        AdmissionSpec::Predicted { reads, budget } => {
            let budget = budget.map_or(Budget::unlimited(), |per_tick| Budget::new(per_tick, slots));
            Box::new(Predicted::new(slots, budget).with_reads(reads))
        }
    };
    let policy = evict.build(slots, seed)?.into_concurrent(Batching::OFF);
    Ok(Tier::new(slots, policy, admission))
}

struct Share {
    share: f64,
    random: Random,
}

impl Admission for Share {
    fn admits(&mut self, _offer: &Offer) -> bool {
        self.random.unit() < self.share
    }
}
