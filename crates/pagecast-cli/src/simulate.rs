//! `pagecast simulate`: replays traces through policies.

/// What to replay.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("this build has no simulator yet")
}
