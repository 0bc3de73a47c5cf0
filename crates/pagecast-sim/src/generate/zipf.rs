//! Zipf's distribution, and pages that are read by it.

use pagecast_core::random::Random;

/// Ranks from 0 on, rank `r` with a probability in proportion to `1 / (r + 1)^exponent`.
///
/// A table of cumulative probabilities, searched by bisection: exact for every exponent, 0
/// (uniform) and 1 included, where the usual closed forms fail. 8 bytes a rank.
///
/// ```
/// use pagecast_core::random::Random;
/// use pagecast_sim::generate::Zipf;
///
/// let zipf = Zipf::new(1000, 0.99);
/// let mut random = Random::new(1);
/// let first = (0..10_000).filter(|_| zipf.draw(&mut random) == 0).count();
/// assert!((1100..1500).contains(&first), "expected about 1290, got {first}");
/// ```
#[derive(Clone, Debug)]
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// Over `ranks` ranks, at least 1.
    pub fn new(ranks: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=ranks.max(1))
            .map(|rank| {
                sum += f64::from(rank).powf(-exponent);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|value| *value /= sum);
        Self(cumulative)
    }

    /// A rank.
    pub fn draw(&self, random: &mut Random) -> u32 {
        let at = random.unit();
        let rank = self.0.partition_point(|&value| value <= at);
        rank.min(self.0.len() - 1) as u32
    }
}

/// Pages read by Zipf's law over the rows in them, hot rows scattered over the table by a random
/// order, as YCSB's hash of the key does: a page is as hot as its rows together. 12 bytes a row.
pub(crate) struct Scrambled {
    rows: Zipf,
    /// The page of each rank.
    page: Vec<u32>,
}

impl Scrambled {
    /// `pages` pages of `rows` rows each, together below 2^32.
    pub(crate) fn new(pages: u32, rows: u32, exponent: f64, random: &mut Random) -> Self {
        let mut page = shuffled(pages * rows, random);
        page.iter_mut().for_each(|row| *row /= rows);
        Self { rows: Zipf::new(pages * rows, exponent), page }
    }

    /// A page, by its number from 0.
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        self.page[self.rows.draw(random) as usize]
    }
}

/// The numbers below `count` in random order (Fisher and Yates).
pub(super) fn shuffled(count: u32, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i as usize, random.below(i + 1) as usize);
    }
    order
}
