//! The flags of every verb that runs SQL for somebody.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use pagecast::Recorder;
use pagecast_datafusion::Delivery;
use pagecast_sql::{Engine, Options, Place};

use crate::failure::{of_opening, usage};
use crate::flash::FlashArgs;
use crate::stores::StoreArgs;
use crate::units::Size;

/// Where the tables are, and the pool that they are read through.
#[derive(clap::Args, Debug)]
pub(crate) struct EngineArgs {
    /// File (Parquet, CSV, JSON, Arrow), Delta table, or folder of them; each file or subfolder is
    /// a table named by its stem. Also a URL: s3://bucket/folder, gs, az, https, file; credentials
    /// come from the usual variables, for S3 also from a profile, and for https from the URL
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<Place>,
    /// Folder beside --data in which tables of Delta, Iceberg and DuckLake may have files, as
    /// shallow clones do; several times for several
    #[arg(long, value_name = "FOLDER")]
    allow: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Memory for pages of files and for statements together; --pool says the same [default: half
    /// of the machine's or of the process's group]
    #[arg(long, alias = "pool", value_name = "SIZE")]
    memory: Option<Size>,
    /// Folder for what sorts, joins and groups may not keep in memory [default: that of the system]
    #[arg(long, value_name = "FOLDER")]
    temp: Option<PathBuf>,
    /// Size of that at most [default: 100GiB]
    #[arg(long, value_name = "SIZE")]
    max_temp: Option<Size>,
    #[command(flatten)]
    flash: FlashArgs,
    /// Replacement policy of the pool
    #[arg(long, value_name = "P", default_value = "pbm(forecast=on)")]
    policy: String,
    /// Seed of the policy
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// In which order row groups are delivered, where the statement does not say
    #[arg(long, value_name = "D", value_enum, default_value = "out-of-order")]
    delivery: Delivered,
}

/// In which order a scan's row groups come.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Delivered {
    /// Each thread reads its share of the files
    Stock,
    /// File order, shared by all threads
    InOrder,
    /// What is in memory first, and what serves several statements
    OutOfOrder,
}

impl From<Delivered> for Delivery {
    fn from(delivered: Delivered) -> Self {
        match delivered {
            Delivered::Stock => Self::Stock,
            Delivered::InOrder => Self::InOrder,
            Delivered::OutOfOrder => Self::OutOfOrder,
        }
    }
}

impl EngineArgs {
    /// Opens the pool and the tables. `bounded` reads no file outside of the data, and
    /// `recorder` hears of each request for a page.
    pub(crate) async fn open(
        &self,
        bounded: bool,
        config: SessionConfig,
        recorder: Option<Arc<dyn Recorder>>,
    ) -> anyhow::Result<Engine> {
        let options = Options {
            data: self.data.clone(),
            bounded,
            allowed: self.allow.clone(),
            endpoint: self.store.endpoint.clone(),
            flash: self.flash.options()?,
            policy: self.policy.clone(),
            seed: self.seed,
            delivery: self.delivery.into(),
            memory: self.memory.map(|limit| bytes("--memory", limit)).transpose()?,
            temp: self.temp.clone(),
            max_temp: self.max_temp.map(|limit| bytes("--max-temp", limit)).transpose()?,
            recorder,
        };
        Engine::open(options, config).await.map_err(of_opening)
    }
}

/// Bytes of a flag's size, which must have a unit.
pub(crate) fn bytes(flag: &str, size: Size) -> anyhow::Result<u64> {
    match size {
        Size::Bytes(bytes) => Ok(bytes),
        size => Err(usage(format!("{flag}: `{size}` is no amount of memory; write 256MiB or 1GiB"))),
    }
}
