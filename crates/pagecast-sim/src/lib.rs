//! Replays page traces through pagecast's policies.
