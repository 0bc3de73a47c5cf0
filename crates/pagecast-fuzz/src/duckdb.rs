//! DuckDB beside: a process of Python that has its wheel.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tables::Table;

/// A DuckDB with the tables of a round.
pub(crate) struct DuckDb {
    process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
    pub(crate) version: String,
}

impl DuckDb {
    /// Starts `python`, if it has the wheel.
    pub(crate) fn start(python: &str) -> Result<Self> {
        let mut process = Command::new(python)
            .args(["-c", include_str!("duckdb.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {python}"))?;
        let asks = process.stdin.take().context("no pipe")?;
        let answers = BufReader::new(process.stdout.take().context("no pipe")?);
        let mut duckdb = Self { process, asks, answers, folder: tempfile::tempdir()?, version: String::new() };
        let said = duckdb.answer().with_context(|| format!("{python} has no duckdb (`pip install duckdb`)"))?;
        duckdb.version = said["version"].as_str().unwrap_or_default().to_owned();
        Ok(duckdb)
    }

    /// Gives it the rows that the tables should have, in the columns whose types it shares.
    pub(crate) fn load(&mut self, tables: &[Table]) -> Result<()> {
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
            let made = self.ask(&format!("CREATE OR REPLACE TABLE {name} AS SELECT * FROM '{path}'"), None)?;
            anyhow::ensure!(made.is_null(), "DuckDB does not take table {name}: {made}");
        }
        Ok(())
    }

    /// The rows of a statement; none if DuckDB refuses it.
    pub(crate) fn run(&mut self, sql: &str) -> Result<Option<Vec<RecordBatch>>> {
        let path = self.folder.path().join("rows.parquet");
        let refused = self.ask(sql, Some(&path))?;
        if !refused.is_null() {
            return Ok(None);
        }
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path)?)?.build()?;
        Ok(Some(reader.collect::<Result<_, _>>()?))
    }

    /// The error, if it answers with one.
    fn ask(&mut self, sql: &str, to: Option<&Path>) -> Result<Value> {
        writeln!(self.asks, "{}", json!({"sql": sql, "to": to}))?;
        Ok(self.answer()?["error"].take())
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        anyhow::ensure!(self.answers.read_line(&mut line)? > 0, "DuckDB has ended");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
