//! Scan traces from Redset, the published query metadata of Amazon Redshift (van Renen et al., VLDB
//! 2024).
//!
//! Khalaji et al., PVLDB 18(13) 2025, section 5.1, derive Redset-A and Redset-B from it: 200
//! consecutive queries of one instance each, a table as large as the largest scan seen of it, a
//! random range a query, overlapping queries interleaved. Which instances and which queries they
//! took is not published, so what comes out here is Redset-like.
//!
//! What the data gives: arrival, execution time, the tables a query read, megabytes scanned. Our
//! choices:
//! * `mbytes_scanned` is of the whole query: its tables share it evenly, and are scanned one after
//!   the other.
//! * A table is as large as the largest share that any query of the instance scanned of it, as in
//!   the paper. Redset's own README warns that scanned bytes cannot tell table sizes (columns are
//!   stored apart, blocks are skipped); nothing better is published.
//! * A page is `page_mb` megabytes, since real ones would make traces of billions of requests.
//! * Only queries that ran count: `select`, not aborted, not answered from the result cache, with
//!   tables and bytes.
//! * A query comes again when it has the same `feature_fingerprint`, where the file has that
//!   column, and reads the same tables. Redbench takes the numbers of scans and joins, too. What
//!   comes again reads the same range.
//! * A tick is a microsecond. A query waits for its arrival, on the first stream that is free by
//!   the recorded times, and spreads its pages evenly over its execution time.
//!
//! The data are under CC BY-NC 4.0 and are not part of this project.

use crate::generate::Generated;
use crate::generate::program::{Program, Step, interleave, scan_known};
use pagecast_core::RelationId;
use pagecast_core::forecast::Clock;
use pagecast_core::random::Random;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// What to take.
#[derive(Clone, Debug)]
pub struct RedsetOptions {
    /// The instance; the one with the most usable queries unless given.
    pub instance: Option<i64>,
    /// How many usable queries to pass over, in the order of arrival.
    pub skip: usize,
    /// How many consecutive queries to take.
    pub queries: usize,
    /// Megabytes a page; above 0.
    pub page_mb: f64,
    /// Pages between two reports of a scan.
    pub report: u32,
    /// Decides the ranges.
    pub seed: u64,
}

impl Default for RedsetOptions {
    /// 200 queries, as the paper takes.
    fn default() -> Self {
        Self { instance: None, skip: 0, queries: 200, page_mb: 8.0, report: 16, seed: 1 }
    }
}

const COLUMNS: [&str; 8] = [
    "instance_id",
    "arrival_timestamp",
    "execution_duration_ms",
    "was_aborted",
    "was_cached",
    "query_type",
    "read_table_ids",
    "mbytes_scanned",
];
/// Not in every file of this form.
const FINGERPRINT: &str = "feature_fingerprint";

/// A query that read something.
#[derive(Clone, Debug)]
struct Query {
    instance: i64,
    arrival: i64,
    duration_us: u64,
    tables: Vec<u64>,
    megabytes_each: f64,
    /// Which query it is.
    fingerprint: Option<u64>,
}

/// Makes a trace of the Redset file at `path`.
///
/// # Errors
///
/// One line that names the file and what is wrong: it is no Parquet file, a column is missing or
/// has another type, the instance has no queries, or the trace would be too large.
pub fn import(path: &Path, options: &RedsetOptions) -> Result<Generated, String> {
    let fault = |cause: String| format!("{}: {cause}", path.display());
    let mut queries = read(path).map_err(fault)?;
    let instance = match options.instance {
        Some(instance) => instance,
        None => busiest(&queries).ok_or_else(|| fault("no query in it has read a table".into()))?,
    };
    queries.retain(|query| query.instance == instance);
    queries.sort_by_key(|query| query.arrival);
    let mut largest: HashMap<u64, f64> = HashMap::new();
    for (table, megabytes) in queries.iter().flat_map(|q| q.tables.iter().map(|&table| (table, q.megabytes_each))) {
        let most = largest.entry(table).or_default();
        *most = most.max(megabytes);
    }
    let chosen: Vec<_> = queries.into_iter().skip(options.skip).take(options.queries).collect();
    if chosen.is_empty() {
        return Err(fault(format!("instance {instance} has no usable query after the first {}", options.skip)));
    }
    let programs = programs(&chosen, &largest, options).map_err(fault)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (count, skip, page_mb, seed) = (chosen.len(), options.skip, options.page_mb, options.seed);
    Ok(interleave(
        programs,
        format!(
            "redset-like of {name}: instance {instance}, {count} queries after {skip}, {page_mb} MB a page, seed {seed}"
        ),
    ))
}

