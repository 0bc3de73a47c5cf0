//! `pagecast trace`: looks at, converts, generates and draws traces.

#[cfg(feature = "redset")]
mod import;
mod info;

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagecast_sim::charts;
use pagecast_sim::generate::{generate, workloads};
use pagecast_sim::report::Page;
use pagecast_sim::trace::columnar::ColumnarWriter;
use pagecast_sim::trace::{
    Action, Compression, Format, Record, Source, Trace, TraceError, open, write_oracle_general, write_text,
};

use crate::failure::usage;
use crate::output::{OutputArgs, ResultFile, write_whole};

/// What to do.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Count requests, pages, writes, streams and scans
    Info(info::Args),
    /// Write a trace in another format
    Convert(ConvertArgs),
    /// Make a workload by rule and seed
    #[command(after_help = workload_help())]
    Generate(GenerateArgs),
    /// Make a trace of a file of Redset, the published query metadata of Amazon Redshift
    #[cfg(feature = "redset")]
    Import(import::Args),
    /// Draw which pages are asked for over time
    Plot(PlotArgs),
}

#[derive(clap::Args, Debug)]
struct ConvertArgs {
    /// The trace to read
    input: PathBuf,
    /// The file to write; .gz, .zst or .xz at the end of its name compresses it
    output: PathBuf,
    /// Format of the input: auto, text, csv(...), oracleGeneral, lis, lirs, pagecast
    #[arg(long, value_name = "F", default_value = "auto")]
    format: Format,
    /// Format of the output: text, oracleGeneral, pagecast; told from its name unless given
    #[arg(long, value_name = "F")]
    to: Option<Format>,
}

#[derive(clap::Args, Debug)]
struct GenerateArgs {
    /// The workload, with parameters in parentheses: sequential(streams=8,pages=5000)
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// The file to write; its name tells the format as in convert
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Format of the output: text, oracleGeneral, pagecast
    #[arg(long, value_name = "F")]
    to: Option<Format>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args, Debug)]
struct PlotArgs {
    /// The traces to draw
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Format of the traces: auto, text, csv(...), oracleGeneral, lis, lirs, pagecast
    #[arg(long, value_name = "F", default_value = "auto")]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

fn workload_help() -> String {
    let lines: Vec<_> = workloads().map(|(name, about)| format!("  {name}: {about}")).collect();
    format!("Workloads:\n{}", lines.join("\n"))
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.verb {
        Verb::Info(args) => info::run(&args),
        Verb::Convert(args) => convert(&args),
        Verb::Generate(args) => make(&args),
        #[cfg(feature = "redset")]
        Verb::Import(args) => import::run(&args),
        Verb::Plot(args) => plot(&args),
    }
}

fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    let to = target(args.to.as_ref(), &args.output)?;
    let mut source = open(&args.input, &args.format)?;
    let name = args.input.file_name().unwrap_or_default().to_string_lossy();
    let written = write(source.as_mut(), &format!("converted from {name}"), &to, &args.output)
        .with_context(|| format!("cannot convert {}", args.input.display()))?;
    println!("{}: {written}", args.output.display());
    Ok(())
}

fn make(args: &GenerateArgs) -> anyhow::Result<()> {
    let to = target(args.to.as_ref(), &args.out)?;
    let mut workload = generate(&args.workload, args.seed).map_err(usage)?;
    let origin = workload.origin().to_owned();
    let written = write(&mut workload, &origin, &to, &args.out)?;
    println!("{}: {written} of {origin}", args.out.display());
    Ok(())
}

