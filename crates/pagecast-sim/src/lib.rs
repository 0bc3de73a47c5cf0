//! Replays page traces through pagecast's policies.

pub mod report;
