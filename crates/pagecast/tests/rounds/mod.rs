//! How long the tests with a seed go on: a few rounds, or for as long as somebody asks for.

use std::time::{Duration, Instant};

/// The seeds of the rounds: `short` of them, from 1 on. With `DURABILITY_SECONDS` set, as many as
/// there is time for, from `DURABILITY_SEED` on, which the output says.
pub(crate) fn rounds(short: u64) -> Box<dyn Iterator<Item = u64>> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a whole number"));
    let first = number("DURABILITY_SEED").unwrap_or(1);
    let Some(seconds) = number("DURABILITY_SECONDS") else { return Box::new(first..first + short) };
    println!("from seed {first} on, for {seconds} seconds");
    let end = Instant::now() + Duration::from_secs(seconds);
    Box::new((first..).take_while(move |_| Instant::now() < end))
}