fn busiest(queries: &[Query]) -> Option<i64> {
    let mut counts: HashMap<i64, u32> = HashMap::new();
    queries.iter().for_each(|query| *counts.entry(query.instance).or_default() += 1);
    // Of equals the lowest, so that the choice does not hang on a hash.
    counts
        .into_iter()
        .max_by_key(|&(instance, count)| (count, std::cmp::Reverse(instance)))
        .map(|(instance, _)| instance)
}

/// What each stream does.
fn programs(queries: &[Query], largest: &HashMap<u64, f64>, options: &RedsetOptions) -> Result<Vec<Program>, String> {
    let pages = |megabytes: f64| (megabytes / options.page_mb).ceil().max(1.0);
    let requests: f64 = queries.iter().map(|query| pages(query.megabytes_each) * query.tables.len() as f64).sum();
    let most = crate::generate::MAX_REQUESTS as f64;
    if requests > most {
        return Err(format!("the trace would have {requests:.0} requests, at most {most} are made; use larger pages"));
    }
    let mut random = Random::new(options.seed);
    let mut relations: HashMap<u64, u32> = HashMap::new();
    let first = queries[0].arrival;
    let clock = Clock { start: (first / 1_000_000).max(0) as u64, ticks_per_second: 1_000_000 };
    // By stream: when it is free, and what it does.
    let mut streams: Vec<(u64, Program)> = vec![(0, vec![Step::Clock(Box::new(clock))])];
    for query in queries {
        let arrival = query.arrival.saturating_sub(first) as u64;
        let stream = streams.iter().position(|(free, _)| *free <= arrival).unwrap_or_else(|| {
            streams.push((0, Vec::new()));
            streams.len() - 1
        });
        let (free, program) = &mut streams[stream];
        *free = arrival + query.duration_us;
        let blocks = pages(query.megabytes_each) as u32;
        let pace = query.duration_us / (u64::from(blocks) * query.tables.len() as u64);
        program.push(Step::Wait(arrival));
        program.push(Step::Pace(pace.clamp(1, (1 << 24) - 1) as u32));
        for table in &query.tables {
            let next = relations.len() as u32 + 1;
            let relation = RelationId(*relations.entry(*table).or_insert(next));
            let size = pages(largest[table]) as u32;
            // A query that scans several tables is known by each.
            let template = query.fingerprint.map(|fingerprint| fingerprint ^ Random::new(*table).next());
            let first = match template {
                Some(template) => Random::new(options.seed ^ template).below(size - blocks + 1),
                None => random.below(size - blocks + 1),
            };
            scan_known(program, relation, (first, blocks), options.report, template);
        }
    }
    Ok(streams.into_iter().map(|(_, program)| program).collect())
}

