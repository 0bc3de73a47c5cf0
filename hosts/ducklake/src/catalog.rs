//! What the database of a catalog says of a table. Each reading is one transaction, so that it is
//! of one snapshot, whoever writes meanwhile.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pagecast_tables::inside;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row as SqlRow, Transaction, params};

use crate::columns::Row;
use crate::error::{DuckLakeError, Result};

/// How long a reader waits for whoever writes the catalog.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of the specification.
const VERSIONS: [&str; 1] = ["1.0"];
/// What is seen at snapshot `?1`.
const SEEN: &str = "begin_snapshot <= ?1 AND (end_snapshot IS NULL OR end_snapshot > ?1)";

/// A catalog in SQLite.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) path: PathBuf,
    /// Where files of its tables may lie.
    folders: Vec<PathBuf>,
}

/// A table at a snapshot.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) snapshot: i64,
    /// With their parts, each behind those before it.
    pub(crate) columns: Vec<Row>,
    pub(crate) files: Vec<DataFile>,
    pub(crate) inlined: Vec<Inlined>,
}

#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) id: i64,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// Whether it was written elsewhere, so that names say which column is which.
    pub(crate) is_by_names: bool,
    /// The newest snapshot among those of its rows, if it has several.
    pub(crate) newest: Option<i64>,
    pub(crate) deletes: Option<DeleteFile>,
    /// Rows that the catalog says are deleted.
    pub(crate) deleted: Vec<u64>,
    /// By the ids of columns.
    pub(crate) bounds: HashMap<i64, Bounds>,
}

#[derive(Clone, Debug)]
pub(crate) struct DeleteFile {
    pub(crate) id: i64,
    pub(crate) path: PathBuf,
    /// Whether it is a deletion vector, and no file of positions.
    pub(crate) is_vector: bool,
}

#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) nulls: Option<u64>,
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
}

/// Rows that are in the catalog.
#[derive(Debug)]
pub(crate) struct Inlined {
    /// Ids of the columns that they have.
    pub(crate) columns: Vec<i64>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Catalog {
    /// The catalog in this file. Files of its tables lie in the file's folder, or in those that are
    /// allowed.
    pub fn at(path: &Path, allowed: &[PathBuf]) -> Arc<Self> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let own = path.parent().unwrap_or(&path).to_owned();
        Arc::new(Self { folders: std::iter::once(own).chain(allowed.iter().cloned()).collect(), path })
    }

