//! Options of DataFusion 55.2 of which the default gives wrong rows.
//!
//! Each line names what happens without it. A line goes when the default is right.

use datafusion::prelude::SessionConfig;

pub(crate) fn right(config: SessionConfig) -> SessionConfig {
    config
}
