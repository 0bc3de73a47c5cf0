//! The file of a tier on flash, edited anywhere: `bash ci/fuzz.sh`. Whatever it says, no read gets
//! another byte than its store has.
#![no_main]

#[path = "edits.rs"]
mod edits;

use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use pagecast::storage::{Device, DirectIo, Generation, MemoryFiles, Storage};
use pagecast::{FlashOptions, Pool, PoolOptions};

const FILES: [&str; 1] = ["f/pagecast.flash"];
const PAGE: usize = 4096;
const PAGES: usize = 40;

/// An object of a store: its pages may be copied to flash.
struct Object(Vec<u8>);

impl Storage for Object {
    fn path(&self) -> &Path {
        "s3://bucket/object".as_ref()
    }

    fn generation(&self) -> Generation {
        Generation::of_object(self.0.len() as u64, 7, Some("tag"))
    }

    fn current(&self) -> io::Result<Generation> {
        Ok(self.generation())
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut rest = &self.0[self.0.len().min(offset as usize)..];
        io::Read::read_vectored(&mut rest, bufs)
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }

    fn may_be_copied(&self) -> bool {
        true
    }
}

fn content() -> Vec<u8> {
    (0..PAGE * PAGES).map(|at| (at / PAGE * 7 + at % 251) as u8).collect()
}

fn pool(files: &MemoryFiles) -> Option<Pool> {
    let flash = FlashOptions::new("f", 400_000).device(Device::new(files.clone(), Some(edits::ONE_THREAD)));
    let device = Device::new(files.clone(), Some(edits::ONE_THREAD));
    Pool::new(PoolOptions::default().memory(150_000).page_size(PAGE as u32).device(device).flash(flash)).ok()
}

/// Reads all of the object, more than once, and looks at every byte.
fn read(pool: &Pool, times: usize) {
    let (content, object): (_, Arc<dyn Storage>) = (content(), Arc::new(Object(content())));
    let object = pool.open_storage(&object).expect("an object of a store");
    for _ in 0..times {
        for block in 0..PAGES {
            let page = object.pin(block as u32, None).expect("the store answers");
            assert!(page[..] == content[block * PAGE..(block + 1) * PAGE], "page {block} is another");
        }
    }
}

fn whole() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let files = MemoryFiles::new();
        files.write(FILES[0], Vec::new());
        let pool = pool(&files).expect("a new tier");
        read(&pool, 6);
        pool.settle_flash();
        drop(pool);
        files.read(FILES[0].as_ref()).expect("the tier's file").to_vec()
    })
}

fuzz_target!(|bytes: &[u8]| {
    let files = MemoryFiles::new();
    files.write(FILES[0], whole());
    edits::edit(&files, &FILES, bytes);
    if let Some(pool) = pool(&files) {
        read(&pool, 2);
    }
});
