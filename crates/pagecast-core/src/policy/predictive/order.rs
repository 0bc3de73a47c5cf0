//! The order in which pages may go.

use crate::Tick;

/// When a page may go: of two pages the greater goes first.
///
/// Times are in ticks and never negative or NaN.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub(super) enum Order {
    /// A scan may want it at any moment and cannot say when: the longest unused goes first.
    AtOnce {
        /// The time since its last use.
        unused: f32,
    },
    /// It is worth its frame: a scan wants it in so many ticks, or history says that its frame is
    /// held for so many ticks per use.
    In(f32),
    /// It has been tried and was not used again, while nothing is known of uses.
    Tried {
        /// The time since its last use.
        unused: f32,
    },
    /// No scan wants it, and its history expects no use of it: before all others.
    Nobody {
        /// When scans that are not known yet may come to it.
        expected: f32,
    },
}

impl Order {
    /// No page goes later.
    pub(super) const LAST: Self = Self::AtOnce { unused: 0.0 };

    /// Of a page that a scan wants in `ticks`, unused for `unused`.
    #[inline]
    pub(super) fn wanted(ticks: Tick, unused: f32) -> Self {
        if ticks == 0 { Self::AtOnce { unused } } else { Self::In(ticks as f32) }
    }

    /// The later of the two to go.
    #[inline]
    pub(super) fn later(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    /// A page that is wanted in no more ticks than this does not go before one of this order.
    #[inline]
    pub(super) fn ticks(self) -> Tick {
        match self {
            Self::AtOnce { .. } => 0,
            Self::In(ticks) => ticks as Tick,
            Self::Nobody { .. } | Self::Tried { .. } => Tick::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_of_one_kind_reaches_the_next() {
        let times = [0.0, 1e-30, 1.0, 1e18, u64::MAX as f32, f32::MAX];
        let kinds: [fn(f32) -> Order; 4] = [
            |unused| Order::AtOnce { unused },
            Order::In,
            |unused| Order::Tried { unused },
            |expected| Order::Nobody { expected },
        ];
        for (at, kind) in kinds.iter().enumerate() {
            assert!(times.map(kind).is_sorted_by(|a, b| a < b));
            let next = kinds.iter().skip(at + 1);
            assert!(next.flat_map(|next| times.map(next)).all(|next| kind(f32::MAX) < next));
        }
        assert!(times.into_iter().all(|unused| Order::LAST <= Order::AtOnce { unused }));
    }

    #[test]
    fn the_bound_for_an_oracle_leaves_out_nothing_that_goes_first() {
        for (order, ticks) in
            [(Order::AtOnce { unused: 9.0 }, 0), (Order::In(7.5), 7), (Order::Nobody { expected: 3.0 }, Tick::MAX)]
        {
            assert_eq!(order.ticks(), ticks);
            assert!(Order::wanted(ticks.min(1 << 40), 1.0) <= order);
        }
        assert_eq!(Order::wanted(0, 5.0), Order::AtOnce { unused: 5.0 });
        assert_eq!(Order::In(4.0).later(Order::wanted(3, 1.0)), Order::In(3.0));
    }
}
