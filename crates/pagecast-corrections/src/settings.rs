//! Options of DataFusion 55.2 of which the default gives wrong rows.
//!
//! Each line names what happens without it. A line goes when the default is right.

use datafusion::prelude::SessionConfig;

pub(crate) fn right(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    // Files of a folder's folders are left out of the folder's table, and nothing says so.
    options.execution.listing_table_ignore_subdirectory = false;
    config
}
