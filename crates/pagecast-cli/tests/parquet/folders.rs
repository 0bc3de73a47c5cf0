//! Folders as tables: files whose columns grew, keys, folders in folders, types that files hide.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, Int8Array, Int32Array,
    Int64Array, RecordBatch, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::Int8Type;
use parquet::arrow::ArrowWriter;
use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use crate::sql::{sql, stdout};
use crate::{assert_fails, pagecast};

/// Writes a file of these columns; two row groups if there are two batches.
fn write(path: &Path, batches: &[RecordBatch]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), None).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter(columns.iter().cloned()).unwrap()
}

/// One column `x` as a file.
fn x(path: &Path, values: impl arrow::array::Array + 'static) {
    write(path, &[batch(&[("x", Arc::new(values) as _)])]);
}

fn numbers(path: &Path, values: &[i64]) {
    x(path, Int64Array::from(values.to_vec()));
}

/// The rows of a statement as CSV without the line of names.
#[track_caller]
fn rows(data: &Path, query: &str) -> Vec<String> {
    let text = stdout(&sql(data, &["-q", "--format", "csv", "-c", query]));
    text.lines().skip(1).map(str::to_owned).collect()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn columns_that_grew_have_all_their_values() {
    let of = |first: ArrayRef, second: ArrayRef, query: &str| {
        let data = folder();
        for (number, values) in [first, second].into_iter().enumerate() {
            write(&data.path().join(format!("t/{number}.parquet")), &[batch(&[("x", values)])]);
        }
        rows(data.path(), query).join(" ")
    };
    let int = |value| -> ArrayRef { Arc::new(Int32Array::from(vec![value])) };
    let decimal = |value, precision, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale).unwrap())
    };
    let micros = |value| TimestampMicrosecondArray::from(vec![value]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["b"]));
    let coded: ArrayRef = Arc::new(vec!["a"].into_iter().collect::<DictionaryArray<Int8Type>>());
    for (first, second, query, right) in [
        (
            int(1),
            Arc::new(Int64Array::from(vec![1 << 40])) as _,
            "SELECT sum(x), min(x), max(x) FROM t",
            "1099511627777,1,1099511627776",
        ),
        (
            int(-1),
            Arc::new(UInt64Array::from(vec![u64::MAX])) as _,
            "SELECT x FROM t ORDER BY x",
            "-1 18446744073709551615",
        ),
        (int(7), Arc::new(Float32Array::from(vec![0.5])) as _, "SELECT x FROM t WHERE x > 6", "7.0"),
        (decimal(125, 9, 2), decimal(10_000_000_000_125, 18, 2), "SELECT x FROM t WHERE x = 1.25", "1.25"),
        (decimal(125, 9, 2), decimal(12_500, 9, 4), "SELECT count(*), min(x) FROM t WHERE x = 1.25", "2,1.2500"),
        (
            Arc::new(TimestampNanosecondArray::from(vec![1])) as _,
            Arc::new(micros(1)) as _,
            "SELECT count(*) FROM t WHERE x = TIMESTAMP '1970-01-01 00:00:00.000001'",
            "1",
        ),
        (
            Arc::new(TimestampMillisecondArray::from(vec![1])) as _,
            Arc::new(micros(1_000)) as _,
            "SELECT count(DISTINCT x) FROM t",
            "1",
        ),
        (
            Arc::new(micros(0)) as _,
            Arc::new(micros(3_600_000_000).with_timezone("+01:00")) as _,
            "SELECT x FROM t ORDER BY x",
            "1970-01-01T00:00:00Z 1970-01-01T01:00:00Z",
        ),
        (
            Arc::new(Date32Array::from(vec![1])) as _,
            Arc::new(micros(0)) as _,
            "SELECT x FROM t ORDER BY x",
            "1970-01-01T00:00:00 1970-01-02T00:00:00",
        ),
        (coded, texts, "SELECT x, arrow_typeof(x) FROM t ORDER BY x", "a,Utf8View b,Utf8View"),
    ] {
        assert_eq!(of(first, second, query), right, "{query}");
    }
}