    /// Names of the schemas and tables of the newest snapshot.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn tables(&self) -> Result<Vec<(String, String)>> {
        self.reading(|reading| {
            let snapshot = newest(reading)?;
            let sql = format!(
                "SELECT s.schema_name, t.table_name FROM (SELECT * FROM ducklake_table WHERE {SEEN}) t JOIN \
                 (SELECT * FROM ducklake_schema WHERE {SEEN}) s USING (schema_id) ORDER BY 1, 2"
            );
            all(reading, &sql, params![snapshot], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    /// The newest snapshot.
    pub(crate) fn newest(&self) -> Result<i64> {
        self.reading(newest)
    }

    /// The table at a snapshot.
    pub(crate) fn version(&self, schema: &str, table: &str, snapshot: i64) -> Result<Version> {
        self.metadata()?;
        // What is missing is told from what is broken.
        let read = self.reading(|reading| {
            let known = "SELECT count(*) FROM ducklake_snapshot WHERE snapshot_id = ?1";
            if reading.query_row(known, [snapshot], |row| row.get::<_, i64>(0))? == 0 {
                let newest = newest(reading)?;
                return Ok(Err(format!("there is no snapshot {snapshot}; the newest is {newest}")));
            }
            let sql = format!(
                "SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative \
                 FROM (SELECT * FROM ducklake_table WHERE {SEEN}) t JOIN \
                 (SELECT * FROM ducklake_schema WHERE {SEEN}) s USING (schema_id) \
                 WHERE s.schema_name = ?2 AND t.table_name = ?3"
            );
            let found = reading.query_row(&sql, params![snapshot, schema, table], |row| {
                Ok((row.get(0)?, Part::of(row, 1)?, Part::of(row, 3)?))
            });
            let Some((id, of_schema, of_table)) = found.optional()? else {
                return Ok(Err(format!("there is no table {schema}.{table} at snapshot {snapshot}")));
            };
            let data_path = "SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL";
            let data_path: String = reading.query_row(data_path, [], |row| row.get(0))?;
            let root = self.path.parent().unwrap_or(&self.path).join(data_path);
            let folder = of_table.under(&of_schema.under(&root));
            let columns = columns(reading, id, snapshot)?;
            let (files, inlined) = (files(reading, id, snapshot, &folder)?, inlined(reading, id, snapshot)?);
            Ok(Ok(Version { snapshot, columns, files, inlined }))
        })?;
        let mut version = read.map_err(|what| DuckLakeError::missing(&self.path, what))?;
        self.check(&mut version)?;
        Ok(version)
    }

    /// Fails unless the catalog is one that is known here.
    fn metadata(&self) -> Result<()> {
        let sql = "SELECT key, value FROM ducklake_metadata WHERE scope IS NULL";
        let settings: HashMap<String, String> =
            self.reading(|reading| all(reading, sql, [], |row| Ok((row.get(0)?, row.get(1)?))))?.into_iter().collect();
        let version = settings.get("version").map_or("", String::as_str);
        if !VERSIONS.contains(&version) {
            let known = VERSIONS.join(", ");
            return Err(DuckLakeError::feature(&self.path, format!("a catalog of version {version} (read: {known})")));
        }
        if settings.get("encrypted").is_some_and(|encrypted| encrypted == "true") {
            return Err(DuckLakeError::feature(&self.path, "encrypted files"));
        }
        Ok(())
    }

    /// Files lie where they may, and names mean one column.
    fn check(&self, version: &mut Version) -> Result<()> {
        let allowed = |path: &mut PathBuf| -> Result<()> {
            *path = inside(&self.folders, path).map_err(|what| DuckLakeError::broken(&self.path, what))?;
            Ok(())
        };
        for file in &mut version.files {
            allowed(&mut file.path)?;
            file.deletes.as_mut().map_or(Ok(()), |deletes| allowed(&mut deletes.path))?;
        }
        for column in &version.columns {
            let siblings = version.columns.iter().filter(|other| other.parent == column.parent);
            let mut same = siblings.filter(|other| other.names.iter().any(|name| column.names.contains(name)));
            if same.any(|other| other.id != column.id) {
                return Err(DuckLakeError::feature(&self.path, "added files that mean two columns by one name"));
            }
        }
        Ok(())
    }

    fn reading<T>(&self, read: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let read = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(PATIENCE)?;
            // Views of a catalog that anybody wrote call no functions.
            connection.pragma_update(None, "trusted_schema", false)?;
            read(&connection.transaction()?)
        };
        read().map_err(|source| DuckLakeError::Catalog { path: self.path.clone(), source })
    }
}

/// A path of the catalog.
struct Part {
    path: String,
    is_relative: bool,
}

impl Part {
    /// In these columns.
    fn of(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<Self> {
        Ok(Self { path: row.get(at)?, is_relative: row.get::<_, Option<bool>>(at + 1)?.unwrap_or_default() })
    }

    fn under(&self, folder: &Path) -> PathBuf {
        if self.is_relative { folder.join(self.path.trim_start_matches('/')) } else { PathBuf::from(&self.path) }
    }
}

fn all<T>(
    reading: &Transaction<'_>,
    sql: &str,
    values: impl rusqlite::Params,
    of: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    reading.prepare(sql)?.query_map(values, of)?.collect()
}

fn count(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(at)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, value))
}

fn newest(reading: &Transaction<'_>) -> rusqlite::Result<i64> {
    reading.query_row("SELECT max(snapshot_id) FROM ducklake_snapshot", [], |row| row.get(0))
}

fn columns(reading: &Transaction<'_>, table: i64, snapshot: i64) -> rusqlite::Result<Vec<Row>> {
    let sql = format!(
        "SELECT column_id, column_name, column_type, initial_default, nulls_allowed, parent_column \
         FROM ducklake_column WHERE {SEEN} AND table_id = ?2 ORDER BY column_order, column_id"
    );
    let mut columns = all(reading, &sql, params![snapshot, table], |row| {
        let (id, name, kind, initial) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Row { id, name, kind, initial, nullable: row.get(4)?, parent: row.get(5)?, names: Vec::new() })
    })?;
    let sql = "SELECT DISTINCT n.target_field_id, n.source_name FROM ducklake_name_mapping n \
               JOIN ducklake_column_mapping m USING (mapping_id) WHERE m.table_id = ?1";
    for (id, name) in all(reading, sql, [table], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))? {
        columns.iter_mut().filter(|column| column.id == id).for_each(|column| column.names.push(String::clone(&name)));
    }
    Ok(columns)
}

