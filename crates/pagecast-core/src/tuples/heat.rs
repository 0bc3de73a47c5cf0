//! Who leaves the tuple buffer: items that nobody asked for lately, and else the mini-page that was
//! hit least often for its bytes.
//!
//! Hits fade: each age halves those before it, and the counts of the items as well. An age is a
//! number of mini-pages made, so that no hit has to count anything shared. Counts are halved
//! when their mini-page is sampled.
//!
//! Cost: a hit is one load, and a store as long as the counter is below its maximum or an age
//! behind. Concurrency: no lock, Relaxed: a race loses a hit, or halves the counts once more.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Mini-pages that a victim is chosen from.
pub const SAMPLED: usize = 16;
/// Mini-pages that are made in an age, mostly for one item more: so many for each item that there
/// is.
pub(super) const AGE: u32 = 3;
/// A hit, in the counter's unit; what is left of it after some ages is still told apart.
const HIT: u32 = 1 << 8;
/// More hits write nothing.
const MOST_HITS: u32 = 1 << 16;
/// Bits of an age in the word; there are two below the counter. Ages wrap around.
const AGE_BITS: u32 = 20;
const AGE_MASK: u32 = (1 << AGE_BITS) - 1;

/// The hits of one mini-page, in the word of its head.
///
/// ```
/// use pagecast_core::sync::atomic::AtomicU64;
/// use pagecast_core::tuples::Heat;
///
/// let word = AtomicU64::new(0);
/// let heat = Heat::new(&word);
/// heat.begin(1, 10);
/// heat.hit(10);
/// assert_eq!([10, 11, 12].map(|age| heat.hits(age)), [3.0, 1.5, 0.75]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Heat<'a>(&'a AtomicU64);

impl<'a> Heat<'a> {
    /// The hits in `word`.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    /// A new mini-page, whose page had one before with so many `hits`.
    pub fn begin(self, hits: u32, age: u32) {
        let count = (hits.min(MOST_HITS / HIT) * HIT + HIT).min(MOST_HITS);
        self.0.store(pack(count, age, age), Relaxed);
    }

    /// A request found its item in the mini-page.
    #[inline]
    pub fn hit(self, age: u32) {
        let word = self.0.load(Relaxed);
        let count = faded(word, age);
        if count < MOST_HITS {
            self.0.store(pack(count + HIT, age, word as u32), Relaxed);
        }
    }

    /// The hits that are left at `age`.
    #[inline]
    pub fn hits(self, age: u32) -> f32 {
        faded(self.0.load(Relaxed), age) as f32 / HIT as f32
    }

    /// The hits that outlive the load that merges: the page takes them over, and its next mini-page
    /// [`begin`](Self::begin)s with them.
    pub fn outliving(self, age: u32) -> u32 {
        self.hits(age) as u32
    }

    /// How often the items' counts are to be halved now, since that was done last: 0 most often.
    pub fn halvings(self, age: u32) -> u32 {
        let word = self.0.load(Relaxed);
        let passed = passed(word as u32, age);
        if passed > 0 {
            self.0.store(word & !u64::from(AGE_MASK) | u64::from(age & AGE_MASK), Relaxed);
        }
        passed
    }
}

const fn pack(count: u32, since: u32, halved: u32) -> u64 {
    (count as u64) << (2 * AGE_BITS) | ((since & AGE_MASK) as u64) << AGE_BITS | (halved & AGE_MASK) as u64
}

const fn passed(since: u32, age: u32) -> u32 {
    age.wrapping_sub(since) & AGE_MASK
}

#[inline]
fn faded(word: u64, age: u32) -> u32 {
    let (count, since) = ((word >> (2 * AGE_BITS)) as u32, (word >> AGE_BITS) as u32);
    count.checked_shr(passed(since, age)).unwrap_or(0)
}

/// The age of the tuple buffer.
#[derive(Debug, Default)]
pub struct Ages {
    age: AtomicU32,
    made: AtomicU32,
}

