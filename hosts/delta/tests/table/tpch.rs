//! TPC-H and its refresh functions by SQL on Delta tables, against DuckDB, which runs the same
//! statements on tables of its own. `python3`, or `PAGECAST_PYTHON`, has the `duckdb` wheel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_delta::Table;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use super::data::options;

const SCALE: f64 = 0.01;

/// What happens before each round of queries. The refresh functions add orders with their items,
/// and take others out; the third round changes some.
const STEPS: [&[&str]; 3] = [
    &[
        "INSERT INTO orders SELECT o_orderkey + 10000000, o_custkey, o_orderstatus, o_totalprice, o_orderdate,
         o_orderpriority, o_clerk, o_shippriority, o_comment FROM orders WHERE o_orderkey % 97 = 1",
        "INSERT INTO lineitem SELECT l_orderkey + 10000000, l_partkey, l_suppkey, l_linenumber, l_quantity,
         l_extendedprice, l_discount, l_tax, l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate,
         l_shipinstruct, l_shipmode, l_comment FROM lineitem WHERE l_orderkey % 97 = 1",
    ],
    &[
        "DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM orders WHERE o_orderkey % 89 = 3)",
        "DELETE FROM orders WHERE o_orderkey % 89 = 3",
    ],
    &[
        "UPDATE lineitem SET l_quantity = l_quantity + 1, l_shipmode = 'RAIL' WHERE l_orderkey % 101 = 5",
        "UPDATE orders SET o_orderpriority = '1-URGENT' WHERE o_orderdate < DATE '1993-01-01' AND o_custkey % 3 = 1",
        "DELETE FROM lineitem WHERE l_shipdate > (SELECT max(o_orderdate) FROM orders)",
    ],
];

const DUCKDB: &str = "
import sys, json, glob, os, duckdb
folder = sys.argv[1]
db = duckdb.connect()
for path in glob.glob(folder + '/*.parquet'):
    name = os.path.basename(path)[:-8]
    db.execute(f\"CREATE TABLE {name} AS SELECT * FROM '{path}'\")
asked = json.load(open(folder + '/asked.json'))
answers = []
for step in asked['steps']:
    for sql in step:
        db.execute(sql)
    rounds = []
    for sql in asked['queries']:
        rows = None
        for statement in [s for s in sql.split(';') if s.strip()]:
            result = db.execute(statement)
            if 'select' in statement.lower() and 'create' not in statement.lower():
                rows = [[str(cell) for cell in row] for row in result.fetchall()]
        rounds.append(rows)
    answers.append(rounds)
json.dump(answers, open(folder + '/answers.json', 'w'))
";

fn python() -> Option<String> {
    let python = std::env::var("PAGECAST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let known = Command::new(&python).args(["-c", "import duckdb"]).output();
    if known.is_ok_and(|known| known.status.success()) {
        return Some(python);
    }
    println!("skipped: {python} has no duckdb (`pip install duckdb`, PAGECAST_PYTHON)");
    None
}

fn queries() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../datafusion/tests/queries");
    (1..=22).map(|number| std::fs::read_to_string(folder.join(format!("q{number:02}.sql"))).unwrap()).collect()
}

fn all(batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>) -> Vec<RecordBatch> {
    batches.collect::<Result<_, _>>().unwrap()
}

fn generated() -> [(&'static str, Vec<RecordBatch>); 8] {
    [
        ("customer", all(CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1)))),
        ("lineitem", all(LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1)))),
        ("nation", all(NationArrow::new(NationGenerator::new(SCALE, 1, 1)))),
        ("orders", all(OrderArrow::new(OrderGenerator::new(SCALE, 1, 1)))),
        ("part", all(PartArrow::new(PartGenerator::new(SCALE, 1, 1)))),
        ("partsupp", all(PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1)))),
        ("region", all(RegionArrow::new(RegionGenerator::new(SCALE, 1, 1)))),
        ("supplier", all(SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1)))),
    ]
}

