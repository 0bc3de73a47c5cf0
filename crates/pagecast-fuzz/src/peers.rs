//! DuckDB and other writers of files: a process of Python that has their wheels.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tables::{DataFile, Format, Table, Writer};
use crate::types::Kind;

/// What a writer does.
pub(crate) enum Step {
    /// Rows, by the values of a column.
    Append(RecordBatch, Option<String>),
    Delete(String),
}

/// A DuckDB with the tables of a round, and other writers.
pub(crate) struct Peers {
    process: Mutex<Process>,
    folder: TempDir,
    pub(crate) version: String,
    writers: Vec<Writer>,
}

struct Process {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peers {
    /// Starts `python`, if it has the wheels.
    pub(crate) fn start(python: &str) -> Result<Self> {
        let mut child = Command::new(python)
            .args(["-c", concat!(include_str!("formats.py"), include_str!("peers.py"))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {python}"))?;
        let asks = child.stdin.take().context("no pipe")?;
        let answers = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut process = Process { child, asks, answers };
        let said = process.answer().with_context(|| format!("{python} has no duckdb (`pip install duckdb`)"))?;
        let version = said["version"].as_str().unwrap_or_default().to_owned();
        let writers = Vec::deserialize(&said["writers"])?;
        Ok(Self { process: Mutex::new(process), folder: tempfile::tempdir()?, version, writers })
    }

    /// Whether this writer's wheel is there.
    pub(crate) fn has(&self, writer: Writer) -> bool {
        self.writers.contains(&writer)
    }

    /// Gives DuckDB the rows that the tables should have, in the columns whose types it shares.
    pub(crate) fn load(&self, tables: &[Table]) -> Result<()> {
        for table in tables {
            let kept = table.columns.iter().enumerate().filter(|(_, column)| column.kind.is_portable());
            let kept: Vec<usize> = kept.map(|(at, _)| at).collect();
            let path = self.folder.path().join(format!("{}.parquet", table.name));
            let mut writer = ArrowWriter::try_new(File::create(&path)?, table.schema().project(&kept)?.into(), None)?;
            for batch in table.all_rows()? {
                writer.write(&batch.project(&kept)?)?;
            }
            writer.close()?;
            let (name, path) = (&table.name, path.display());
            let sql = format!("CREATE OR REPLACE TABLE {name} AS SELECT * FROM '{path}'");
            let refused = self.ask(&json!({"sql": sql}))?;
            ensure!(refused.is_null(), "DuckDB does not take table {name}: {refused}");
        }
        Ok(())
    }

    /// The rows of a statement; none if DuckDB refuses it.
    pub(crate) fn run(&self, sql: &str) -> Result<Option<Vec<RecordBatch>>> {
        let path = self.folder.path().join("rows.parquet");
        let refused = self.ask(&json!({"sql": sql, "to": path}))?;
        if !refused.is_null() {
            return Ok(None);
        }
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path)?)?.build()?;
        Ok(Some(reader.collect::<Result<_, _>>()?))
    }

    /// Lets a writer write a file's rows.
    pub(crate) fn write(&self, to: &Path, rows: &RecordBatch, file: &DataFile) -> Result<()> {
        let from = self.folder.path().join("written.parquet");
        let mut writer = ArrowWriter::try_new(File::create(&from)?, rows.schema(), None)?;
        writer.write(rows)?;
        writer.close()?;
        let marks: BTreeMap<&str, &str> = file
            .columns
            .iter()
            .filter_map(|(name, kind)| match kind {
                Kind::Uuid => Some((name.as_str(), "Uuid")),
                Kind::Enum => Some((name.as_str(), "Enum")),
                Kind::Interval => Some((name.as_str(), "Interval")),
                _ => None,
            })
            .collect();
        let refused = self.ask(&json!({
            "write": file.writer, "from": from, "to": to, "rows": file.row_group, "marks": marks,
        }))?;
        fs::remove_file(from)?;
        ensure!(refused.is_null(), "{:?} does not write {}: {refused}", file.writer, to.display());
        Ok(())
    }

    /// Lets the writer of a format make a table, and gives the rows that its own reader finds.
    pub(crate) fn make(&self, format: Format, path: &Path, steps: &[Step], bounds: bool) -> Result<Vec<RecordBatch>> {
        let to = self.folder.path().join("found.parquet");
        let mut asked = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            asked.push(match step {
                Step::Delete(condition) => json!({"delete": condition}),
                Step::Append(rows, by) => {
                    let path = self.folder.path().join(format!("{at}.parquet"));
                    let mut writer = ArrowWriter::try_new(File::create(&path)?, rows.schema(), None)?;
                    writer.write(rows)?;
                    writer.close()?;
                    json!({"rows": path, "by": by})
                }
            });
        }
        let name = path.file_name().and_then(|name| name.to_str()).context("a table without a name")?;
        let question = json!({"make": format, "path": path, "name": name, "steps": asked, "bounds": bounds, "to": to});
        let refused = self.ask(&question)?;
        ensure!(refused.is_null(), "no {format:?} table {}: {refused}", path.display());
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&to)?)?.build()?;
        Ok(reader.collect::<Result<_, _>>()?)
    }

    /// The error, if it answers with one.
    fn ask(&self, question: &Value) -> Result<Value> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(process.asks, "{question}")?;
        Ok(process.answer()?["error"].take())
    }
}

impl Process {
    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "Python has ended");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
