//! The fewest misses of any fixed content of the memory, which is a bound for every buffer if
//! requests are independent of each other, as those of `tuples(...)` are.
//!
//! Each page is held whole, in part as its hottest items, or not at all, whatever gives the most
//! hits for its bytes. A price for a byte decides that for each page by itself. The price at which
//! the memory is just used gives the bound: Lagrange's relaxation, which is never below the best
//! content. How often an item is asked for is counted in the trace itself.

use super::{Charges, first_counted, rows_of};
use crate::trace::Trace;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::tuples::Counts;

/// A choice for a page: its bytes, and the requests that it answers.
type Choice = (f64, f64);

/// The bound for `trace` in `memory` bytes, of what follows the part `skip`: with pages alone, or
/// with items.
pub(super) fn bound(trace: &Trace, charges: &Charges, memory: u64, skip: f64, pages_only: bool) -> Counts {
    let from = first_counted(trace, skip);
    let mut counts: HashMap<(u32, u32), u64, FixedState> = HashMap::default();
    for at in from..trace.requests().len() {
        *counts.entry((trace.requests()[at], trace.item(at).unwrap_or(u32::MAX))).or_default() += 1;
    }
    let mut items: Vec<Vec<u64>> = vec![Vec::new(); trace.unique() as usize];
    let mut choices: Vec<Vec<Choice>> = vec![vec![(f64::from(charges.frame), 0.0)]; trace.unique() as usize];
    for (&(page, item), &count) in &counts {
        choices[page as usize][0].1 += count as f64;
        if item != u32::MAX && !pages_only {
            items[page as usize].push(count);
        }
    }
    for ((choices, items), &page) in choices.iter_mut().zip(&mut items).zip(trace.pages()) {
        items.sort_unstable_by(|a, b| b.cmp(a));
        let length = rows_of(trace, page, charges).bytes;
        let mut hits = 0;
        for (count, item) in (1..).zip(items.iter()) {
            hits += item;
            if let Some(slot) = charges.room.slot(count, count * length) {
                choices.push((f64::from(charges.room.charge(slot.per_slab)), hits as f64));
            }
        }
    }
    let requests = (trace.requests().len() - from) as u64;
    let hits = (most_hits(&choices, memory as f64) as u64).min(requests);
    Counts { requests, misses: requests - hits, ..Counts::default() }
}

/// The most hits of one choice a page, or none, in `memory` bytes.
fn most_hits(choices: &[Vec<Choice>], memory: f64) -> f64 {
    let at = |price: f64| {
        choices.iter().fold((0.0, 0.0), |(bytes, worth), of_page| {
            let best =
                of_page.iter().map(|&(b, h)| (h - price * b, b)).fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
            (bytes + best.1, worth + best.0)
        })
    };
    let (mut low, mut high) = (0.0, 1e6);
    if at(0.0).0 <= memory {
        return at(0.0).1;
    }
    for _ in 0..60 {
        let price = if low == 0.0 { high / 1024.0 } else { f64::sqrt(low * high) };
        if at(price).0 > memory {
            low = price;
        } else {
            high = price;
        }
    }
    // The dual's value: an upper bound at any price.
    at(high).1 + high * memory
}
