//! Entries in the order of their last use.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// A map that knows who was used longest ago. O(log n) a use.
#[derive(Debug)]
pub(super) struct Recency<K, V> {
    entries: HashMap<K, (u64, V), FixedState>,
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K, V> Default for Recency<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::default(), order: BTreeMap::new(), next: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> Recency<K, V> {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The entry of `key`, which is thereby used.
    pub(super) fn touch(&mut self, key: K) -> Option<&mut V> {
        let (stamp, value) = self.entries.get_mut(&key)?;
        self.order.remove(stamp);
        *stamp = self.next;
        self.order.insert(self.next, key);
        self.next += 1;
        Some(value)
    }

    /// Puts `key` in, as used last.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if let Some((stamp, _)) = self.entries.insert(key, (self.next, value)) {
            self.order.remove(&stamp);
        }
        self.order.insert(self.next, key);
        self.next += 1;
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let (stamp, value) = self.entries.remove(&key)?;
        self.order.remove(&stamp);
        Some(value)
    }

    /// Takes out who was used longest ago.
    pub(super) fn pop_oldest(&mut self) -> Option<(K, V)> {
        let (_, key) = self.order.pop_first()?;
        Some((key, self.entries.remove(&key)?.1))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut().map(|(_, value)| value)
    }
}
