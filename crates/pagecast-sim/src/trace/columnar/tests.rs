#![allow(clippy::unwrap_used)]
use super::*;
use crate::trace::{Action, Extent, Record, Registration, Rows, Source};
use pagecast_core::forecast::Clock;
use pagecast_core::predictor::Run;
use pagecast_core::{PageId, RelationId};
use proptest::prelude::*;

fn written(records: &[Record]) -> Vec<u8> {
    let mut writer = ColumnarWriter::new(Vec::new(), "a test").unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, crate::trace::TraceError> {
    let mut reader = ColumnarReader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    Ok(records)
}

fn run() -> impl Strategy<Value = Run> {
    (any::<u32>(), any::<u32>(), 0..u64::MAX / 2, 0..u64::MAX / 2).prop_map(|(first, blocks, position, span)| Run {
        first,
        blocks,
        position,
        span,
    })
}

fn extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        3 => prop::collection::vec(run(), 0..4).prop_map(Extent::Runs),
        1 => (run(), any::<u64>(), any::<bool>())
            .prop_map(|(run, scatter, descending)| Extent::Correlated { run, scatter, descending }),
    ]
}

/// Records whose scans are numbered as the format demands: the first registers scan 0, and one for
/// each further worker.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let parts = prop::collection::vec((any::<u32>(), extent()), 0..3);
    let registration = (any::<u8>(), any::<u64>(), any::<Option<u64>>(), parts);
    let action = prop_oneof![
        4 => (any::<u64>(), any::<bool>(), any::<bool>()).prop_map(|(page, write, scan)| Action::Request {
            page: PageId::from_raw(page),
            write,
            scan: scan.then_some(0)
        }),
        1 => any::<u64>().prop_map(|position| Action::Report { scan: 0, position }),
        1 => Just(Action::Finish { scan: 0 }),
        1 => (0..super::super::MAX_NUMBER).prop_map(|ticks| Action::Pace { ticks }),
        1 => any::<u64>().prop_map(|until| Action::Wait { until }),
        1 => any::<u32>().prop_map(|relation| Action::Changed(RelationId(relation))),
        1 => (any::<u64>(), 1..u64::MAX)
            .prop_map(|(start, ticks_per_second)| Action::Clock(Clock { start, ticks_per_second })),
        2 => (any::<u64>(), 0..u32::MAX, any::<bool>())
            .prop_map(|(page, item, write)| Action::Tuple { page: PageId::from_raw(page), item, write }),
        1 => (any::<u32>(), 1..1u32 << 15, 1..1u32 << 15).prop_map(|(relation, count, bytes)| {
            Action::Rows(RelationId(relation), Rows { page: count * bytes, count, bytes })
        }),
    ];
    let actions = prop::collection::vec((0u32..9, action), 0..200);
    (registration, actions).prop_map(|((kind, length, template, parts), actions)| {
        let parts = parts.into_iter().map(|(relation, extent)| (RelationId(relation), extent)).collect();
        let first = Action::Register(Box::new(Registration { scan: 0, kind, length, parts, template }));
        let rest = actions.into_iter().map(|(stream, action)| Record { stream, action });
        std::iter::once(Record { stream: 0, action: first }).chain(rest).collect()
    })
}

proptest! {
    #![proptest_config(crate::repeatable::cases())]

    #[test]
    fn what_is_written_is_read(records in records()) {
        prop_assert_eq!(read(&written(&records)).unwrap(), records);
    }

    #[test]
    fn a_file_cut_off_anywhere_is_refused(records in records(), cut in 0.0..1.0f64) {
        let bytes = written(&records);
        let end = (bytes.len() as f64 * cut) as usize;
        prop_assert!(read(&bytes[..end]).is_err());
    }

    #[test]
    fn a_changed_byte_is_an_error_or_harmless(records in records(), at in any::<prop::sample::Index>(), with in 1u8..) {
        let mut bytes = written(&records);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        // The origin is free text; everywhere else a change must be noticed.
        let in_origin = (12..12 + "a test".len()).contains(&at);
        prop_assert_eq!(read(&bytes).is_ok(), in_origin, "byte {}", at);
    }
}

#[test]
fn many_blocks_and_few_bytes() {
    let page = |i: u64| Record::request(PageId::from_raw(i), false);
    let records: Vec<_> = (0..200_000).map(page).collect();
    let bytes = written(&records);
    assert!(bytes.len() < 4_000, "a sequential scan of 200,000 pages took {} bytes", bytes.len());
    assert_eq!(read(&bytes).unwrap(), records);
}

/// Traces with scans of several workers were written once: kind 9 with their number behind the
/// axis.
#[test]
fn a_scan_of_several_workers_is_refused_by_name() {
    let run = Run { first: 0, blocks: 30, position: 0, span: 30 };
    let extent = Extent::Correlated { run, scatter: 2, descending: false };
    let registration =
        Registration { scan: 0, kind: 0, length: 30, parts: vec![(RelationId(1), extent)], template: None };
    let mut values = Vec::new();
    let kind = super::write::put_registration(&mut values, &registration);
    let (head, workers) = values.split_at(3);
    assert_eq!((kind, head, workers[0]), (super::REGISTER_WIDE, &[0, 0, 30][..], 0), "scan, kind, length, workers");
    let wide = |values: &[u8]| super::read::take_registration(&mut &values[..], true);
    assert_eq!(wide(&values), Ok(registration));
    values[3] = 2;
    assert!(wide(&values).unwrap_err().contains("a scan of several workers"));
}

#[test]
fn items_that_do_not_fit_in_their_page_are_refused() {
    let rows = Rows { page: 4096, count: 33, bytes: 128 };
    let bytes = written(&[Record { stream: 0, action: Action::Rows(RelationId(1), rows) }]);
    assert!(read(&bytes).unwrap_err().to_string().contains("items that do not fit in their page"));
}

#[test]
fn another_version_is_named() {
    let mut bytes = written(&[]);
    bytes[7] = 9;
    assert!(read(&bytes).unwrap_err().to_string().contains("version 9"));
    assert!(read(b"1\n2\n3\n4\n5\n").unwrap_err().to_string().contains("no pagecast trace"));
}
