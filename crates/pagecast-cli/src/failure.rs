//! How the command fails: one line on stderr and the exit status, 2 when the user's words were
//! wrong, 130 when Ctrl-C ended it, 1 otherwise.

use std::fmt;
use std::process::ExitCode;

use pagecast_sim::report::text::one_line;

use crate::interrupt::Interrupted;

/// The command line asks for something that cannot be done; names the flag and what to write
/// instead.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Shorthand for an error that is a [`Usage`].
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// Why an engine cannot be opened, by the flag at fault.
#[cfg(feature = "sql")]
pub(crate) fn of_opening(pagecast_sql::OpenError { setting, cause }: pagecast_sql::OpenError) -> anyhow::Error {
    use pagecast_sql::Setting;
    let flag = match setting {
        None => return cause,
        Some(Setting::Data) => "--data",
        Some(Setting::Endpoint) => "--endpoint",
        Some(Setting::Flash) => "--flash",
        Some(Setting::Policy) => "--policy",
        Some(Setting::Memory) => "--memory",
        Some(Setting::Temp) => "--temp",
    };
    cause.context(flag)
}

fn is_usage(error: &anyhow::Error) -> bool {
    #[cfg(feature = "sql")]
    if error.is::<pagecast_sql::Misuse>() {
        return true;
    }
    error.is::<Usage>()
}

/// Prints `error` as one line.
pub(crate) fn say(error: &anyhow::Error) {
    eprintln!("pagecast: {}", one_line(&without_secrets(&format!("{error:#}"))));
}

/// A text without passwords and signatures of URLs.
fn without_secrets(text: &str) -> String {
    #[cfg(feature = "sql")]
    return pagecast::storage::without_secrets(text);
    #[cfg(not(feature = "sql"))]
    return text.to_owned();
}

/// Prints `error` and gives the exit status that belongs to it.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // The reader of our output has gone (`| head`): there is nobody to tell, and nothing went
    // wrong.
    let gone = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(gone) {
        return ExitCode::SUCCESS;
    }
    say(error);
    ExitCode::from(match error {
        error if is_usage(error) => 2,
        error if error.is::<Interrupted>() => Interrupted::STATUS,
        _ => 1,
    })
}

/// Prints all errors but the last, which is for the caller to end with: it makes the exit status.
pub(crate) fn last_of(mut errors: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let last = errors.pop();
    for error in &errors {
        report(error);
    }
    last.map_or(Ok(()), Err)
}

/// Prints what clap found wrong (status 2), or the help or version that was asked for (status 0).
pub(crate) fn of_arguments(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let text = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{text}");
        return ExitCode::from(2);
    }
    let ends = |line: &&str| line.starts_with("Usage:") || line.starts_with("For more information");
    let complaint = text.lines().take_while(|line| !ends(line)).collect::<Vec<_>>().join(" ");
    eprintln!("pagecast: {}", one_line(&without_secrets(complaint.trim_start_matches("error: "))));
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn usage_survives_context() {
        use anyhow::Context;
        let error = Err::<(), _>(usage("--pool: too small")).context("while starting").unwrap_err();
        assert!(error.is::<Usage>());
        assert_eq!(format!("{error:#}"), "while starting: --pool: too small");
    }
}
