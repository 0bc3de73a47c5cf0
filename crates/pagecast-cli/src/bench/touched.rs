//! Which bytes the query list reads at all: what a pool's size in per cent is a share of.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;

use anyhow::Context;
use pagecast::{Pool, PoolOptions};
use pagecast_sql::{semantics, tables};

use super::row::Setting;

/// The distinct compressed bytes of column data that the query list reads after pruning, without
/// rounding to pages: every scan of every query is planned, none is executed.
pub(super) async fn bytes(setting: &Setting) -> anyhow::Result<u64> {
    let (ctx, _) = setting.session().await?;
    let pool = Pool::new(PoolOptions::default().memory(16 << 20))?;
    let host = pagecast_datafusion::install(&ctx, pool)?;
    let mut ranges: BTreeMap<PathBuf, Vec<Range<u64>>> = BTreeMap::new();
    let mut planned = HashSet::new();
    for query in setting.list.iter().flatten().filter(|query| planned.insert(&query.sql)) {
        let reads = async {
            let plan = semantics::frame(&ctx, &query.sql).await?.create_physical_plan().await?;
            host.planned_reads(&plan, &ctx.task_ctx()).await
        };
        let reads = reads.await.map_err(|error| anyhow::anyhow!("{}", tables::message(&error)));
        for read in reads.with_context(|| format!("cannot plan query {}", query.name))? {
            ranges.entry(read.path).or_default().extend(read.bytes);
        }
    }
    Ok(ranges.into_values().map(union_bytes).sum())
}

/// How many bytes lie in at least one of `ranges`.
fn union_bytes(mut ranges: Vec<Range<u64>>) -> u64 {
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut bytes, mut end) = (0, 0);
    for range in ranges {
        bytes += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::union_bytes;

    #[test]
    fn overlaps_count_once() {
        assert_eq!(union_bytes(vec![10..20, 0..5, 15..30, 16..17, 40..40]), 25);
        assert_eq!(union_bytes(vec![]), 0);
    }
}
