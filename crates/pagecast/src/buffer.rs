//! Memory that direct requests can use.

/// Where frames and buffers begin, and what their sizes are multiples of: enough for direct reads.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes that begin at a multiple of [`ALIGNMENT`].
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT];
        // Within the surplus: `align_offset` counts bytes here, and a byte pointer can always be
        // aligned.
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { memory, start }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.memory.len() - ALIGNMENT + self.start]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let end = self.memory.len() - ALIGNMENT + self.start;
        &mut self.memory[self.start..end]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}
