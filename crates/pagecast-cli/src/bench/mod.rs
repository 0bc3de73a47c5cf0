//! `pagecast bench`: concurrent query streams over Parquet, once per policy.

mod axis;
mod dashboards;
mod fingerprint;
mod floor;
mod generated;
mod lineitem;
mod machine;
mod page;
mod results;
mod row;
mod stage;
mod tier;
mod timeline;
mod touched;
mod tpch;
mod workload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use pagecast::storage::{DeclaredModel, MAX_REQUEST, ObjectOptions, StoreModel};
use pagecast::{PoolOptions, PrefetchOptions};
use pagecast_core::policy::PolicySpec;
use pagecast_datafusion::Delivery;
use pagecast_sql::Place;
use pagecast_sql::stores::Source;
use pagecast_sql::tables::{self, Found, Table};

use crate::failure::usage;
use crate::flash::FlashArgs;
use crate::interrupt::{Interrupted, Presses};
use crate::output::{OutputArgs, write_whole};
use crate::stores::StoreArgs;
use crate::units::{self, Size};
use crate::watch::{self, Watch, Watching};
use fingerprint::Fingerprint;
use results::{Config, Results, StorageConfig};
use row::{Reading, Setting};
use tier::{Filling, Tier};
use workload::{Domain, Query, Template, Workload};

/// Runs the same query streams once per policy and shows how many bytes each read from storage.
///
/// Two rows come first, to compare with: plain DataFusion without a pool, and DataFusion's own
/// order of delivery through a pool with clock. The rows of --policies follow, their scans
/// registered and delivered in order, and the last of these policies once more, out of order.
/// --delivery chooses rows.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder of Parquet files, or its URL (s3://bucket/folder, gs, az, https, file); each file or
    /// subfolder is a table named by its stem. Default: TPC-H lineitem, generated
    #[arg(long, value_name = "DIR")]
    data: Option<Place>,
    #[command(flatten)]
    store: StoreArgs,
    /// What the streams run: `ranges` of --query; `tpch`, the throughput run of TPC-H: its 22
    /// queries in an order of each stream, over --data or generated tables; or `dashboards`: each
    /// stream a report that comes back every 8, 16 or 32 s, and beside them queries that do not
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Workload::Ranges)]
    workload: Workload,
    /// File with one SQL statement; `{lo}` and `{hi}` become the ends of a random range, `{stream}`
    /// the stream's number. Repeatable; each execution draws one. Default: queries like TPC-H Q1
    /// and Q6
    #[arg(long, value_name = "FILE.sql")]
    query: Vec<PathBuf>,
    /// What `{lo}` and `{hi}` are drawn from, dates or whole numbers, the end excluded
    #[arg(long, value_name = "LO..HI", default_value = "1992-01-02..1998-12-02", allow_hyphen_values = true)]
    range: Domain,
    /// Length of a random range as a share of --range; of several, each execution draws one
    #[arg(long, value_name = "F,F", default_value = "0.3", value_delimiter = ',', value_parser = units::share)]
    selectivity: Vec<f64>,
    /// Policies, each a row
    #[arg(long, value_name = "P,P", default_value = "clock,lru,random,pbm")]
    policies: String,
    /// In which order row groups are delivered [default: none, stock, in-order, and out-of-order
    /// with the last policy]
    #[arg(long, value_name = "D,D", value_enum, value_delimiter = ',')]
    delivery: Vec<results::Delivery>,
    /// Concurrent streams
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: u32,
    /// Queries of each stream; of dashboards the starts of the most frequent reports [default: 6,
    /// of tpch its 22, of dashboards 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queries: Option<u32>,
    /// With --workload dashboards: the share of the queries that never come back
    #[arg(long, value_name = "F", default_value = "0.5", value_parser = one_off)]
    one_off: f64,
    /// How often each row is run, in turns; the table shows medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Memory of the pool: 64MiB, or 30% of the distinct compressed bytes that the query list reads
    #[arg(long, value_name = "SIZE", default_value = "30%")]
    pool: Size,
    #[command(flatten)]
    flash: FlashArgs,
    /// With --flash: what fills the tier, each a row for each policy; `none` for the pool alone.
    /// Each run has a tier of its own, empty at first; its size may be a share as that of the pool
    #[arg(
        long,
        value_name = "F,F",
        value_enum,
        value_delimiter = ',',
        default_value = "predicted",
        requires = "place"
    )]
    flash_policies: Vec<Filling>,
    /// Size of a page [default: the pool's own]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<Size>,
    /// Share of the pool for pages that in-order scans read ahead, 0 to 0.5
    #[arg(long, value_name = "F", default_value = "0", value_parser = read_ahead)]
    read_ahead: f64,
    /// Bandwidth of the declared storage, shared by all; `local` for the disk as it is [default:
    /// 40MB/s, and of a URL the store as it is]
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    bandwidth: Option<Bandwidth>,
    /// Latency of a request to the declared storage; up to 16 overlap, of a store up to 256
    /// [default: 5ms, and of a declared store 30ms]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    latency: Option<Duration>,
    /// Share of the requests that a declared store refuses at first (503)
    #[arg(long, value_name = "F", value_parser = units::share)]
    refused: Option<f64>,
    /// Scale factor of generated data; lineitem of the default workload needs about 1.6 GB of
    /// memory for each 1.0 while it is generated
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = scale, conflicts_with = "data")]
    sf: f64,
    /// DataFusion's target_partitions
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: u32,
    /// Shows the pools at work on a page meanwhile: http://127.0.0.1:8432, or where ADDR says
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = watch::USUAL)]
    watch: Option<SocketAddr>,
    #[command(flatten)]
    output: OutputArgs,
}

