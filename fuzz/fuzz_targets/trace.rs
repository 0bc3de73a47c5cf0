//! Any bytes as a trace of any format: `bash ci/fuzz.sh`. The first byte chooses the format.
//!
//! Formats beyond the first seven are ours with the bytes as the columns of one block, whose
//! checksum would otherwise keep the fuzzer outside; what is read then goes through the predictor
//! too, as scans that may be nonsense. A bounded run of the same on stable Rust is
//! `crates/pagecast-sim/tests/hostile_traces.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagecast_sim::simulation::{Interleaving, simulate};
use pagecast_sim::trace::{Columns, Format, Record, Source, Trace, TraceError, read_from};

/// A line of an ARC trace may ask for millions of pages: beyond so many records the fuzzer would
/// only be slow.
const RECORDS: u32 = 1 << 14;

/// The first records of a source; if it is not to be read whole, its first error counts as its end.
struct Beginning {
    source: Box<dyn Source + Send>,
    left: u32,
    whole: bool,
}

impl Source for Beginning {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        match self.source.next() {
            Err(_) if !self.whole => Ok(None),
            next => next,
        }
    }
}

/// A file of one block that holds `columns`.
fn columnar(columns: &[u8]) -> Vec<u8> {
    let block = zstd::bulk::compress(columns, 1).expect("compression into memory does not fail");
    let mut file = b"PGCTRC\0\x01\0\0\0\0".to_vec();
    file.extend((block.len() as u32).to_le_bytes());
    file.extend(block);
    file
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let (format, bytes) = match choice % 8 {
        0 => (Format::Auto, bytes.to_vec()),
        1 => (Format::Text, bytes.to_vec()),
        2 => (Format::Csv(Columns::default()), bytes.to_vec()),
        3 => (Format::OracleGeneral, bytes.to_vec()),
        4 => (Format::Lis, bytes.to_vec()),
        5 => (Format::Lirs, bytes.to_vec()),
        6 => (Format::Columnar, bytes.to_vec()),
        _ => (Format::Columnar, columnar(bytes)),
    };
    let Ok(source) = read_from(std::io::Cursor::new(bytes), "fuzz".as_ref(), &format) else { return };
    // A file made here lacks its end; the records before are looked at all the same.
    let mut source = Beginning { source, left: RECORDS, whole: choice % 8 < 7 };
    let Ok(trace) = Trace::load("fuzz", &mut source) else { return };
    if trace.has_scans() {
        let policy = "pbm".parse().expect("pbm is a policy");
        for interleaving in [Interleaving::Fixed, Interleaving::Logical { latency: 3 }] {
            let _ = simulate(&trace, &policy, 5, 1, interleaving);
        }
    }
});
