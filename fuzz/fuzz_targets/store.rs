//! Log and pages of a key-value store, edited anywhere: `bash ci/fuzz.sh`. Checksums count as right
//! ([`pagecast_kv`] under `cfg(fuzzing)`), so that records and pages are looked at whatever they
//! say. A store opens, or says what is wrong; its tree is walked, read and changed.
#![no_main]

#[path = "edits.rs"]
mod edits;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pagecast::storage::{Device, MemoryFiles};
use pagecast_kv::{Options, Store};

const FILES: [&str; 4] = ["s/log.0", "s/log.1", "s/data", "s/double"];

fn options(files: &MemoryFiles) -> Options {
    Options::default()
        .memory(400_000)
        .log_size(32 << 10)
        .sync_commits(false)
        .device(Device::new(files.clone(), Some(edits::ONE_THREAD)))
}

fn key(number: u32) -> Vec<u8> {
    number.to_string().repeat(1 + number as usize % 40).into_bytes()
}

/// The files of a store with records in both files of its log, and pages on three levels.
fn whole() -> &'static [(&'static str, Vec<u8>)] {
    static WHOLE: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let files = MemoryFiles::new();
        let store = Store::open("s", options(&files)).expect("a new store");
        for number in 0..400 {
            store.put(&key(number % 250), &vec![number as u8; 60 + number as usize % 200]).expect("there is room");
            if number % 7 == 0 {
                store.delete(&key(number / 2)).expect("there is room");
            }
        }
        drop(store);
        FILES.map(|name| (name, files.read(name.as_ref()).expect("a file of the store").to_vec())).to_vec()
    })
}

fuzz_target!(|bytes: &[u8]| {
    let files = MemoryFiles::new();
    whole().iter().for_each(|(name, bytes)| files.write(*name, bytes.clone()));
    edits::edit(&files, &FILES, bytes);
    let Ok(store) = Store::open("s", options(&files)) else { return };
    let _ = store.check();
    let _ = store.iter().take(1000).filter(Result::is_ok).count();
    let _ = store.range(&b"1"[..]..&b"2"[..]).rev().take(100).filter(Result::is_ok).count();
    for number in (0..250).step_by(17) {
        let _ = (store.get(&key(number)), store.put(&key(number), &[1; 300]), store.delete(&key(number + 1)));
    }
    let _ = store.close();
});
