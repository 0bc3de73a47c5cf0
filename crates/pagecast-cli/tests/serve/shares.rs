//! A user's share of the pool: who reads everything does not drive out what others read.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::Server;
use crate::clients::login;

/// Rows of a row group: half a megabyte of four columns, a small part of any share here.
const GROUP: usize = 16 << 10;
const ROUNDS: usize = 3;

/// A table of numbers that no encoding makes smaller.
fn write(path: &Path, columns: &[&str], groups: usize) {
    let mut random = 1u64;
    let mut column = || {
        let next = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random ^ (random >> 29)) as i64
        };
        Arc::new((0..GROUP).map(next).collect::<Int64Array>()) as ArrayRef
    };
    let mut batch = || RecordBatch::try_from_iter(columns.iter().map(|name| (*name, column()))).unwrap();
    let properties =
        WriterProperties::builder().set_dictionary_enabled(false).set_compression(Compression::UNCOMPRESSED);
    let properties = properties.set_max_row_group_row_count(Some(GROUP)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch().schema(), Some(properties)).unwrap();
    (0..groups).for_each(|_| writer.write(&batch()).unwrap());
    writer.close().unwrap();
}

/// Bytes that `ada` has storage asked for, while `bob` goes through everything between her queries;
/// `None` without psql.
fn read_again(data: &Path, bob: &str) -> Option<i64> {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, format!("ada secret\nbob secret {bob}\n")).unwrap();
    let server = Server::of(data, &["--pool", "16MiB", "--users", users.to_str().unwrap()]);
    let ask = |user: &str, sql: &str| {
        let (done, said) = login(&server, user, "secret", "disable", sql)?;
        assert!(done, "{sql}: {said}");
        Some(said.trim().to_owned())
    };
    let read = || ask("ada", "SELECT value FROM pagecast.status WHERE name = 'bytes_read'")?.parse::<i64>().ok();
    let small = || ask("ada", "SELECT count(*) FROM small WHERE a > 0");
    small()?;
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        ask("bob", "SELECT count(*) FROM large WHERE a > b AND c > d")?;
        let before = read()?;
        small()?;
        bytes += read()? - before;
    }
    Some(bytes)
}

#[test]
fn who_reads_everything_leaves_what_others_read() {
    let data = tempfile::tempdir().unwrap();
    // 4 MiB that one wants near by, and 48 MiB that the other goes through, with a pool of 16 MiB.
    write(&data.path().join("small.parquet"), &["a"], 32);
    write(&data.path().join("large.parquet"), &["a", "b", "c", "d"], 96);
    let (Some(without), Some(with)) = (read_again(data.path(), ""), read_again(data.path(), "share=25%")) else {
        return;
    };
    eprintln!("{ROUNDS} rounds: {without} bytes were read again, and {with} where the other has a share");
    assert!(without > 4 << 20, "the pool holds everything");
    assert!(with < without / 4, "{with} of {without} bytes were read again");
}