/// A session with Delta tables of the generated rows, and these rows as files for the peer.
async fn loaded(folder: &Path) -> SessionContext {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    pagecast_delta::install(&ctx).unwrap();
    for (name, batches) in generated() {
        let rows = ctx.read_batches(batches).unwrap();
        let file = folder.join(format!("{name}.parquet"));
        rows.clone().write_parquet(file.to_str().unwrap(), DataFrameWriteOptions::new(), None).await.unwrap();
        let table = Table::create(folder.join(name), rows.schema().as_arrow(), &[], options()).unwrap();
        ctx.register_table(name, Arc::new(table.provider().unwrap())).unwrap();
        ctx.register_table("new", rows.into_view()).unwrap();
        ctx.sql(&format!("INSERT INTO {name} SELECT * FROM new")).await.unwrap().collect().await.unwrap();
        ctx.deregister_table("new").unwrap();
    }
    let pool = Pool::new(PoolOptions::default().memory(4 << 20).page_size(16 << 10)).unwrap();
    pagecast_datafusion::install(&ctx, pool).unwrap();
    ctx
}

async fn answer(ctx: &SessionContext, sql: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for statement in sql.split(';').filter(|statement| !statement.trim().is_empty()) {
        for batch in ctx.sql(statement).await.unwrap().collect().await.unwrap() {
            let cell = |row: usize, column: &dyn arrow::array::Array| array_value_to_string(column, row).unwrap();
            rows.extend(
                (0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| cell(row, column)).collect()),
            );
        }
    }
    rows
}

/// How far apart two numbers may be, relative to one of them: DataFusion cuts averages of decimals
/// after six places.
const TOLERANCE: f64 = 1e-4;

/// Rows in an order that both engines have, texts first.
fn sorted(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let key = |row: &Vec<String>| -> Vec<(bool, String)> {
        let cell = |cell: &String| cell.parse::<f64>().map_or((false, cell.clone()), |n| (true, format!("{n:.2e}")));
        let mut key: Vec<_> = row.iter().map(cell).collect();
        key.sort_by_key(|(number, _)| *number);
        key
    };
    let mut rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cell.replace("None", "")).collect()).collect();
    rows.sort_by_key(key);
    rows
}

fn same(ours: &[Vec<String>], theirs: &[Vec<String>]) -> bool {
    let cell = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
        _ => a == b,
    };
    let row = |(a, b): (&Vec<String>, &Vec<String>)| a.len() == b.len() && a.iter().zip(b).all(cell);
    ours.len() == theirs.len() && sorted(ours).iter().zip(&sorted(theirs)).all(row)
}

#[tokio::test]
async fn refresh_functions_give_the_results_of_duckdb() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let ctx = loaded(folder.path()).await;
    let queries = queries();
    let asked = serde_json::json!({ "steps": STEPS, "queries": queries });
    std::fs::write(folder.path().join("asked.json"), asked.to_string()).unwrap();
    let output = Command::new(python).args(["-c", DUCKDB]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers = std::fs::read_to_string(folder.path().join("answers.json")).unwrap();
    let answers: Vec<Vec<Vec<Vec<String>>>> = serde_json::from_str(&answers).unwrap();
    let mut rows = 0;
    for (step, (changes, theirs)) in STEPS.iter().zip(&answers).enumerate() {
        for change in *changes {
            let count = answer(&ctx, change).await;
            assert_ne!(count[0][0], "0", "{change}");
        }
        for (i, (sql, theirs)) in queries.iter().zip(theirs).enumerate() {
            let ours = answer(&ctx, sql).await;
            rows += ours.len();
            assert!(same(&ours, theirs), "query {} in round {step}:\n{ours:?}\n{theirs:?}", i + 1);
        }
    }
    println!("{rows} rows of 22 queries in {} rounds", STEPS.len());
    assert!(rows > 700);
}
