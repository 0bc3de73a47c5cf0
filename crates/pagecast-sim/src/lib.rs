//! Replays page traces through pagecast's policies.

pub mod charts;
pub mod closed;
pub mod curve;
pub mod flash;
pub mod generate;
pub mod odds;
#[cfg(feature = "redset")]
pub mod redset;
#[cfg(test)]
mod repeatable;
pub mod replay;
pub mod report;
pub mod simulation;
pub mod size;
pub mod study;
pub mod trace;
pub mod tuples;
pub mod watch;