#[test]
fn what_no_type_holds_closes_its_table_alone() {
    let data = folder();
    numbers(&data.path().join("good/1.parquet"), &[7]);
    numbers(&data.path().join("mixed/1.parquet"), &[1]);
    x(&data.path().join("mixed/2.parquet"), StringArray::from(vec!["one"]));
    x(&data.path().join("far/1.parquet"), TimestampNanosecondArray::from(vec![1]));
    x(&data.path().join("far/2.parquet"), TimestampMicrosecondArray::from(vec![i64::MAX / 2]));
    assert_eq!(rows(data.path(), "SELECT x FROM good"), ["7"]);
    for (table, words) in [
        ("mixed", ["mixed/2.parquet: column x is Utf8", "Int64 in /", "mixed/1.parquet"]),
        ("far", ["far/2.parquet: column x has", "4611686018427387903", "no time in nanoseconds"]),
    ] {
        assert_fails(&sql(data.path(), &["-c", &format!("SELECT * FROM {table}")]), 1, &words);
    }
}

/// 100 values in each of two row groups and two files: more than 8 bits have codes for.
#[test]
fn small_codes_are_read_as_their_values() {
    let data = folder();
    let part = |name: &str| {
        let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|n| format!("{name}{n}"))));
        let codes = Int8Array::from_iter_values(0..100);
        batch(&[("c", Arc::new(DictionaryArray::<Int8Type>::new(codes, values)) as _)])
    };
    write(&data.path().join("one.parquet"), &[part("a"), part("b")]);
    write(&data.path().join("t/1.parquet"), &[part("a"), part("b")]);
    write(&data.path().join("t/2.parquet"), &[part("c")]);
    assert_eq!(rows(data.path(), "SELECT count(DISTINCT c) FROM one"), ["200"]);
    assert_eq!(rows(data.path(), "SELECT count(*) FROM t a JOIN t b USING (c)"), ["300"]);
    assert_eq!(rows(data.path(), "SELECT c FROM t WHERE c = 'b99'"), ["b99"]);
}

/// A folder's files are its table's, those of its folders too, through every door.
#[test]
fn folders_in_folders_are_of_one_table() {
    let data = folder();
    let at = |path: &str| data.path().join(path);
    for (number, path) in ["t/top.parquet", "t/2024/below.parquet", "t/2024/01/x.parquet"].iter().enumerate() {
        numbers(&at(path), &[1 << number]);
    }
    for hidden in ["t/_temporary/0/a.parquet", "t/2024/.tmp/a.parquet", "t/2024/_x.parquet"] {
        numbers(&at(hidden), &[1000]);
    }
    fs::write(at("t/_SUCCESS"), b"").unwrap();
    let t = at("t").display().to_string();
    let external = format!("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{t}/'; SELECT sum(x) FROM e");
    let declared =
        format!("CREATE EXTERNAL TABLE e (x BIGINT) STORED AS PARQUET LOCATION '{t}/'; SELECT sum(x) FROM e");
    for query in ["SELECT sum(x) FROM t", &format!("SELECT sum(x) FROM '{t}'"), &external, &declared] {
        assert_eq!(rows(data.path(), query), ["7"], "{query}");
    }
    for (folder, number) in [("", 1), ("a/", 2), ("_b/", 4)] {
        let path = at(&format!("c/{folder}x.csv"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("x\n{number}\n")).unwrap();
    }
    assert_eq!(rows(data.path(), "SELECT sum(x) FROM c"), ["3"]);
    numbers(&at("mixed/year=2024/a.parquet"), &[1]);
    numbers(&at("mixed/plain/year=2024/a.parquet"), &[1]);
    assert_fails(
        &sql(data.path(), &["-c", "SELECT * FROM mixed"]),
        1,
        &["mixed/plain/year=2024/a.parquet", "left out"],
    );
}

#[test]
fn keys_are_values_of_their_type() {
    let data = folder();
    for (month, number) in [("01", 1), ("02", 2), ("12", 12)] {
        numbers(&data.path().join(format!("t/month={month}/a.parquet")), &[number]);
    }
    for flag in ["true", "false", "__HIVE_DEFAULT_PARTITION__"] {
        numbers(&data.path().join(format!("flags/flag={flag}/a.parquet")), &[flag.len() as i64]);
    }
    let t = data.path().join("t");
    let declared = |condition: &str| {
        let create = "CREATE EXTERNAL TABLE u (x BIGINT, month INT) STORED AS PARQUET PARTITIONED BY (month) LOCATION";
        let query = format!("{create} '{}'; SELECT x FROM u WHERE {condition} ORDER BY x", t.display());
        rows(data.path(), &query).join(" ")
    };
    for (condition, right) in [
        ("month = 1", "1"),
        ("month BETWEEN 1 AND 2", "1 2"),
        ("month IN (2, 12)", "2 12"),
        ("month > x - 1", "1 2 12"),
    ] {
        assert_eq!(declared(condition), right, "{condition}");
    }
    for (condition, right) in
        [("flag", "4"), ("flag = true", "4"), ("NOT flag", "5"), ("flag = 'false'", "5"), ("flag IS NULL", "26")]
    {
        assert_eq!(rows(data.path(), &format!("SELECT x FROM flags WHERE {condition}")), [right], "{condition}");
    }
}

/// The folder's value counts, as for DuckDB and polars, which write such files.
#[test]
fn a_key_may_stand_in_the_file_too() {
    let data = folder();
    for key in [1, 2] {
        let columns: [(&str, ArrayRef); 2] =
            [("k", Arc::new(Int64Array::from(vec![9, 9]))), ("v", Arc::new(Int64Array::from(vec![key, 10 * key])))];
        write(&data.path().join(format!("t/k={key}/a.parquet")), &[batch(&columns)]);
    }
    assert_eq!(rows(data.path(), "SELECT sum(v) FROM t WHERE k = 2"), ["22"]);
    assert_eq!(rows(data.path(), "SELECT k, count(*) FROM t GROUP BY k ORDER BY k"), ["1,2", "2,2"]);
}

/// A file of this schema and one row group, whose columns `fill` writes.
fn plain(path: &Path, schema: &str, fill: impl FnOnce(&mut SerializedFileWriter<File>)) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, Default::default()).unwrap();
    fill(&mut writer);
    writer.close().unwrap();
}

