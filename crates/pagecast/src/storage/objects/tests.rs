#![allow(clippy::unwrap_used)]

use std::sync::mpsc;

use object_store::ObjectStoreExt;
use object_store::chunked::ChunkedStore;
use object_store::memory::InMemory;

use super::*;
use crate::storage::{Buffers, Reading};

#[test]
fn a_name_has_no_secret() {
    let named = |url| name(url, &"a/b".into()).to_str().map(str::to_owned);
    assert_eq!(named("s3://bucket/").as_deref(), Some("s3://bucket/a/b"));
    assert_eq!(named("https://user:word@host:1/").as_deref(), Some("https://host:1/a/b"));
}

#[test]
fn chunks_of_any_length_fill_buffers_of_any_length() {
    let bytes: Vec<u8> = (0..100).collect();
    for (cut, split) in [(1, 7), (7, 1), (30, 100), (100, 33), (13, 13)] {
        let mut memory = [0; 90];
        let mut bufs: Vec<_> = memory.chunks_mut(split).map(IoSliceMut::new).collect();
        for (number, chunk) in bytes.chunks(cut).enumerate() {
            fill(&mut bufs, number * cut, chunk);
        }
        assert_eq!(memory[..], bytes[..90]);
    }
}

/// Wants its bytes, nothing at its third question, and then its bytes again.
struct Fickle {
    reading: Reading<Memory>,
    asked: usize,
    to: mpsc::Sender<Vec<u8>>,
}

struct Memory(Vec<u8>);

impl Buffers for Memory {
    fn pieces(&mut self) -> Vec<&mut [u8]> {
        vec![&mut self.0]
    }
}

impl Errand for Fickle {
    fn request(&mut self) -> Option<Request<'_>> {
        self.asked += 1;
        if self.asked == 3 { None } else { self.reading.request() }
    }

    fn answer(&mut self, answer: io::Result<usize>) {
        self.reading.answer(answer);
    }

    fn end(self: Box<Self>) {
        let (answer, Memory(bytes)) = self.reading.outcome();
        assert_eq!(answer.unwrap(), bytes.len());
        self.to.send(bytes).unwrap();
    }
}

/// It is not skipped: the page would have what was in its frame before.
#[test]
fn a_chunk_that_nobody_took_is_asked_for_again() {
    let bytes: Vec<u8> = (0..100).collect();
    let objects = Objects::start(ObjectOptions::default()).unwrap();
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let put = async { memory.put(&"a".into(), bytes.clone().into()).await.map_err(of_store) };
    objects.wait(put).unwrap();
    let listed = objects.wait(async { memory.head(&"a".into()).await.map_err(of_store) }).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(ChunkedStore::new(memory, 10));
    let storage = objects.storage(&store, "mem://store", &listed);
    let (to, from) = mpsc::channel();
    let reading = Reading::new(storage.as_ref(), 0, Memory(vec![0; 100]));
    storage.start(Box::new(Fickle { reading, asked: 0, to }));
    assert_eq!(from.recv().unwrap(), bytes);
}
