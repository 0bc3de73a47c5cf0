//! `pagecast sql`: one statement or a shell.

/// What to run.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("this build has no sql yet")
}
