//! Log, checkpoint and deletion vectors of a Delta table, edited anywhere: `make fuzz-delta`. A
//! table opens and is read, or something says what is wrong. A bounded run of the same on stable
//! Rust is `hosts/delta/tests/table/hostile.rs`.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;
use libfuzzer_sys::fuzz_target;
use pagecast_delta::{Options, Table};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

/// Name and bytes of each file of a table with a checkpoint and a deletion vector.
static WHOLE: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let columns = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    let table = Table::create(folder.path(), &columns, &[], Options::default()).expect("a new table");
    let ctx = SessionContext::new();
    pagecast_delta::install(&ctx).expect("statements");
    ctx.register_table("t", Arc::new(table.provider().expect("a version"))).expect("a table");
    let run = |sql: String| {
        RUNTIME.block_on(async { ctx.sql(&sql).await.expect("a plan").collect().await.expect("rows") });
    };
    (0..12).for_each(|id| run(format!("INSERT INTO t VALUES ({id}), ({})", id + 100)));
    run("DELETE FROM t WHERE id % 3 = 0".to_owned());
    let mut whole = Vec::new();
    for inside in ["_delta_log", ""] {
        for entry in fs::read_dir(folder.path().join(inside)).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.is_file() {
                let name = Path::new(inside).join(path.file_name().expect("a name"));
                whole.push((name, fs::read(&path).expect("its bytes")));
            }
        }
    }
    whole.sort();
    whole
});

/// The table with a file that has the bytes of the input in some place.
fn edited(bytes: &[u8], folder: &Path) {
    let [which, at @ .., length] = *bytes.first_chunk::<4>().unwrap_or(&[0; 4]);
    let new = bytes.get(4..).unwrap_or(&[]);
    fs::create_dir_all(folder.join("_delta_log")).expect("a folder");
    let edited = usize::from(which) % WHOLE.len();
    for (number, (name, whole)) in WHOLE.iter().enumerate() {
        let mut file = whole.clone();
        if number == edited {
            let at = usize::from(u16::from_le_bytes(at)) % (file.len() + 1);
            let end = (at + usize::from(length)).min(file.len());
            file.splice(at..end, new.iter().copied());
        }
        fs::write(folder.join(name), file).expect("room for a file");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    edited(bytes, folder.path());
    let Ok(table) = Table::open(folder.path()) else { return };
    let Ok(newest) = table.provider() else { return };
    RUNTIME.block_on(async {
        let ctx = SessionContext::new();
        let _ = ctx.register_table("t", Arc::new(newest));
        if let Ok(rows) = ctx.sql("SELECT count(*), sum(id) FROM t").await {
            let _ = rows.collect().await;
        }
    });
});
