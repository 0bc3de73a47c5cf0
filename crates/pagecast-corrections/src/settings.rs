//! Options of DataFusion 55.2 of which the default gives wrong rows, or none.
//!
//! Each line names what happens without it. A line goes when the default is right.

use datafusion::config::ConfigOptions;
use datafusion::prelude::SessionConfig;

pub(crate) fn right(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    without_filters_of_aggregates(options);
    // Files of a folder's folders are left out of the folder's table, and nothing says so.
    options.execution.listing_table_ignore_subdirectory = false;
    // A literal with a zone is compared by what a clock shows there.
    options.execution.time_zone.get_or_insert_with(|| "UTC".to_owned());
    // A grouping above a semi join is refused, where the plan knows less than the statement of a
    // column that is never NULL.
    options.execution.skip_physical_aggregate_schema_check = true;
    // What cannot be shown is a text that says so.
    options.format.safe = false;
    config
}

/// `min` and `max` tell scans no longer what they have seen. Of two aggregates one may have seen
/// NULLs alone; DataFusion's filter then goes by the other, and leaves out rows
/// (<https://github.com/apache/datafusion/issues/25147>).
pub fn without_filters_of_aggregates(options: &mut ConfigOptions) {
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
}