/// A declared number of bytes a second; `None` for the local disk.
type Bandwidth = Option<u64>;

fn bandwidth(text: &str) -> Result<Bandwidth, String> {
    if text == "local" { Ok(None) } else { units::rate(text).map(Some) }
}

fn read_ahead(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=PrefetchOptions::MAX_SHARE).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is no share from 0 to {}", PrefetchOptions::MAX_SHARE)),
    }
}

fn one_off(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=0.95).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is no share from 0 to 0.95")),
    }
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(scale),
        _ => Err(format!("`{text}` is no scale factor from 0.001 to 1000")),
    }
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let rows = with_tiers(rows(&args.policies, &args.delivery)?, &args);
    args.output.check()?;
    let page_bytes = page_bytes(args.page_size)?;
    match args.pool {
        Size::Share(_) => {}
        Size::Bytes(bytes) => rows.iter().try_for_each(|row| row::check_pool(row, bytes, page_bytes))?,
        Size::Plain(0) => return Err(usage("--pool: a pool of 0 bytes holds no page; write 64MiB or 30%")),
        Size::Plain(_) => return Err(usage(format!("--pool: `{}` has no unit; write 64MiB or 30%", args.pool))),
    }
    let templates = match (args.workload, &args.query[..]) {
        (Workload::Ranges | Workload::Dashboards, []) => Template::defaults(),
        (Workload::Ranges | Workload::Dashboards, paths) => {
            paths.iter().map(|path| Template::read(path)).collect::<anyhow::Result<_>>()?
        }
        (Workload::Tpch, []) => Vec::new(),
        (Workload::Tpch, _) => {
            return Err(usage("--query: the workload tpch has its own queries; leave one of both out"));
        }
    };
    let data = match (&args.data, args.workload) {
        (Some(folder), _) => folder.clone(),
        (None, Workload::Ranges | Workload::Dashboards) => lineitem::folder(args.sf)?.into(),
        (None, Workload::Tpch) => tpch::folder(args.sf)?.into(),
    };
    let model = args.store_model();
    let source = args.store.source(&data)?.map(|source| Arc::new(source.over_network(model)));
    if source.is_none() && args.refused.is_some() {
        return Err(usage("--refused: files are not refused; --data is a URL then, file:// for a folder"));
    }
    if source.is_none() && args.flash.place.is_some() {
        return Err(usage("--flash: has copies of objects; --data is a URL then, file:// for a folder"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let found: anyhow::Result<Found> = match &source {
        None => tables::discover(&data).context("--data"),
        Some(source) => runtime.block_on(source.discover()),
    };
    let tables = found?.all()?;
    let bench = Bench { args, rows, templates, data, source, tables, page_bytes };
    let results = runtime.block_on(bench.measure())?;
    bench.write(&results)?;
    if results.partial { Err(Interrupted.into()) } else { Ok(()) }
}

/// The rows of these deliveries, in the order of the table; without any, those of the default.
fn rows(policies: &str, deliveries: &[results::Delivery]) -> anyhow::Result<Vec<Reading>> {
    let policies = PolicySpec::parse_list(policies).map_err(|error| usage(format!("--policies: {error}")))?;
    if let Some(policy) = policies.iter().find(|policy| policy.needs_trace()) {
        let name = policy.name();
        return Err(usage(format!(
            "--policies: {name} needs the future; its figure stands beside every run as Belady"
        )));
    }
    let clock = PolicySpec::parse("clock").context("the policy of the stock row")?;
    let baselines = [Reading::Plain, Reading::Pooled(clock, Delivery::Stock, None)];
    let row = |delivery| move |policy: &PolicySpec| Reading::Pooled(policy.clone(), delivery, None);
    let in_order = policies.iter().map(row(Delivery::InOrder));
    // Cooperation is one row beside those of the policies, unless it is asked for.
    let out_of_order = if deliveries.is_empty() { &policies[policies.len().saturating_sub(1)..] } else { &policies };
    let out_of_order = out_of_order.iter().map(row(Delivery::OutOfOrder));
    let wanted = |row: &Reading| deliveries.is_empty() || deliveries.contains(&row.delivery());
    Ok(baselines.into_iter().chain(in_order).chain(out_of_order).filter(wanted).collect())
}

/// The rows, with a tier on flash as it is asked for; those to compare with have none.
fn with_tiers(rows: Vec<Reading>, args: &Args) -> Vec<Reading> {
    if args.flash.place.is_none() {
        return rows;
    }
    let tiers = |row: Reading| -> Vec<Reading> {
        match row {
            Reading::Pooled(policy, delivery, _) if delivery != Delivery::Stock => {
                let with = |filling: &Filling| Reading::Pooled(policy.clone(), delivery, Some(*filling));
                args.flash_policies.iter().map(with).collect()
            }
            other => vec![other],
        }
    };
    rows.into_iter().flat_map(tiers).collect()
}

/// A page that shows what runs.
fn started(watch: Watch, setting: &Setting) -> anyhow::Result<Watching> {
    eprintln!("pagecast shows its pools on {}", watch.url());
    watch.start(setting.stage.clone()).context("--watch")
}

fn page_bytes(size: Option<Size>) -> anyhow::Result<u32> {
    match size {
        None => Ok(PoolOptions::default().page_size),
        Some(Size::Bytes(bytes)) if bytes > 0 && bytes % 4096 == 0 && bytes <= MAX_REQUEST as u64 => Ok(bytes as u32),
        Some(size) => Err(usage(format!("--page-size: {size} is no multiple of 4 KiB up to 4 MiB"))),
    }
}

impl Args {
    /// The declared speed of files.
    fn model(&self) -> Option<DeclaredModel> {
        let latency = self.latency.unwrap_or(Duration::from_millis(5));
        let bandwidth = self.bandwidth.unwrap_or(Some(40_000_000));
        bandwidth.map(|bandwidth| DeclaredModel { bandwidth, latency, outstanding: DeclaredModel::OUTSTANDING })
    }

    /// The declared speed of a store; none where nothing is said of it.
    fn store_model(&self) -> Option<StoreModel> {
        let bandwidth = match self.bandwidth {
            Some(None) => return None,
            Some(bandwidth) => bandwidth,
            None if self.latency.is_none() && self.refused.is_none() => return None,
            None => None,
        };
        let mut model = StoreModel::default().refused(self.refused.unwrap_or(0.0), self.output.seed);
        model.bandwidth = bandwidth.unwrap_or(model.bandwidth);
        model.latency = self.latency.unwrap_or(model.latency);
        Some(model)
    }
}

/// A bench whose arguments have been understood.
struct Bench {
    args: Args,
    rows: Vec<Reading>,
    templates: Vec<Template>,
    data: Place,
    /// Where the tables are, if that is an object store.
    source: Option<Arc<Source>>,
    tables: Vec<Table>,
    page_bytes: u32,
}

impl Bench {
    /// Runs all rows, and all of them again for each repetition, until they are done or Ctrl-C is
    /// pressed.
    async fn measure(&self) -> anyhow::Result<Results> {
        let interrupted = || anyhow::Error::from(Interrupted);
        // Before any file is read: an address that is taken is told at once.
        let watch = self.args.watch.map(Watch::bind).transpose().context("--watch")?;
        let data = Fingerprint::of(&self.tables, self.source.clone()).await?;
        let mut presses = Presses::new();
        let setting = presses.unless(self.setting()).await.ok_or_else(interrupted)?;
        // Before any error of their own: plain DataFusion sees in a file that changed whatever it
        // takes it for.
        data.check(&self.tables).await?;
        let setting = setting?;
        let config = self.config(&setting, data.bytes());
        let repeat = config.repeat;
        let mut results = Results { schema: 1, config, partial: false, runs: Vec::new(), rows: self.rows.len() };
        let _watching = watch.map(|watch| started(watch, &setting)).transpose()?;
        let bar = self.bar(&setting);
        for (repetition, reading) in (1..=repeat).flat_map(|turn| self.rows.iter().map(move |row| (turn, row))) {
            bar.set_message(if repeat > 1 { format!("{reading}, {repetition}") } else { reading.to_string() });
            let Some(run) = presses.unless(setting.run(reading, repetition, &bar)).await else {
                results.partial = true;
                break;
            };
            data.check(&self.tables).await?;
            results.runs.push(run.with_context(|| format!("row {reading}"))?);
        }
        bar.finish_and_clear();
        if results.runs.is_empty() { Err(interrupted()) } else { Ok(results) }
    }

    fn bar(&self, setting: &Setting) -> ProgressBar {
        let queries = setting.list.iter().map(|stream| stream.len() as u64).sum::<u64>();
        let rows = u64::from(self.args.repeat) * self.rows.len() as u64;
        ProgressBar::new(queries * rows).with_style(
            ProgressStyle::with_template("{msg:<24} {bar:40} {pos}/{len} queries  {elapsed}")
                .expect("the template is constant"),
        )
    }

    /// Decides everything that all rows share; checks the queries and plans them, but executes
    /// none.
    async fn setting(&self) -> anyhow::Result<Setting> {
        let args = &self.args;
        let mut setting = Setting {
            tables: self.tables.clone(),
            list: self.query_list(),
            target_partitions: args.partitions as usize,
            source: self.source.clone(),
            model: args.model(),
            prices: args.store.price,
            pool_bytes: 0,
            flash: None,
            page_bytes: self.page_bytes,
            read_ahead: args.read_ahead,
            touched_bytes: 0,
            seed: args.output.seed,
            watched: args.watch.is_some(),
            stage: Arc::default(),
        };
        let (ctx, _) = setting.session().await?;
        for template in &self.templates {
            template.check(&ctx, &args.range).await?;
        }
        setting.touched_bytes = touched::bytes(&setting).await?;
        if setting.touched_bytes == 0 && matches!(args.pool, Size::Share(_)) {
            let (range, share) = (&args.range, args.pool);
            return Err(usage(format!(
                "--pool: the queries read nothing, and {share} of nothing is no pool; do the data have rows in --range {range}, \
                 from which {{lo}} and {{hi}} are drawn?"
            )));
        }
        setting.pool_bytes = match args.pool {
            Size::Bytes(bytes) | Size::Plain(bytes) => bytes,
            Size::Share(share) => (setting.touched_bytes as f64 * share) as u64,
        };
        setting.flash =
            args.flash.place.as_ref().map(|place| Tier::of(place, args.flash.writes, setting.touched_bytes));
        // A pool that cannot be made is found out now and not after the row that needs none.
        for row in &self.rows {
            row::check_pool(row, setting.pool_bytes, setting.page_bytes)?;
        }
        Ok(setting)
    }

    /// The queries of each stream.
    fn query_list(&self) -> Vec<Vec<Query>> {
        let args = &self.args;
        let size = (args.streams as usize, args.queries.map_or(args.workload.queries(), |queries| queries as usize));
        match args.workload {
            Workload::Ranges => {
                workload::query_list(&self.templates, &args.range, &args.selectivity, size, args.output.seed)
            }
            Workload::Tpch => tpch::query_list(args.sf, size, args.output.seed),
            Workload::Dashboards => {
                let mix = dashboards::Mix { reports: size.0, starts: size.1, one_off: args.one_off };
                dashboards::query_list(&self.templates, &args.range, &args.selectivity, &mix, args.output.seed)
            }
        }
    }

    /// What stands behind the reader.
    fn storage(&self, setting: &Setting) -> StorageConfig {
        let of_store = self.source.as_ref().map(|source| {
            let (model, shape) = (self.args.store_model(), ObjectOptions::default().shape);
            StorageConfig {
                label: source.describe(),
                declared: model.is_some(),
                bandwidth_bytes_s: model.map(|model| model.bandwidth),
                latency_s: model.map(|model| model.latency.as_secs_f64()),
                outstanding: model.map(|model| model.outstanding),
                refused: model.map(|model| model.refused),
                max_request_bytes: shape.max_bytes as u64,
                prices: Some(self.args.store.price.to_string()),
            }
        });
        of_store.unwrap_or_else(|| {
            let model = self.args.model();
            StorageConfig {
                label: setting.device().describe(),
                declared: model.is_some(),
                bandwidth_bytes_s: model.map(|model| model.bandwidth),
                latency_s: model.map(|model| model.latency.as_secs_f64()),
                outstanding: model.map(|model| model.outstanding),
                refused: None,
                max_request_bytes: MAX_REQUEST as u64,
                prices: None,
            }
        })
    }

    fn config(&self, setting: &Setting, data_bytes: u64) -> Config {
        let args = &self.args;
        Config {
            version: env!("CARGO_PKG_VERSION"),
            machine: machine::Machine::current(),
            data: self.data.to_path_buf(),
            data_bytes,
            sf: args.data.is_none().then_some(args.sf),
            workload: args.workload,
            templates: self.templates.iter().map(|template| template.name.clone()).collect(),
            streams: args.streams as usize,
            queries_per_stream: setting.list.first().map_or(0, Vec::len),
            repeat: args.repeat as usize,
            selectivity: args.selectivity.clone(),
            range: args.range.to_string(),
            seed: args.output.seed,
            target_partitions: setting.target_partitions,
            storage: self.storage(setting),
            pool: args.pool.to_string(),
            pool_bytes: setting.pool_bytes,
            page_bytes: setting.page_bytes,
            read_ahead: setting.read_ahead,
            touched_bytes: setting.touched_bytes,
        }
    }

    /// Writes the files that were asked for, then the table, whatever became of the files.
    fn write(&self, results: &Results) -> anyhow::Result<()> {
        use std::io::Write;
        let files = self.write_files(results);
        std::io::stdout().lock().write_all(results.summary().as_bytes())?;
        files
    }

    fn write_files(&self, results: &Results) -> anyhow::Result<()> {
        if let Some(path) = &self.args.output.json {
            let mut json = serde_json::to_vec_pretty(results).context("cannot write the results as JSON")?;
            json.push(b'\n');
            write_whole(path, &json)?;
        }
        if let Some(path) = &self.args.output.html {
            write_whole(path, page::page(results).to_string().as_bytes())?;
        }
        Ok(())
    }
}
