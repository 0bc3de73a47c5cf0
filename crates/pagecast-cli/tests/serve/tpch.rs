//! TPC-H by psql gives what the shell gives.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::{Server, pagecast};

const SCALE: f64 = 0.01;

/// The eight tables of TPC-H, a file for each.
pub(crate) fn tables() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(generate).path()
}

fn generate() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, batches: &mut dyn Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>>| {
        let mut writer = None;
        for batch in batches.map(Result::unwrap) {
            let writer = writer.get_or_insert_with(|| {
                let properties = WriterProperties::builder().set_max_row_group_row_count(Some(8192)).build();
                let file = File::create(folder.path().join(format!("{name}.parquet"))).unwrap();
                ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap()
            });
            writer.write(&batch).unwrap();
        }
        writer.unwrap().close().unwrap();
    };
    write("customer", &mut CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1)));
    write("lineitem", &mut LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1)));
    write("nation", &mut NationArrow::new(NationGenerator::new(SCALE, 1, 1)));
    write("orders", &mut OrderArrow::new(OrderGenerator::new(SCALE, 1, 1)));
    write("part", &mut PartArrow::new(PartGenerator::new(SCALE, 1, 1)));
    write("partsupp", &mut PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1)));
    write("region", &mut RegionArrow::new(RegionGenerator::new(SCALE, 1, 1)));
    write("supplier", &mut SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1)));
    folder
}

pub(crate) fn query(number: usize) -> PathBuf {
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts/datafusion/tests/queries");
    queries.join(format!("q{number:02}.sql"))
}

/// psql, quiet, as a user of this server.
pub(crate) fn psql(server: &Server) -> Option<Command> {
    if Command::new("psql").arg("--version").output().is_err() {
        eprintln!("skipped: there is no psql");
        return None;
    }
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-h", "127.0.0.1", "-U", "tester", "-d", "pagecast", "-p", &server.port.to_string()]);
    command.env_remove("PGPASSWORD").env("PGCONNECT_TIMEOUT", "60");
    Some(command)
}

/// Fields as numbers where they are some: the shell and PostgreSQL write them in their own ways.
pub(crate) fn rows(csv: &[u8]) -> Vec<Vec<String>> {
    let text = String::from_utf8(csv.to_vec()).unwrap();
    let field = |field: &str| match field.parse::<f64>() {
        Ok(number) => format!("{number:.4}"),
        Err(_) => field.to_owned(),
    };
    let mut rows: Vec<Vec<String>> = text.lines().skip(1).map(|line| line.split(',').map(field).collect()).collect();
    // Rows of equal keys come in any order.
    rows.sort();
    rows
}

/// What the shell gives for a file of SQL.
pub(crate) fn by_shell(file: &Path) -> Vec<Vec<String>> {
    let mut shell = pagecast();
    shell.args(["sql", "--quiet", "--format", "csv", "--data"]).arg(tables()).arg("-f").arg(file);
    let shell = shell.output().unwrap();
    assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
    rows(&shell.stdout)
}

#[test]
fn queries_1_to_22_give_what_the_shell_gives() {
    let server = Server::of(tables(), &["--pool", "1MiB"]);
    let Some(_) = psql(&server) else { return };
    for number in 1..=22 {
        let file = query(number);
        let served = psql(&server).unwrap().args(["--csv", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&file).output().unwrap();
        assert!(served.status.success(), "query {number}: {}", String::from_utf8_lossy(&served.stderr));
        assert_eq!(rows(&served.stdout), by_shell(&file), "query {number}");
    }
    server.assert_idle();
    assert!(server.status("bytes_read") > 0, "the pool has read nothing");
}
