//! Holding and giving back under the schedule explorer, with a ring whose kernel is a list.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use shuttle::thread;

use super::*;
use crate::cache::exploration::{explore, must_be_caught};
use crate::sync::atomic::{AtomicBool, AtomicU32};
use crate::sync::mistake;

const FRAMES: u32 = 2;
/// So large that two of them are a chunk.
const FRAME: usize = MAX_REQUEST / 2;

/// The memory behind each frame now, by number.
type Memory = [AtomicU32; FRAMES as usize];

/// A ring with room for one chunk.
struct Kernel {
    memory: Arc<Memory>,
    held: AtomicBool,
    /// The memory that was there when it was held.
    buffer: Mutex<Option<[u32; FRAMES as usize]>>,
}

impl Holder for Kernel {
    fn hold(&self, chunk: usize, addresses: Range<usize>) -> io::Result<()> {
        assert_eq!((chunk, addresses.len()), (0, FRAME * FRAMES as usize));
        *self.buffer.lock() = Some([0, 1].map(|frame: usize| self.memory[frame].load(Relaxed)));
        self.held.store(true, Relaxed);
        Ok(())
    }

    fn let_go(&self, _: usize) -> io::Result<()> {
        if self.held.load(Relaxed) {
            *self.buffer.lock() = None;
            self.held.store(false, Relaxed);
        }
        Ok(())
    }
}

impl Kernel {
    /// A request for a frame that the caller owns.
    fn read(&self, region: &Region, frame: u32) {
        let start = frame as usize * FRAME;
        let chunk = region.note(start..start + FRAME).unwrap();
        if self.held.load(Relaxed) || region.hold(self, chunk).unwrap() {
            // Later than the look: the request is made, and finds the buffer or not.
            if let Some(memory) = *self.buffer.lock() {
                let frame = frame as usize;
                assert_eq!(memory[frame], self.memory[frame].load(Relaxed), "a frame is read into memory that it lost");
            }
        }
    }
}

/// Frames go from reader to reader, and lose their memory now and then.
fn read_and_give_back() {
    let memory = Arc::new([0, 1].map(|_: u32| AtomicU32::new(0)));
    let region = Region::new(0, FRAME, FRAMES);
    let free = Arc::new(Mutex::new(VecDeque::from([0, 1])));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let kernel =
                Arc::new(Kernel { memory: memory.clone(), held: AtomicBool::new(false), buffer: Mutex::new(None) });
            let holder: Weak<Kernel> = Arc::downgrade(&kernel);
            region.add(holder);
            let (region, free) = (region.clone(), free.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    let frame = free.lock().pop_front();
                    if let Some(frame) = frame {
                        kernel.read(&region, frame);
                        free.lock().push_back(frame);
                    }
                }
            })
        })
        .collect();
    for _ in 0..2 {
        let frame = free.lock().pop_front();
        if let Some(frame) = frame {
            region.give_back(frame, || {
                memory[frame as usize].fetch_add(1, Relaxed);
            });
            free.lock().push_back(frame);
        }
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    region.close();
}

#[test]
fn frames_are_read_into_the_memory_that_they_have() {
    explore(5_000, read_and_give_back);
}

#[test]
fn mistake_of_a_mark_that_is_taken_off_late_is_caught() {
    must_be_caught(mistake::UNMARKED_LATE, &["memory that it lost"], 20_000, read_and_give_back);
}
