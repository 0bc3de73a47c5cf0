//! Options of DataFusion 55.2 of which the default gives wrong rows.
//!
//! Each line names what happens without it. A line goes when the default is right.

use datafusion::prelude::SessionConfig;

pub(crate) fn right(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    // Files of a folder's folders are left out of the folder's table, and nothing says so.
    options.execution.listing_table_ignore_subdirectory = false;
    // A literal with a zone is compared by what a clock shows there.
    options.execution.time_zone.get_or_insert_with(|| "UTC".to_owned());
    // What cannot be shown is a text that says so.
    options.format.safe = false;
    config
}
