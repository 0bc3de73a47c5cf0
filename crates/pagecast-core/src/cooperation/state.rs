//! The manager's memory as a whole: who loads, counts, sets of members, stretches of the arena.

use super::Loading;
use super::bits::Bits;
use super::layout::{Layout, header};
use crate::arena::Arena;
use crate::words::{Words, join, split};

/// Numbers of the sets of members.
const REGISTERED: usize = 0;
const WAITING: usize = 1;
const STARVED: usize = 2;
const SERVABLE: usize = 3;

/// How much a load's duration moves the smoothed one.
const LOAD_KEEP: f64 = 0.875;

/// A half of a word of a record: how it is read, and written if it changes.
macro_rules! half {
    ($(#[$doc:meta])* $get:ident, $read:ident, $word:expr $(, $set:ident, $write:ident)?) => {
        $(#[$doc])*
        #[inline]
        pub(super) fn $get(self) -> u32 {
            self.state.$read(self.at + $word)
        }
        $(
            #[inline]
            pub(super) fn $set(self, value: u32) {
                self.state.$write(self.at + $word, value);
            }
        )?
    };
}
pub(super) use half;

/// Whether this mistake is made, which only builds for the exploration can be told to.
macro_rules! mistaken {
    ($mistake:ident) => {{
        #[cfg(pagecast_shuttle)]
        let made = crate::mistake::made(crate::mistake::Mistake::$mistake);
        #[cfg(not(pagecast_shuttle))]
        let made = false;
        made
    }};
}
pub(super) use mistaken;

/// The memory of a manager, under the host's lock.
#[derive(Clone, Copy)]
pub(super) struct State<'a> {
    pub(super) words: Words<'a>,
    pub(super) layout: &'a Layout,
}

impl<'a> State<'a> {
    fn set(self, number: usize) -> Bits<'a> {
        Bits { words: self.words, at: self.layout.set(number), count: self.layout.set_words }
    }

    pub(super) fn registered(self) -> Bits<'a> {
        self.set(REGISTERED)
    }

    /// Members a worker of which was told to wait and not woken since.
    pub(super) fn waiting(self) -> Bits<'a> {
        self.set(WAITING)
    }

    pub(super) fn starved(self) -> Bits<'a> {
        self.set(STARVED)
    }

    /// Members whom `take` would not tell to wait.
    pub(super) fn servable(self) -> Bits<'a> {
        self.set(SERVABLE)
    }

    pub(super) fn clear_sets(self) {
        (REGISTERED..=SERVABLE).for_each(|set| self.set(set).clear());
    }

    pub(super) fn loading(self) -> Loading {
        match self.words.get(header::LOADING) as u32 {
            0 => Loading::Opportunistic,
            outstanding => Loading::Manager { outstanding },
        }
    }

    /// Whether scans read for themselves what is missing.
    pub(super) fn reads_for_itself(self) -> bool {
        self.loading() == Loading::Opportunistic
    }

    pub(super) fn set_loading(self, loading: Loading) {
        let outstanding = match loading {
            Loading::Manager { outstanding } => outstanding.max(1),
            Loading::Opportunistic => 0,
        };
        self.words.set(header::LOADING, outstanding.into());
    }

    /// The mean duration of a load, in ticks; 0 while none has ended.
    pub(super) fn load_ticks(self) -> f64 {
        let ticks = f64::from_bits(self.words.get(header::LOAD_TICKS));
        if ticks > 0.0 && ticks.is_finite() { ticks } else { 0.0 }
    }

    pub(super) fn learn_load_ticks(self, ticks: u64) {
        let (old, new) = (self.load_ticks(), ticks as f64);
        let smoothed = if old > 0.0 { LOAD_KEEP * old + (1.0 - LOAD_KEEP) * new } else { new };
        self.words.set(header::LOAD_TICKS, smoothed.to_bits());
    }

    /// Loads under way.
    pub(super) fn loads(self) -> u32 {
        self.words.get(header::UNDER_WAY) as u32
    }

    pub(super) fn set_loads(self, under_way: u32) {
        self.words.set(header::UNDER_WAY, u64::from(under_way));
    }

    /// Registered scans, and units in use.
    pub(super) fn counts(self) -> (u32, u32) {
        split(self.words.get(header::MEMBERS_UNITS))
    }

    pub(super) fn set_counts(self, members: u32, units: u32) {
        self.words.set(header::MEMBERS_UNITS, join(members, units));
    }

    fn arena(self) -> Arena<'a> {
        Arena::new(self.words, header::FREE_ARENA, self.layout.arena_at..self.layout.end)
    }

    pub(super) fn clear_arena(self) {
        self.arena().clear();
        self.words.set(header::USED, 0);
    }

    /// A stretch of `count` words, all 0.
    pub(super) fn allocate(self, count: usize) -> Option<u32> {
        let at = self.arena().allocate(u32::try_from(count).ok()?)?;
        (0..count).for_each(|index| self.words.set(at as usize + index, 0));
        self.words.set(header::USED, self.words.get(header::USED).wrapping_add(count as u64));
        Some(at)
    }

    pub(super) fn release(self, at: usize, count: usize) {
        if let (Ok(at), Ok(count)) = (u32::try_from(at), u32::try_from(count)) {
            self.arena().release(at, count);
            self.words.set(header::USED, self.words.get(header::USED).wrapping_sub(u64::from(count)));
        }
    }

    pub(super) fn free_words(self) -> u64 {
        u64::from(self.layout.config.words).saturating_sub(self.words.get(header::USED))
    }

    #[inline]
    pub(super) fn upper(self, at: usize) -> u32 {
        split(self.words.get(at)).0
    }

    #[inline]
    pub(super) fn lower(self, at: usize) -> u32 {
        split(self.words.get(at)).1
    }

    #[inline]
    pub(super) fn set_upper(self, at: usize, value: u32) {
        self.words.set(at, join(value, self.lower(at)));
    }

    #[inline]
    pub(super) fn set_lower(self, at: usize, value: u32) {
        self.words.set(at, join(self.upper(at), value));
    }
}
