//! `bench-layout FILE.parquet`: fixed blocks or column-chunk extents, and of what size?
//!
//! Two ways to cut a Parquet file into pages for frames of one size. *Fixed*: page `k` is bytes
//! `k * size` to `(k + 1) * size` of the file, so that neighbouring column chunks share a page.
//! *Extent*: each column chunk is cut from its own start, so that a chunk's last page leaves the
//! rest of its frame empty. The same concurrent scans are replayed through both at the same memory,
//! and the bytes of the misses are counted. What copying out of pages costs is measured by the
//! DataFusion host's example `block_size`.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use pagecast_core::oracle::NoScans;
use pagecast_core::policy::PolicySpec;
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId};
use pagecast_sim::replay::{PageIds, accesses, belady_misses, replay};
use parquet::file::reader::{FileReader, SerializedFileReader};

const SIZES: [u64; 6] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];
const STREAMS: usize = 8;
const QUERIES: usize = 6;
/// The columns of lineitem that Q1 and Q6 read.
const Q1: [usize; 7] = [4, 5, 6, 7, 8, 9, 10];
const Q6: [usize; 4] = [4, 5, 6, 10];
const SELECTIVITY: f64 = 0.3;
const POOL_SHARE: f64 = 0.3;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: bench-layout FILE.parquet (lineitem, as `pagecast bench` generates it)");
        return ExitCode::from(2);
    };
    match run(path.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-layout: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path) -> Result<(), Failure> {
    let chunks = column_chunks(path)?;
    let steps = interleaved_scans(&chunks, 42);
    let touched: u64 = distinct(&steps).iter().map(|chunk| chunk.end - chunk.start).sum();
    println!("{} row groups, {:.1} MB touched, pool {:.0} %", chunks.len(), mb(touched), 100.0 * POOL_SHARE);
    println!(
        "{:>9} {:>8} {:>10} {:>12} {:>12} {:>10}",
        "page KiB", "layout", "footprint", "lru read MB", "opt read MB", "requests"
    );
    for size in SIZES {
        for layout in [Layout::Fixed, Layout::Extent] {
            let pages = Pages::of(&steps, layout, size);
            let frames = ((touched as f64 * POOL_SHARE) as u64 / size) as u32;
            let lru = PolicySpec::parse("lru")?;
            let (mut lru_bytes, mut opt_bytes) = (0, 0);
            let length = |page: PageId| pages.lengths[page.block() as usize];
            replay(accesses(&pages.requests), PageIds::Sparse, &lru, frames, 1, &NoScans, |miss| {
                lru_bytes += length(miss.page);
            })?;
            belady_misses(&pages.requests, frames, |miss| opt_bytes += length(miss.page))?;
            println!(
                "{:>9} {:>8} {:>9.3}x {:>12.1} {:>12.1} {:>10}",
                size >> 10,
                layout.name(),
                pages.footprint(size) as f64 / touched as f64,
                mb(lru_bytes),
                mb(opt_bytes),
                pages.requests.len()
            );
        }
    }
    Ok(())
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Byte ranges of the column chunks, by row group and column.
fn column_chunks(path: &Path) -> Result<Vec<Vec<Range<u64>>>, Failure> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let ranges = |group: &parquet::file::metadata::RowGroupMetaData| {
        let ranges = group.columns().iter().map(|column| {
            let (start, len) = column.byte_range();
            start..start + len
        });
        ranges.collect::<Vec<_>>()
    };
    let chunks: Vec<_> = reader.metadata().row_groups().iter().map(ranges).collect();
    if chunks.iter().any(|group| group.len() <= Q1[6]) {
        return Err("this is not lineitem: too few columns".into());
    }
    Ok(chunks)
}

/// What each scan's next row group needs, the streams taking turns.
fn interleaved_scans(chunks: &[Vec<Range<u64>>], seed: u64) -> Vec<Vec<Range<u64>>> {
    let mut random = Random::new(seed);
    let length = ((chunks.len() as f64 * SELECTIVITY) as usize).max(1);
    let streams: Vec<Vec<Vec<Range<u64>>>> = (0..STREAMS)
        .map(|_| {
            let mut steps = Vec::new();
            for _ in 0..QUERIES {
                let columns: &[usize] = if random.below(2) == 0 { &Q1 } else { &Q6 };
                let first = random.below((chunks.len() - length + 1) as u32) as usize;
                for group in &chunks[first..first + length] {
                    steps.push(columns.iter().map(|&column| group[column].clone()).collect());
                }
            }
            steps
        })
        .collect();
    (0..length * QUERIES).flat_map(|step| streams.iter().map(move |stream| stream[step].clone())).collect()
}

fn distinct(steps: &[Vec<Range<u64>>]) -> Vec<Range<u64>> {
    let mut chunks: Vec<Range<u64>> = steps.iter().flatten().cloned().collect();
    chunks.sort_unstable_by_key(|chunk| chunk.start);
    chunks.dedup();
    chunks
}

#[derive(Clone, Copy)]
enum Layout {
    Fixed,
    Extent,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Extent => "extent",
        }
    }
}

/// The scans as page requests.
struct Pages {
    requests: Vec<PageId>,
    /// Bytes of each page that are read when it misses, by block.
    lengths: Vec<u64>,
}

impl Pages {
    fn of(steps: &[Vec<Range<u64>>], layout: Layout, size: u64) -> Self {
        let chunks = distinct(steps);
        // The first page of each chunk, and the length of every page.
        let mut first = Vec::new();
        let mut lengths = Vec::new();
        match layout {
            Layout::Fixed => {
                let end = chunks.iter().map(|chunk| chunk.end).max().unwrap_or(0);
                lengths = vec![size; end.div_ceil(size) as usize];
            }
            Layout::Extent => {
                for chunk in &chunks {
                    first.push(lengths.len() as u64);
                    let len = chunk.end - chunk.start;
                    lengths.extend((0..len.div_ceil(size)).map(|i| size.min(len - i * size)));
                }
            }
        }
        let mut requests: Vec<PageId> = Vec::new();
        for step in steps {
            let begin = requests.len();
            for chunk in step {
                let blocks = match layout {
                    Layout::Fixed => chunk.start / size..chunk.end.div_ceil(size),
                    Layout::Extent => {
                        let at = chunks.partition_point(|other| other.start < chunk.start);
                        first[at]..first[at] + (chunk.end - chunk.start).div_ceil(size)
                    }
                };
                let pages = blocks.map(|block| PageId::new(RelationId(0), block as u32));
                requests.extend(
                    pages.filter(|page| *page != *requests[begin..].last().unwrap_or(&NOT_A_PAGE)).collect::<Vec<_>>(),
                );
            }
        }
        Self { requests, lengths }
    }

    /// Bytes of frames that all pages together would fill.
    fn footprint(&self, size: u64) -> u64 {
        let mut pages = self.requests.clone();
        pages.sort_unstable();
        pages.dedup();
        pages.len() as u64 * size
    }
}

const NOT_A_PAGE: PageId = PageId::from_raw(u64::MAX);