/// The format to write: the one given, else the one that the file's name tells before the end that
/// names a compression.
fn target(given: Option<&Format>, path: &Path) -> anyhow::Result<Format> {
    let (_, name) = Compression::told_from(path);
    let format = match (given, name.extension().and_then(|end| end.to_str())) {
        (Some(format), _) => format.clone(),
        (None, Some("txt" | "text")) => Format::Text,
        (None, Some("oracleGeneral" | "bin")) => Format::OracleGeneral,
        (None, Some("pct")) => Format::Columnar,
        (None, _) => {
            let path = path.display();
            return Err(usage(format!(
                "{path}: the name tells no format; end it in .pct, .txt or .oracleGeneral (.gz, .zst or .xz may follow), or \
                 give --to"
            )));
        }
    };
    match format {
        Format::Text | Format::OracleGeneral | Format::Columnar => Ok(format),
        _ => Err(usage("--to: only text, oracleGeneral and pagecast can be written")),
    }
}

/// A source of which is counted what text and oracleGeneral cannot hold.
struct Counted<'a> {
    source: &'a mut dyn Source,
    writes: u64,
    tuples: u64,
    others: u64,
}

impl Source for Counted<'_> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        let record = self.source.next()?;
        match record.as_ref().map(|record| &record.action) {
            Some(Action::Request { write, .. }) => self.writes += u64::from(*write),
            Some(Action::Tuple { write, .. }) => {
                self.writes += u64::from(*write);
                self.tuples += 1;
            }
            Some(_) => self.others += 1,
            None => {}
        }
        Ok(record)
    }
}

impl Counted<'_> {
    /// What a file of `format` with `requests` requests lacks.
    fn told(&self, requests: u64, format: &Format) -> String {
        let mut text = format!("{requests} requests");
        if self.others > 0 {
            text += &format!(", without {} records of scans, streams and rows", self.others);
        }
        if self.tuples > 0 && *format == Format::OracleGeneral {
            text += &format!(", {} tuples as their pages", self.tuples);
        }
        if self.writes > 0 && *format == Format::OracleGeneral {
            text += &format!(", {} writes as reads", self.writes);
        }
        text
    }
}

/// Writes `source` whole or not at all; says how much, and what the format cannot hold.
fn write(source: &mut dyn Source, origin: &str, format: &Format, path: &Path) -> anyhow::Result<String> {
    let file = ResultFile::create(path)?;
    let (compression, _) = Compression::told_from(path);
    let mut out = BufWriter::with_capacity(1 << 18, compression.around(file)?);
    let mut source = Counted { source, writes: 0, tuples: 0, others: 0 };
    let written = match format {
        Format::Columnar => {
            let mut writer = ColumnarWriter::new(out, origin)?;
            let records = writer.push_all(&mut source)?;
            out = writer.finish()?;
            format!("{records} records")
        }
        Format::OracleGeneral => {
            let trace = Trace::load("", &mut source)?;
            let pages: Vec<_> = trace.requests().iter().map(|&number| trace.pages()[number as usize]).collect();
            write_oracle_general(&pages, &mut out)?;
            source.told(pages.len() as u64, format)
        }
        _ => {
            let requests = write_text(&mut source, &mut out)?;
            source.told(requests, format)
        }
    };
    let compressed = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    compressed.finish().and_then(ResultFile::finish)?;
    Ok(written)
}

fn plot(args: &PlotArgs) -> anyhow::Result<()> {
    args.output.check()?;
    let Some(html) = &args.output.html else {
        return Err(usage("trace plot draws into a page; give --html FILE"));
    };
    let mut page = Page::new("Page accesses", charts::ACCESSES);
    for path in &args.traces {
        let trace = load(path, &args.format)?;
        let note = format!("{} requests for {} different pages.", trace.requests().len(), trace.unique());
        page.chart(trace.name.clone(), note, 420, charts::accesses(&trace));
    }
    write_whole(html, page.to_string().as_bytes())?;
    println!("{}", html.display());
    Ok(())
}

/// The whole trace in `path`.
fn load(path: &Path, format: &Format) -> anyhow::Result<Trace> {
    let mut source = open(path, format)?;
    Ok(Trace::load(path.display().to_string(), source.as_mut()).map_err(|error| error.in_file(path))?)
}