const UUID: &str = "61f0c404-5cb3-11e7-907b-a6006ad3dba0";

#[test]
fn enums_and_uuids_are_texts() {
    let data = folder();
    let bytes: [u8; 16] = 0x61f0_c404_5cb3_11e7_907b_a600_6ad3_dba0_u128.to_be_bytes();
    let schema = "message m { required binary state (ENUM); required fixed_len_byte_array(16) u (UUID); }";
    plain(&data.path().join("t.parquet"), schema, |writer| {
        let mut group = writer.next_row_group().unwrap();
        let states = [ByteArray::from("new"), ByteArray::from("paid")];
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&states, None, None).unwrap();
        column.close().unwrap();
        let uuids = [FixedLenByteArray::from(bytes.to_vec()), FixedLenByteArray::from(vec![0; 16])];
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<FixedLenByteArrayType>().write_batch(&uuids, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    });
    // One value in all rows: what bounds say is the value.
    let same = FixedSizeBinaryArray::try_from_iter([bytes; 2].iter()).unwrap();
    let field = arrow::datatypes::Field::new("u", arrow::datatypes::DataType::FixedSizeBinary(16), false);
    let field = field.with_metadata([("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())].into());
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![field]));
    write(&data.path().join("same/a.parquet"), &[RecordBatch::try_new(schema, vec![Arc::new(same)]).unwrap()]);
    for (query, right) in [
        ("SELECT upper(state) FROM t WHERE state = 'paid'", "PAID"),
        (&format!("SELECT u FROM t WHERE u = '{UUID}'")[..], UUID),
        (&format!("SELECT CAST(u AS VARCHAR) FROM t WHERE u > '{}'", UUID.replace('6', "5")), UUID),
        (&format!("SELECT count(*) FROM t WHERE u IN ('{{{}}}')", UUID.to_uppercase()), "1"),
        (&format!("SELECT state FROM t WHERE u BETWEEN '{UUID}' AND '{}'", UUID.replace('-', "")), "new"),
        ("SELECT count(*) FROM t a JOIN same b USING (u)", "2"),
        ("SELECT min(u) = max(u), count(DISTINCT u), min(u) FROM same", &format!("true,1,{UUID}")),
    ] {
        assert_eq!(rows(data.path(), query), [right], "{query}");
    }
    assert_fails(&sql(data.path(), &["-c", "SELECT u FROM t WHERE u = 'x'"]), 1, &["'x' is no UUID"]);
}

#[test]
fn a_name_that_stands_twice_gets_a_number() {
    let data = folder();
    let schema = "message m { required int32 a; required int32 a; required int32 a_1; }";
    plain(&data.path().join("t.parquet"), schema, |writer| {
        let mut group = writer.next_row_group().unwrap();
        for number in [1, 2, 3] {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int32Type>().write_batch(&[number], None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    });
    let text = stdout(&sql(data.path(), &["-q", "--format", "csv", "-c", "SELECT * FROM t"]));
    assert_eq!(text, "a,a_2,a_1\n1,2,3\n");
    assert_eq!(rows(data.path(), "SELECT count(*), min(a_2) FROM t WHERE a_2 > 1"), ["1,2"]);
}

#[test]
fn times_compare_with_literals_of_times() {
    let data = folder();
    x(&data.path().join("t.parquet"), Time64MicrosecondArray::from(vec![34_200_000_000, 39_600_000_000]));
    for (condition, right) in [
        ("x > TIME '10:00:00'", "1"),
        ("x = TIME '09:30:00'", "1"),
        ("x = TIME '09:30:00.000000001'", "0"),
        ("x < TIME '09:30:00.000000001'", "1"),
        ("TIME '10:00:00' > x", "1"),
        ("x BETWEEN TIME '09:00:00' AND TIME '12:00:00'", "2"),
        ("x IN (TIME '11:00:00')", "1"),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(rows(data.path(), &query), [right], "{condition}");
    }
}

#[test]
fn feather_is_arrow() {
    let data = folder();
    let copy = format!("COPY (SELECT 7 AS x) TO '{}/t.arrow'", data.path().display());
    assert!(pagecast().args(["sql", "-c", &copy]).output().unwrap().status.success());
    fs::rename(data.path().join("t.arrow"), data.path().join("t.feather")).unwrap();
    assert_eq!(rows(data.path(), "SELECT x FROM t"), ["7"]);
}

#[test]
fn packed_texts_are_read_unpacked() {
    use std::io::Write;
    let data = folder();
    fs::create_dir_all(data.path().join("days")).unwrap();
    let packed = |name: &str, text: &str| {
        let file = File::create(data.path().join(name)).unwrap();
        if name.ends_with(".gz") {
            let mut writer = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            writer.write_all(text.as_bytes()).unwrap();
            writer.finish().unwrap();
        } else {
            zstd::stream::copy_encode(text.as_bytes(), file, 3).unwrap();
        }
    };
    let lines = |of: std::ops::Range<u32>| of.map(|n| format!("{n},text {n}\n")).collect::<String>();
    packed("days/1.csv.gz", &format!("n,s\n{}", lines(0..200_000)));
    packed("days/2.csv.zst", &format!("n,s\n{}", lines(200_000..400_000)));
    fs::write(data.path().join("days/3.csv"), "n,s\n400000,plain\n").unwrap();
    packed("list.json.gz", "[{\"n\": 1}, {\"n\": 2}]");
    packed("lines.ndjson.zst", "{\"n\": 1}\n{\"n\": 2}\n");
    let wanted = ["400001,80000200000,plain"];
    let set = "SET datafusion.optimizer.repartition_file_min_size = 1";
    for table in ["days", &format!("'{}/days'", data.path().display())] {
        assert_eq!(
            rows(data.path(), &format!("{set}; SELECT count(*), sum(n), min(s) FROM {table}")),
            wanted,
            "{table}"
        );
    }
    assert_eq!(rows(data.path(), "SELECT sum(n) FROM list"), ["3"]);
    assert_eq!(rows(data.path(), "SELECT sum(n) FROM lines"), ["3"]);
    for name in ["days/1.csv.gz", "days/2.csv.zst"] {
        let path = data.path().join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        assert_fails(&sql(data.path(), &["-c", "SELECT sum(n) FROM days"]), 1, &[name]);
        fs::write(&path, whole).unwrap();
    }
}
