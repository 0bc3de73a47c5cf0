//! Which worker a range of rows is at home on.
//!
//! Source: Thaler, Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (1998): each
//! worker draws a score for each range, and the highest wins. Mirrokni, Thorup, Zadimoghaddam,
//! "Consistent Hashing with Bounded Loads" (2018), section 2: a full worker is passed over.
//!
//! Deviations: load is bytes and not balls, and a worker is full from 1.25 times the mean on. It is
//! exceeded by less than one range. Ranges are placed in the order of their ids, so that a
//! listing's order changes nothing.
//!
//! Suits: caches that are to keep what they have while workers come and go. No state, no table.
//! Cost: a score for each worker and range, and as many again for a range whose first choice is
//! full. 8 bytes for each worker, 8 for each range.

/// A range of rows, told apart by a hash that is the same in every process and version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RangeId(u64);

impl RangeId {
    /// The range between the borders `number` and `number + 1` of the file `path` in `store`.
    pub fn new(store: &str, path: &str, number: u64) -> Self {
        // A byte that is in no URL keeps ("ab", "c") from being ("a", "bc").
        let name = store.bytes().chain([0xff]).chain(path.bytes()).chain([0xff]);
        Self(mix(fnv(name) ^ mix(number)))
    }
}

/// What is to be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Which range.
    pub id: RangeId,
    /// How many bytes it has. One of none counts as one byte.
    pub bytes: u64,
}

/// Workers by name, in the order of their names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workers {
    names: Vec<String>,
    seeds: Vec<u64>,
}

impl Workers {
    /// Names may come in any order, and more than once.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        let seeds = names.iter().map(|name| mix(fnv(name.bytes()))).collect();
        Self { names, seeds }
    }

    /// The names, sorted. A worker's number is its place among them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of the worker that is a range's first choice. None if there is no worker.
    pub fn first_choice(&self, id: RangeId) -> Option<usize> {
        self.choice(id, |_| true)
    }

    /// The worker of the highest score among those that `admits`.
    fn choice(&self, id: RangeId, admits: impl Fn(usize) -> bool) -> Option<usize> {
        let admitted = self.seeds.iter().enumerate().filter(|&(worker, _)| admits(worker));
        admitted.max_by_key(|&(_, seed)| mix(id.0 ^ seed)).map(|(worker, _)| worker)
    }

    /// The number of the worker of each range, in the order of `ranges`: its first choice, or the
    /// best one that is not full. Empty if there is no worker.
    pub fn place(&self, ranges: &[Load]) -> Vec<usize> {
        if self.is_empty() {
            return Vec::new();
        }
        let weight = |range: &Load| u128::from(range.bytes.max(1));
        let total: u128 = ranges.iter().map(weight).sum();
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        order.sort_unstable_by_key(|&range| (ranges[range].id, ranges[range].bytes));
        let (mut loads, mut is_full) = (vec![0; self.len()], vec![false; self.len()]);
        let mut homes = vec![0; ranges.len()];
        for range in order {
            let id = ranges[range].id;
            // While a range is left, somebody is below the mean. So one of the two finds a worker.
            let first = self.first_choice(id).filter(|&worker| !is_full[worker]);
            let Some(home) = first.or_else(|| self.choice(id, |worker| !is_full[worker])) else { continue };
            loads[home] += weight(&ranges[range]);
            is_full[home] = loads[home] * self.len() as u128 * 4 >= total * 5;
            homes[range] = home;
        }
        homes
    }
}

/// FNV-1a of 64 bits.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finalizer of splitmix64: every bit of the outcome hangs on every bit that goes in.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests;
