//! Order that nobody promised, and people see.

use pagecast_datafusion::{HostOptions, install_with};

use crate::data::{Session, numbers, write};
use crate::rows::run;
use crate::tpch::pool;

const QUERIES: [&str; 9] = [
    "SELECT first_value(id), last_value(id), nth_value(id, 3) FROM t",
    "SELECT array_agg(id) FROM t WHERE id % 97 = 5",
    "SELECT string_agg(name, ' ') FROM t WHERE id % 97 = 5",
    "SELECT even, first_value(name), last_value(name) FROM t GROUP BY even ORDER BY even",
    "SELECT even, array_agg(id) FROM t WHERE id % 97 = 5 GROUP BY even ORDER BY even",
    "SELECT id, row_number() OVER (ORDER BY even) FROM t ORDER BY id",
    "SELECT id, row_number() OVER () FROM t ORDER BY id",
    "SELECT id, sum(id) OVER (PARTITION BY even ORDER BY id % 3 ROWS UNBOUNDED PRECEDING) FROM t ORDER BY id",
    "SELECT first_value(id ORDER BY even), last_value(id ORDER BY even) FROM t",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn look() {
    for (files, row_group) in [(1, 4096), (1, 500), (3, 4096)] {
        let folder = tempfile::tempdir().unwrap();
        for file in 0..files {
            write(&folder.path().join(format!("{file}.parquet")), &numbers(file * 4000, 4000), row_group);
        }
        for partitions in [1, 4] {
            for split in [false, true] {
                let session = || async {
                    let ctx = Session::plain(partitions).context();
                    if !split {
                        let state = ctx.state_ref();
                        state.write().config_mut().options_mut().optimizer.repartition_file_min_size = 10 << 20;
                    }
                    crate::data::register(&ctx, "t", folder.path()).await;
                    ctx
                };
                for sql in QUERIES {
                    let mut stock = Vec::new();
                    for _ in 0..6 {
                        stock.push(run(&session().await, sql).await);
                    }
                    let stable = stock.iter().all(|rows| *rows == stock[0]);
                    let mut differs = [0, 0];
                    for keep_order in [false, true] {
                        for _ in 0..6 {
                            let ctx = session().await;
                            install_with(&ctx, pool(1 << 20), HostOptions { keep_order, ..HostOptions::default() });
                            differs[usize::from(keep_order)] += usize::from(run(&ctx, sql).await != stock[0]);
                        }
                    }
                    println!("LOOK {files} files, groups of {row_group}, {partitions} partitions, split {split}: stable {stable}, in-order differs {}, kept differs {}: {sql}", differs[0], differs[1]);
                }
            }
        }
    }
}
