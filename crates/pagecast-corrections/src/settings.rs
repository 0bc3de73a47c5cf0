//! Options of DataFusion 55.2 of which the default gives wrong rows.
//!
//! Each line names what happens without it. A line goes when the default is right.

use datafusion::prelude::SessionConfig;

pub(crate) fn right(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    // Without a zone of the session, a literal with one is compared by what a clock shows.
    options.execution.time_zone.get_or_insert_with(|| "UTC".to_owned());
    // A value that cannot be shown is an error, and not a text that says so.
    options.format.safe = false;
    config
}
