//! `pagecast trace`: looks at, converts, generates and draws traces.

/// What to do.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Runs the verb.
pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("this build has no trace tools yet")
}
