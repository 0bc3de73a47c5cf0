//! The query list: which stream runs which query over which range. A function of the seed alone, so
//! that every row of the bench, and every later run with that seed, executes the same list.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::Date32Type;
use arrow::temporal_conversions::date32_to_datetime;
use datafusion::common::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;
use pagecast_core::random::Random;
use pagecast_sql::syntax;

use crate::failure::usage;

/// What the streams run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Workload {
    /// Templates over random ranges.
    Ranges,
    /// TPC-H's throughput run.
    Tpch,
    /// Reports that come back, and queries that do not.
    Dashboards,
}

impl Workload {
    /// How many queries a stream has, unless it is told.
    pub(super) fn queries(self) -> usize {
        match self {
            Self::Ranges => 6,
            Self::Tpch => 22,
            Self::Dashboards => 12,
        }
    }
}

/// SQL with places for a stream's parameters.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// What results call it: the file's stem.
    pub(super) name: String,
    sql: String,
    source: Option<PathBuf>,
}

/// Like TPC-H Q1: many columns, nearly all rows of the range.
const Q1: &str = "\
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_discount), count(*)
FROM lineitem
WHERE l_shipdate >= DATE '{lo}' AND l_shipdate < DATE '{hi}'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus";

/// Like TPC-H Q6: few columns, few rows.
const Q6: &str = "\
SELECT sum(l_extendedprice * l_discount)
FROM lineitem
WHERE l_shipdate >= DATE '{lo}' AND l_shipdate < DATE '{hi}' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24";

impl Template {
    /// The queries of the default workload.
    pub(super) fn defaults() -> Vec<Self> {
        [("q1", Q1), ("q6", Q6)].map(|(name, sql)| Self { name: name.into(), sql: sql.into(), source: None }).into()
    }

    /// The one statement in the file `path`.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let sql = std::fs::read_to_string(path).with_context(|| format!("--query: cannot read {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, sql, source: Some(path.to_owned()) })
    }

    /// The SQL of one execution.
    fn instance(&self, stream: usize, lo: &str, hi: &str) -> String {
        self.sql.replace("{lo}", lo).replace("{hi}", hi).replace("{stream}", &stream.to_string())
    }

    /// An execution over a random range that is `share` of the domain long.
    pub(super) fn query(&self, stream: usize, domain: &Domain, share: f64, random: &mut Random) -> Query {
        let (lo, hi) = domain.range(share, random);
        let sql = self.instance(stream, &lo, &hi);
        Query { name: self.name.clone(), selectivity: share, sql, at: Duration::ZERO }
    }

    /// Fails where the statement is not SQL, does not fit the tables of `ctx` or does more than
    /// read, with file and place.
    pub(super) async fn check(&self, ctx: &SessionContext, domain: &Domain) -> anyhow::Result<()> {
        let sql = self.instance(0, &domain.text(domain.lo), &domain.text(domain.hi));
        let source = self.source.as_deref().map_or(self.name.clone(), |path| path.display().to_string());
        match syntax::statements(&sql).map_err(|fault| anyhow::anyhow!("{source}:{fault}"))? {
            1 => {}
            count => bail!("{source}: one statement is wanted, found {count}"),
        }
        let fault = |error: DataFusionError| anyhow::anyhow!("{source}: {}", error.strip_backtrace());
        let plan = ctx.state().create_logical_plan(&sql).await.map_err(fault)?;
        // INSERT, COPY, CREATE, DROP, SET and their like, also under EXPLAIN ANALYZE.
        let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        if reads.verify_plan(&plan).is_err() {
            return Err(usage(format!(
                "{source}: this statement does more than read; every row must find the same data"
            )));
        }
        ctx.state().optimize(&plan).map_err(fault)?;
        Ok(())
    }
}

/// What `{lo}` and `{hi}` are taken from: `1992-01-02..1998-12-02` or `0..1000`, the end excluded.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    lo: i64,
    hi: i64,
    dates: bool,
}

impl Domain {
    fn text(&self, value: i64) -> String {
        let date = if self.dates { date32_to_datetime(value as i32) } else { None };
        date.map_or(value.to_string(), |date| date.date().to_string())
    }

    /// A random range that is `share` of the domain long, and at least 1.
    fn range(&self, share: f64, random: &mut Random) -> (String, String) {
        let whole = self.hi - self.lo;
        let length = ((whole as f64 * share).round() as i64).clamp(1, whole);
        let lo = self.lo + (random.unit() * (whole - length + 1) as f64) as i64;
        (self.text(lo), self.text(lo + length))
    }
}

