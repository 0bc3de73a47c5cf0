//! Several changes that happen together.

/// Changes that are made all or none, also over a crash. Later ones of a key win.
///
/// ```
/// let mut batch = pagecast_kv::Batch::new();
/// batch.put(b"from", b"90").put(b"to", b"110").delete(b"order");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Default, Debug)]
pub struct Batch {
    pub(crate) writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Batch {
    /// No changes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a key its value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.writes.push((key.to_vec(), Some(value.to_vec())));
        self
    }

    /// Takes a key away, if it is there.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.writes.push((key.to_vec(), None));
        self
    }

    /// How many changes it has.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}