/// The usable queries of the file.
fn read(path: &Path) -> Result<Vec<Query>, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| format!("no readable Parquet file: {error}"))?;
    let schema = reader.metadata().file_metadata().schema();
    let column = |name: &&str| -> Result<Arc<Type>, String> {
        let found = schema.get_fields().iter().find(|field| field.name() == *name);
        found.cloned().ok_or_else(|| format!("no column `{name}`: is this a Redset file?"))
    };
    let fields = COLUMNS.iter().map(column).chain(column(&FINGERPRINT).ok().map(Ok)).collect::<Result<Vec<_>, _>>()?;
    let wanted = Type::group_type_builder(schema.name()).with_fields(fields).build();
    let wanted = wanted.map_err(|error| error.to_string())?;
    let rows = reader.get_row_iter(Some(wanted)).map_err(|error| error.to_string())?;
    let mut queries = Vec::new();
    for (number, row) in rows.enumerate() {
        let row = row.map_err(|error| format!("row {number}: {error}"))?;
        queries.extend(query(&row).map_err(|cause| format!("row {number}: {cause}"))?);
    }
    Ok(queries)
}

/// The row as a query; `None` for one that did not scan tables.
fn query(row: &Row) -> Result<Option<Query>, String> {
    let fields: HashMap<&str, &Field> = row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
    let field = |name: &str| fields.get(name).copied().ok_or_else(|| format!("`{name}` is missing"));
    let number = |name: &str| field(name).and_then(|field| as_number(field).ok_or_else(|| unexpected(name, field)));
    let of_type = match field("query_type")? {
        Field::Str(text) => text.trim().to_lowercase(),
        Field::Null => String::new(),
        other => return Err(unexpected("query_type", other)),
    };
    let tables = match field("read_table_ids")? {
        Field::Str(list) => table_ids(list)?,
        Field::Null => Vec::new(),
        other => return Err(unexpected("read_table_ids", other)),
    };
    let (megabytes, duration) = (number("mbytes_scanned")?, number("execution_duration_ms")?);
    let ran = number("was_aborted")? == 0.0 && number("was_cached")? == 0.0;
    if of_type != "select" || !ran || tables.is_empty() || megabytes <= 0.0 || duration < 0.0 {
        return Ok(None);
    }
    let arrival = match field("arrival_timestamp")? {
        Field::TimestampMicros(micros) => *micros,
        Field::TimestampMillis(millis) => millis.saturating_mul(1000),
        other => return Err(unexpected("arrival_timestamp", other)),
    };
    let megabytes_each = megabytes / tables.len() as f64;
    let instance = number("instance_id")? as i64;
    let fingerprint = fields.get(FINGERPRINT).filter(|field| !matches!(field, Field::Null));
    let fingerprint = fingerprint.map(|field| fingerprint_of(&field.to_string(), &tables));
    Ok(Some(Query { fingerprint, instance, arrival, duration_us: (duration * 1000.0) as u64, tables, megabytes_each }))
}

/// One number for the text and the tables (FNV-1a).
fn fingerprint_of(text: &str, tables: &[u64]) -> u64 {
    let bytes = text.bytes().chain(tables.iter().flat_map(|table| table.to_le_bytes()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn unexpected(name: &str, field: &Field) -> String {
    let text = format!("{field}");
    format!("`{name}` holds {}, which is of no expected type", crate::trace::excerpt(text.as_bytes()))
}

/// Numbers and truth values; nothing stored counts as 0.
fn as_number(field: &Field) -> Option<f64> {
    let number = match *field {
        Field::Null => 0.0,
        Field::Bool(yes) => f64::from(u8::from(yes)),
        Field::Byte(n) => f64::from(n),
        Field::Short(n) => f64::from(n),
        Field::Int(n) => f64::from(n),
        Field::Long(n) => n as f64,
        Field::UByte(n) => f64::from(n),
        Field::UShort(n) => f64::from(n),
        Field::UInt(n) => f64::from(n),
        Field::ULong(n) => n as f64,
        Field::Float(n) => f64::from(n),
        Field::Double(n) => n,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// The ids in `12,7,99`, each once.
fn table_ids(list: &str) -> Result<Vec<u64>, String> {
    let mut ids = Vec::new();
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let id = word
            .parse()
            .map_err(|_| format!("`{}` in read_table_ids is no id", crate::trace::excerpt(word.as_bytes())))?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests;