fn files(reading: &Transaction<'_>, table: i64, snapshot: i64, folder: &Path) -> rusqlite::Result<Vec<DataFile>> {
    let sql = format!(
        "SELECT data_file_id, path, path_is_relative, file_size_bytes, record_count, mapping_id, partial_max \
         FROM ducklake_data_file WHERE {SEEN} AND table_id = ?2 ORDER BY row_id_start, data_file_id"
    );
    let mut files = all(reading, &sql, params![snapshot, table], |row| {
        Ok(DataFile {
            id: row.get(0)?,
            path: Part::of(row, 1)?.under(folder),
            bytes: count(row, 3)?,
            rows: count(row, 4)?,
            is_by_names: row.get::<_, Option<i64>>(5)?.is_some(),
            newest: row.get(6)?,
            deletes: None,
            deleted: Vec::new(),
            bounds: HashMap::new(),
        })
    })?;
    let places: HashMap<i64, usize> = files.iter().enumerate().map(|(place, file)| (file.id, place)).collect();
    let sql = format!(
        "SELECT data_file_id, delete_file_id, path, path_is_relative, format FROM ducklake_delete_file \
         WHERE {SEEN} AND table_id = ?2"
    );
    let deletes = all(reading, &sql, params![snapshot, table], |row| {
        let is_vector = row.get::<_, Option<String>>(4)?.as_deref() == Some("puffin");
        let deletes = DeleteFile { id: row.get(1)?, path: Part::of(row, 2)?.under(folder), is_vector };
        Ok((row.get::<_, i64>(0)?, deletes))
    })?;
    for (file, deletes) in deletes {
        places.get(&file).into_iter().for_each(|&place| files[place].deletes = Some(deletes.clone()));
    }
    for (file, row) in inlined_deletes(reading, table, snapshot)? {
        places.get(&file).into_iter().for_each(|&place| files[place].deleted.push(row));
    }
    let sql = "SELECT data_file_id, column_id, null_count, min_value, max_value FROM ducklake_file_column_stats \
               WHERE table_id = ?1";
    let bounds = all(reading, sql, [table], |row| {
        let bounds = Bounds { nulls: count(row, 2).ok(), min: row.get(3)?, max: row.get(4)? };
        Ok((row.get::<_, i64>(0)?, row.get(1)?, bounds))
    })?;
    for (file, column, bounds) in bounds {
        if let Some(&place) = places.get(&file) {
            files[place].bounds.insert(column, bounds);
        }
    }
    Ok(files)
}

/// Files and rows of them that the catalog says are deleted.
fn inlined_deletes(reading: &Transaction<'_>, table: i64, snapshot: i64) -> rusqlite::Result<Vec<(i64, u64)>> {
    let name = format!("ducklake_inlined_delete_{table}");
    let is_there = "SELECT count(*) FROM sqlite_master WHERE name = ?1";
    if reading.query_row(is_there, [&name], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT file_id, row_id FROM {name} WHERE begin_snapshot <= ?1");
    all(reading, &sql, [snapshot], |row| Ok((row.get(0)?, count(row, 1)?)))
}

/// Rows in the catalog. They have the columns that the table had when they were written.
fn inlined(reading: &Transaction<'_>, table: i64, snapshot: i64) -> rusqlite::Result<Vec<Inlined>> {
    let sql = "SELECT t.table_name, min(v.begin_snapshot) FROM ducklake_inlined_data_tables t \
               JOIN ducklake_schema_versions v USING (schema_version) WHERE t.table_id = ?1 GROUP BY 1 ORDER BY 2";
    let mut found = Vec::new();
    for (name, since) in all(reading, sql, [table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))? {
        let of_table = columns(reading, table, since)?;
        let of_table: Vec<Row> = of_table.into_iter().filter(|column| column.parent.is_none()).collect();
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let names: Vec<String> = of_table.iter().map(|column| quoted(&column.name)).collect();
        let sql = format!("SELECT {} FROM {} WHERE {SEEN} ORDER BY row_id", names.join(", "), quoted(&name));
        let values = |row: &SqlRow<'_>| (0..names.len()).map(|at| row.get(at)).collect();
        let rows: Vec<Vec<Value>> = all(reading, &sql, [snapshot], values)?;
        if !rows.is_empty() {
            found.push(Inlined { columns: of_table.iter().map(|column| column.id).collect(), rows });
        }
    }
    Ok(found)
}
