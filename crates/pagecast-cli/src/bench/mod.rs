//! `pagecast bench`: concurrent query streams over Parquet, once per policy.

/// What to measure.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("this build has no bench yet")
}
