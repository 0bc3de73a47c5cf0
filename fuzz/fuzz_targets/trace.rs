//! Any bytes as a trace of any format: `cargo +nightly fuzz run trace`. The first byte chooses the format.
//! A bounded run of the same is `crates/pagecast-sim/tests/hostile_traces.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagecast_sim::trace::{Columns, Format, read_from};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let format = match choice % 7 {
        0 => Format::Auto,
        1 => Format::Text,
        2 => Format::Csv(Columns::default()),
        3 => Format::OracleGeneral,
        4 => Format::Lis,
        5 => Format::Lirs,
        _ => Format::Columnar,
    };
    let Ok(mut source) = read_from(std::io::Cursor::new(bytes.to_vec()), "fuzz".as_ref(), &format) else { return };
    // A line of an ARC trace may ask for millions of pages: beyond so many records the fuzzer would only be slow.
    for _ in 0..1 << 16 {
        let Ok(Some(_)) = source.next() else { return };
    }
});