impl Ages {
    /// The present age.
    #[inline]
    pub fn now(&self) -> u32 {
        self.age.load(Relaxed)
    }

    /// A mini-page was made; now all of them have `items` items.
    pub fn made(&self, items: u32) {
        if self.made.fetch_add(1, Relaxed) >= items.saturating_mul(AGE) {
            self.made.store(0, Relaxed);
            self.age.fetch_add(1, Relaxed);
        }
    }
}

/// A mini-page that may leave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// What is left of its hits ([`Heat::hits`]).
    pub hits: f32,
    /// The bytes that it takes.
    pub bytes: u32,
    /// The least count of its items.
    pub least: u8,
    /// Whether a change would be lost, so that its page has to be read and written first.
    pub must_clean: bool,
}

impl Candidate {
    /// Whether it goes before `other`: it alone need not be cleaned, or it alone has items that
    /// nobody asked for lately, or it is worth less, byte for byte.
    #[inline]
    pub fn is_colder_than(&self, other: &Self) -> bool {
        if self.must_clean != other.must_clean {
            return other.must_clean;
        }
        let (useless, colder) = (self.least == 0, self.hits * (other.bytes as f32) < other.hits * self.bytes as f32);
        if useless == (other.least == 0) { colder } else { useless }
    }
}

/// Which of the `sampled` leaves: the coldest, of equals the first. None if there is none.
pub fn coldest(sampled: impl IntoIterator<Item = Candidate>) -> Option<usize> {
    let mut coldest: Option<(usize, Candidate)> = None;
    for (at, candidate) in sampled.into_iter().enumerate() {
        if coldest.is_none_or(|(_, least)| candidate.is_colder_than(&least)) {
            coldest = Some((at, candidate));
        }
    }
    coldest.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coldest_byte_for_byte_leaves() {
        let of = |hits, bytes| Candidate { hits, bytes, least: 1, must_clean: false };
        assert_eq!(coldest([of(4.0, 400), of(3.0, 200), of(1.0, 100), of(2.0, 500)]), Some(3));
        assert_eq!(coldest([of(1.0, 100), of(2.0, 200)]), Some(0), "of equals the first");
        assert_eq!(coldest([]), None);
        let useless = Candidate { least: 0, ..of(90.0, 100) };
        assert_eq!(coldest([of(0.0, 100), useless, of(1.0, 100)]), Some(1));
        let dear = Candidate { must_clean: true, ..useless };
        assert_eq!(coldest([dear, of(9.0, 100), of(2.0, 100)]), Some(2), "what must be cleaned goes last");
        assert_eq!(coldest([dear, Candidate { hits: 3.0, ..dear }]), Some(1));
    }

    #[test]
    fn hits_stop_at_their_maximum_and_fade_to_nothing() {
        let word = AtomicU64::new(0);
        let heat = Heat::new(&word);
        heat.begin(0, u32::MAX);
        (0..1000).for_each(|_| heat.hit(u32::MAX));
        let full = word.load(Relaxed);
        heat.hit(u32::MAX);
        assert_eq!(word.load(Relaxed), full, "at its maximum a hit writes nothing");
        assert_eq!(heat.hits(0), 128.0, "ages wrap around");
        assert_eq!(heat.hits(100), 0.0);
    }

    #[test]
    fn an_age_passes_with_the_mini_pages_made() {
        let ages = Ages::default();
        (0..=30).for_each(|_| ages.made(10));
        assert_eq!(ages.now(), 1);
    }

    #[test]
    fn counts_are_halved_once_an_age() {
        let word = AtomicU64::new(0);
        let heat = Heat::new(&word);
        heat.begin(0, AGE_MASK);
        assert_eq!([AGE_MASK, AGE_MASK + 2, AGE_MASK + 2].map(|age| heat.halvings(age)), [0, 2, 0]);
        heat.hit(AGE_MASK + 2);
        assert_eq!(
            (heat.halvings(AGE_MASK + 3), heat.hits(AGE_MASK + 3)),
            (1, 0.625),
            "a quarter, one, and half of that"
        );
    }
}
