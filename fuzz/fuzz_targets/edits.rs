//! What a fuzzer does to files that were whole: bytes of its input say where and what.

use std::time::Duration;

use pagecast::storage::{DeclaredModel, MemoryFiles};

/// A device that costs nothing and for which one thread reads: a pool is soon made.
pub const ONE_THREAD: DeclaredModel = DeclaredModel { bandwidth: u64::MAX, latency: Duration::ZERO, outstanding: 1 };

/// Edits `files`, as far as `bytes` go.
pub fn edit(files: &MemoryFiles, names: &[&str], mut bytes: &[u8]) {
    while let Some((edit, rest)) = bytes.split_first_chunk::<8>() {
        bytes = rest;
        let [way, name, at @ .., length] = *edit;
        let at = u32::from_le_bytes([at[0], at[1], at[2], at[3]]) as usize;
        let name = names[usize::from(name) % names.len()];
        let Ok(file) = files.read(name.as_ref()) else { continue };
        let mut file = file.to_vec();
        let at = at % (file.len() + 1);
        let end = (at + usize::from(length)).min(file.len());
        match way % 5 {
            0 | 1 => {
                let (new, rest) = bytes.split_at((end - at).min(bytes.len()));
                file[at..at + new.len()].copy_from_slice(new);
                bytes = rest;
            }
            2 => file.truncate(at),
            3 => file[at..end].fill(0),
            _ => {
                // A block of the file once more, elsewhere.
                let (from, to) = (at / 4096 * 4096, usize::from(length) * 4096);
                if from + 4096 <= file.len() && to + 4096 <= file.len() {
                    file.copy_within(from..from + 4096, to);
                }
            }
        }
        files.write(name, file);
    }
}
