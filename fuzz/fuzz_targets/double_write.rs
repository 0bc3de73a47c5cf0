//! Double-write records, edited anywhere: `bash ci/fuzz.sh`. Checksums count as right. A pool is
//! made or says what is wrong, and writes no file but those that it was given.
#![no_main]

#[path = "edits.rs"]
mod edits;

use std::sync::OnceLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pagecast::storage::{Device, FaultStorage, Faults, MemoryFiles, WriteFault};
use pagecast::{DoubleWriteOptions, Format, Pool, PoolOptions, WriteOptions, WriterOptions};

const FILES: [&str; 3] = ["d/area", "d/sealed", "d/below/raw"];
const ELSEWHERE: &str = "elsewhere";

fn options(files: &MemoryFiles, faults: &Faults) -> PoolOptions {
    let device = Device::new(FaultStorage { files: files.clone(), faults: faults.clone() }, Some(edits::ONE_THREAD));
    PoolOptions::default()
        .memory(400_000)
        .page_size(4096)
        .device(device)
        .double_write(DoubleWriteOptions::new(FILES[0]).bytes(64 << 10))
        .writer(WriterOptions::default().interval(Duration::from_secs(3600)))
}

fn files_of(pool: &Pool) -> Option<[pagecast::Relation; 2]> {
    let open = |name: &str, format| {
        pool.open_to_write(name.as_ref(), &WriteOptions::default().create(true).format(format)).ok()
    };
    Some([open(FILES[1], Format::Sealed)?, open(FILES[2], Format::Raw)?])
}

/// Files whose last write in place was torn, and the area with its copies.
fn whole() -> &'static [(&'static str, Vec<u8>)] {
    static WHOLE: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let (files, faults) = (MemoryFiles::new(), Faults::default());
        let pool = Pool::new(options(&files, &faults)).expect("a new pool");
        let tables = files_of(&pool).expect("new files");
        for round in 0..3u8 {
            for table in &tables {
                if round == 0 {
                    table.grow(8).expect("there is room");
                }
                (0..8).step_by(1 + usize::from(round)).for_each(|block| {
                    table.pin_mut(block, None).expect("a page").fill(round);
                });
            }
            if round == 2 {
                faults.plan_writes([WriteFault::None, WriteFault::Torn(512)]);
            }
            let _ = pool.flush();
        }
        drop((tables, pool));
        FILES.map(|name| (name, files.read(name.as_ref()).expect("a file").to_vec())).to_vec()
    })
}

fuzz_target!(|bytes: &[u8]| {
    let files = MemoryFiles::new();
    whole().iter().for_each(|(name, bytes)| files.write(*name, bytes.clone()));
    files.write(ELSEWHERE, vec![9; 64 << 10]);
    edits::edit(&files, &FILES, bytes);
    if let Ok(pool) = Pool::new(options(&files, &Faults::default()))
        && let Some(tables) = files_of(&pool)
    {
        for table in &tables {
            (0..table.pages().min(64)).for_each(|block| drop(table.pin(block, None)));
            if let Ok(mut page) = table.pin_mut(0, None) {
                page.fill(7);
            }
        }
        let _ = pool.close();
    }
    assert!(files.read(ELSEWHERE.as_ref()).expect("it is there").iter().all(|&byte| byte == 9));
});
