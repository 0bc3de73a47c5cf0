//! The readers on hostile bytes: whatever comes, an error or records, never a panic and never
//! memory without bound.
//!
//! The same entry as the cargo-fuzz target (`fuzz/fuzz_targets/trace.rs`), bounded, from a seed, so
//! that it runs wherever the tests run. Inputs are valid files of every format, changed: bytes
//! flipped, cut out, doubled, numbers made extreme.
#![allow(clippy::unwrap_used)]

use pagecast_core::random::Random;
use pagecast_sim::generate::generate;
use pagecast_sim::simulation::{Interleaving, simulate};
use pagecast_sim::trace::columnar::ColumnarWriter;
use pagecast_sim::trace::{Columns, Format, Trace, read_from};
use std::io::{Cursor, Write};

const CASES: u32 = 4_000;

/// Files that are right, in every format and compression.
fn corpus() -> Vec<(Format, Vec<u8>)> {
    let text = b"# pages\n17\n18 w\n5 r 3\n17 7\n18446744073709551615\n".to_vec();
    let lirs = b"5\n6\n*\n5\n".to_vec();
    let lis = b"100 4 0 0\n7 1 0 1\n100 2 0 2\n".to_vec();
    let csv = b"page,op,table\n5,r,users\n\"6\",w,orders\n5,r,users\n".to_vec();
    let oracle: Vec<u8> = (1..40u64).flat_map(|id| [&[9; 4][..], &id.to_le_bytes(), &[1; 12]].concat()).collect();
    let mut writer = ColumnarWriter::new(Vec::new(), "corpus").unwrap();
    writer.push_all(&mut generate("ycsb(streams=3,operations=300,pages=100,scans=9999)", 1).unwrap()).unwrap();
    let columnar = writer.finish().unwrap();
    let mut writer = ColumnarWriter::new(Vec::new(), "nearly in order").unwrap();
    let index = "sequential-index(streams=3,queries=2,pages=200,stray=9)";
    writer.push_all(&mut generate(index, 1).unwrap()).unwrap();
    let correlated = writer.finish().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&text).unwrap();
    vec![
        (Format::Auto, gzip.finish().unwrap()),
        (Format::Auto, zstd::bulk::compress(&text, 1).unwrap()),
        (Format::Auto, xz.finish().unwrap()),
        (Format::Text, text),
        (Format::Lirs, lirs),
        (Format::Lis, lis),
        (Format::Csv(Columns::default()), csv),
        (Format::OracleGeneral, oracle),
        (Format::Columnar, columnar),
        (Format::Columnar, correlated),
    ]
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u32 + 1) as usize;
        let length = random.below(12) as usize;
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + length).min(bytes.len()))),
            4 => {
                let copy = bytes[at..(at + length).min(bytes.len())].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let extreme: &[u8] = match random.below(5) {
                    0 => b"99999999999999999999",
                    1 => b"-1",
                    2 => &[0xff; 9],
                    3 => &[0; 8],
                    _ => b"\n\n \r\n",
                };
                bytes.splice(at..at, extreme.iter().copied());
            }
        }
    }
}

/// Changes a columnar file inside its blocks, whose checksums would give away any other change.
fn mutate_columns(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 12 + number(8);
    let mut changed = bytes[..at].to_vec();
    while number(at) != 0 {
        let end = at + 4 + number(at);
        let mut plain = zstd::bulk::decompress(&bytes[at + 4..end], 1 << 24).unwrap();
        mutate(&mut plain, random);
        let packed = zstd::bulk::compress(&plain, 1).unwrap();
        changed.extend((packed.len() as u32).to_le_bytes());
        changed.extend(packed);
        at = end;
    }
    changed.extend(&bytes[at..]);
    changed
}

#[test]
fn hostile_bytes_are_errors_or_records() {
    let corpus = corpus();
    for (format, bytes) in &corpus {
        let mut source = read_from(Cursor::new(bytes.clone()), "corpus".as_ref(), format).unwrap();
        Trace::load("corpus", source.as_mut()).unwrap_or_else(|error| panic!("{format:?}: {error}"));
    }
    let mut random = Random::new(11);
    let mut refused = 0;
    for case in 0..CASES {
        let (format, bytes) = &corpus[case as usize % corpus.len()];
        let mut bytes = bytes.clone();
        if *format == Format::Columnar && case % 2 == 0 {
            bytes = mutate_columns(&bytes, &mut random);
        } else {
            mutate(&mut bytes, &mut random);
        }
        let read = read_from(Cursor::new(bytes), "hostile".as_ref(), format)
            .and_then(|mut source| Trace::load("hostile", source.as_mut()));
        let error = match read {
            // What the reader lets through, the predictor must bear: its registrations may be
            // nonsense.
            Ok(trace) if trace.has_scans() => {
                let interleaving = Interleaving::Logical { latency: 2 };
                simulate(&trace, &"pbm".parse().unwrap(), 7, 1, interleaving).err().map(|error| error.to_string())
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(text) = error {
            refused += 1;
            assert!(!text.is_empty() && !text.contains(['\n', '\u{1b}']), "case {case}: {text:?}");
        }
    }
    // Mutations that all pass, or none, would show that nothing is tried.
    assert!((CASES / 4..CASES).contains(&refused), "{refused} of {CASES} refused");
}