impl FromStr for Domain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is no range; write 1992-01-02..1998-12-02 or 0..1000");
        let (lo, hi) = text.split_once("..").ok_or_else(fault)?;
        let dates = Date32Type::parse(lo).zip(Date32Type::parse(hi)).map(|(lo, hi)| (lo.into(), hi.into()));
        let numbers = || lo.parse().ok().zip(hi.parse().ok());
        let (lo, hi): (i64, i64) = dates.or_else(numbers).ok_or_else(fault)?;
        match hi.checked_sub(lo) {
            Some(length) if length > 0 => Ok(Self { lo, hi, dates: dates.is_some() }),
            _ => Err(format!("`{text}` is an empty range")),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.text(self.lo), self.text(self.hi))
    }
}

/// One query of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query {
    /// The name of its template.
    pub(super) name: String,
    /// How long its range is, as a share of the domain.
    pub(super) selectivity: f64,
    pub(super) sql: String,
    /// How long after the beginning of the run it starts at the earliest.
    pub(super) at: Duration,
}

/// For each of `streams` streams its `queries` queries: template, which of `shares` its range
/// takes, and the range, all drawn at random.
pub(super) fn query_list(
    templates: &[Template],
    domain: &Domain,
    shares: &[f64],
    (streams, queries): (usize, usize),
    seed: u64,
) -> Vec<Vec<Query>> {
    let mut random = Random::new(seed);
    let mut query = |stream| {
        let template = &templates[random.below(templates.len() as u32) as usize];
        // One share is not drawn.
        let selectivity = if let &[only] = shares { only } else { shares[random.below(shares.len() as u32) as usize] };
        template.query(stream, domain, selectivity, &mut random)
    };
    (0..streams).map(|stream| (0..queries).map(|_| query(stream)).collect()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn domains() {
        let dates: Domain = "1992-01-02..1998-12-02".parse().unwrap();
        assert_eq!(dates.hi - dates.lo, 2526);
        assert_eq!(dates.to_string(), "1992-01-02..1998-12-02");
        assert_eq!("-5..5".parse::<Domain>().unwrap().to_string(), "-5..5");
        for bad in ["", "1..1", "2..1", "1992-01-02..7", "1992-13-02..1993-01-01", "1,2"] {
            assert!(bad.parse::<Domain>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_have_the_share_and_stay_inside() {
        let domain: Domain = "0..1000".parse().unwrap();
        let mut random = Random::new(7);
        let mut ends = (i64::MAX, 0);
        for _ in 0..2000 {
            let (lo, hi) = domain.range(0.3, &mut random);
            let (lo, hi): (i64, i64) = (lo.parse().unwrap(), hi.parse().unwrap());
            assert!(hi - lo == 300 && lo >= 0 && hi <= 1000);
            ends = (ends.0.min(lo), ends.1.max(hi));
        }
        assert!(ends.0 < 20 && ends.1 > 980, "both ends of the domain are reached: {ends:?}");
        assert_eq!(domain.range(1.0, &mut random), ("0".into(), "1000".into()));
    }

    #[test]
    fn the_list_is_the_seeds() {
        let domain: Domain = "1992-01-02..1998-12-02".parse().unwrap();
        let list = |seed| query_list(&Template::defaults(), &domain, &[0.3], (8, 6), seed);
        assert_eq!(list(1), list(1));
        assert_ne!(list(1), list(2));
        let all: Vec<_> = list(1).concat();
        assert_eq!(all.len(), 48);
        assert!(all.iter().any(|query| query.name == "q1") && all.iter().any(|query| query.name == "q6"));
        assert!(all.iter().all(|query| !query.sql.contains('{')));

        let shares = [0.01, 0.1, 1.0];
        let mixed = query_list(&Template::defaults(), &domain, &shares, (8, 6), 1).concat();
        for share in shares {
            let of_share = mixed.iter().filter(|query| query.selectivity == share).count();
            assert!((5..30).contains(&of_share), "{of_share} queries of {share}");
        }
    }

    #[tokio::test]
    async fn a_fault_has_a_place() {
        let ctx = SessionContext::new();
        let template = |sql: &str| Template { name: "x".into(), sql: sql.into(), source: Some("a/x.sql".into()) };
        let domain: Domain = "0..9".parse().unwrap();
        let message = async |sql: &str| template(sql).check(&ctx, &domain).await.unwrap_err().to_string();
        assert!(message("SELECT 1\nFROM (").await.starts_with("a/x.sql:2:7: "));
        assert!(message("SELECT 1\nFROM x WHERE )\n").await.starts_with("a/x.sql:2:14: "));
        assert!(message("SELECT nothing FROM nowhere").await.contains("nowhere"));
        assert!(message("SELECT 1; SELECT 2").await.contains("found 2"));
        assert!(
            message("COPY (SELECT 1) TO 'x.parquet'").await.contains("a/x.sql: this statement does more than read")
        );
        template("SELECT {lo} + {hi} + {stream};").check(&ctx, &domain).await.unwrap();
    }
}
