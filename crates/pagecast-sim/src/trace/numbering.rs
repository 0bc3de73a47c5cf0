//! Numbers pages from 0 in the order in which they first come, so that a page table can be an
//! array.
//!
//! Page ids of databases lie in long runs, so their numbers are kept in chunks of neighbouring ids,
//! found through a small table: one cache miss per look-up at worst, and none in a scan. Ids
//! without such runs (hashes) would waste most of each chunk; when they do, the numbering changes
//! over to one hash table, once.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::PageId;

/// Ids per chunk.
const CHUNK: usize = 1 << 10;
/// Chunks may hold this many places per page before the hash table takes over: 16 bytes a page, as
/// much as its entry.
const PLACES_PER_PAGE: usize = 8;
/// Below this many chunks (4 MiB) nothing is worth changing.
const FEW_CHUNKS: usize = 1 << 10;

const NONE: u32 = u32::MAX;

/// Gives each page a number. At most 2^32 - 1 pages.
///
/// ```
/// use pagecast_core::PageId;
/// use pagecast_sim::trace::Numbering;
///
/// let mut numbering = Numbering::default();
/// let numbers = [70, 30, 70].map(|page| numbering.number(PageId::from_raw(page)));
/// assert_eq!(numbers, [0, 1, 0]);
/// assert_eq!(numbering.pages()[1], PageId::from_raw(30));
/// ```
#[derive(Debug, Default)]
pub struct Numbering {
    pages: Vec<PageId>,
    /// From the upper bits of an id to its chunk's place in `places`. Empty once `hashed` is in
    /// use.
    chunks: HashMap<u64, u32, FixedState>,
    places: Vec<u32>,
    /// The chunk of the id before, which is most often that of the next.
    last: Option<(u64, u32)>,
    hashed: Option<HashMap<u64, u32, FixedState>>,
}

impl Numbering {
    /// The number of `page`: a new one if the page has none yet.
    #[inline]
    pub fn number(&mut self, page: PageId) -> u32 {
        let next = self.pages.len() as u32;
        let slot = match &mut self.hashed {
            Some(table) => table.entry(page.raw()).or_insert(NONE),
            None => {
                let high = page.raw() / CHUNK as u64;
                let chunk = match self.last {
                    Some((last, chunk)) if last == high => chunk,
                    _ => self.chunk(high),
                };
                self.last = Some((high, chunk));
                &mut self.places[chunk as usize * CHUNK + page.raw() as usize % CHUNK]
            }
        };
        if *slot == NONE {
            *slot = next;
            self.pages.push(page);
        }
        *slot
    }

    /// The pages by number.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// The pages by number, when no more are to be numbered.
    pub fn into_pages(self) -> Vec<PageId> {
        self.pages
    }

    /// The chunk of ids that begin with `high`, made if need be.
    fn chunk(&mut self, high: u64) -> u32 {
        if let Some(&chunk) = self.chunks.get(&high) {
            return chunk;
        }
        let chunk = self.chunks.len();
        self.chunks.insert(high, chunk as u32);
        self.places.resize((chunk + 1) * CHUNK, NONE);
        chunk as u32
    }

    /// Changes over to the hash table if the chunks are mostly empty. Cheap; to be called now and
    /// then.
    pub(crate) fn adapt(&mut self) {
        let sparse = self.chunks.len() > FEW_CHUNKS && self.places.len() > PLACES_PER_PAGE * self.pages.len();
        if sparse && self.hashed.is_none() {
            self.hashed = Some(self.pages.iter().enumerate().map(|(i, page)| (page.raw(), i as u32)).collect());
            (self.chunks, self.places, self.last) = Default::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagecast_core::random::Random;

    /// Ids as far apart as hashes make the numbering change over, and no number changes with it.
    #[test]
    fn scattered_ids_keep_their_numbers() {
        let (mut numbering, mut model) = (Numbering::default(), HashMap::with_hasher(FixedState::default()));
        let mut random = Random::new(3);
        for step in 0..20_000u32 {
            // Every third id comes again, the others are new.
            let page =
                PageId::from_raw(if step % 3 == 0 { Random::new(u64::from(step / 9)).next() } else { random.next() });
            let next = model.len() as u32;
            assert_eq!(numbering.number(page), *model.entry(page).or_insert(next));
            if step % 512 == 0 {
                numbering.adapt();
            }
        }
        assert!(numbering.hashed.is_some() && numbering.places.is_empty());
    }

    #[test]
    fn neighbouring_ids_stay_in_chunks() {
        let mut numbering = Numbering::default();
        for id in (0..3_000_000).step_by(3) {
            numbering.number(PageId::from_raw(id));
        }
        numbering.adapt();
        assert!(numbering.hashed.is_none());
        assert_eq!(numbering.number(PageId::from_raw(2_999_997)), 999_999);
    }
}
