//! One io_uring: errands in, answers out. Unsafe: it hands requests to the kernel.
//!
//! The kernel reads and writes the buffers of a request from its submission until its completion,
//! on its own time. What keeps that sound is that every request under way has a [`Slot`], which
//! owns its errand and thereby its memory:
//!
//! * (U1) From its submission to its completion nobody touches a slot's errand: it is handed on,
//!   asked again or dropped only when the completion has been seen. What a request lends is
//!   borrowed from the errand, mutably where the kernel writes, so that nobody else reaches it
//!   meanwhile.
//! * (U2) [`Ring::serve`] does not end, by return or by panic, before every request that the kernel
//!   has taken is completed: [`Flight`] waits for them when it goes, and only then drops the slots.
//!   So what errands borrow outlives them, too.
//! * (U3) A request that the kernel has not taken is never offered again after `serve`: a ring that
//!   failed is closed.
//! * (U4) No more requests are under way than the ring has entries, and there is room for twice as
//!   many completions. So no completion is lost.
//!
//! Completions come in any order; each carries the number of its slot. A ring is used by one
//! thread, and needs no lock.
//!
//! Cost: one system call hands over what is new and waits for the next answer; a request costs one
//! allocation for its list of buffers besides.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use io_uring::{CompletionQueue, IoUring, Probe, SubmissionQueue, opcode, squeue};
use rustix::io::Errno;

use super::super::Errands;
use super::slot::Slot;
use super::{Broken, Settle, UNDER_WAY};

/// A ring that works, as far as its first request could tell.
pub(super) struct Ring(IoUring);

impl Ring {
    /// Makes a ring and tries it.
    ///
    /// # Errors
    ///
    /// The kernel has no io_uring, or one without reading and writing, or this process may not use
    /// it.
    pub(super) fn new() -> io::Result<Self> {
        let mut ring = Self(IoUring::new(UNDER_WAY as u32)?);
        let mut probe = Probe::new();
        ring.0.submitter().register_probe(&mut probe)?;
        if ![opcode::Readv::CODE, opcode::Writev::CODE].into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no vectored reads and writes"));
        }
        // A filter of system calls may let a ring be made, but not be used.
        let mut flight = Flight::new(&mut ring);
        // SAFETY: a request that does nothing has no buffers.
        unsafe { flight.push(&opcode::Nop::new().build()) }?;
        while flight.completed().is_empty() {
            flight.wait()?;
        }
        drop(flight);
        Ok(ring)
    }

    /// Runs the errands of `next` until it has none and all have ended. `settle` makes of an answer
    /// what the errand gets.
    ///
    /// # Errors
    ///
    /// The ring does not work any more, and must not be used again. The errands that have not ended
    /// come back; the request of each is to be made again.
    pub(super) fn serve<'e>(
        &mut self,
        file: BorrowedFd<'_>,
        next: &mut Errands<'_, 'e>,
        settle: &mut Settle<'_>,
    ) -> Result<(), Broken<'e>> {
        let fd = file.as_raw_fd();
        let mut flight = Flight::new(self);
        loop {
            while flight.count < UNDER_WAY
                && let Some(errand) = next()
            {
                if let Err(error) = flight.begin(fd, Slot::new(errand)) {
                    return Err(flight.break_off(error));
                }
            }
            if flight.count == 0 {
                return Ok(());
            }
            if let Err(error) = flight.wait() {
                return Err(flight.break_off(error));
            }
            for (number, answer) in flight.completed() {
                let mut slot = flight.slots[number].take().expect("the kernel answers what is under way");
                // SAFETY: its request is completed.
                let errand = unsafe { slot.errand() };
                let answer = settle(errand, answer);
                errand.answer(answer);
                if let Err(error) = flight.begin(fd, slot) {
                    return Err(flight.break_off(error));
                }
            }
        }
    }

    fn submission(&mut self) -> SubmissionQueue<'_> {
        self.0.submission()
    }

    fn completion(&mut self) -> CompletionQueue<'_> {
        self.0.completion()
    }
}

/// The requests under way. Going, it waits until there is none.
struct Flight<'r, 'e> {
    ring: &'r mut Ring,
    count: usize,
    slots: [Option<Slot<'e>>; UNDER_WAY],
}

impl<'r, 'e> Flight<'r, 'e> {
    fn new(ring: &'r mut Ring) -> Self {
        Self { ring, count: 0, slots: [const { None }; UNDER_WAY] }
    }

    /// Offers the next request of an errand that has none under way, or ends it.
    fn begin(&mut self, file: RawFd, mut slot: Slot<'e>) -> io::Result<()> {
        // SAFETY: no request of it is under way.
        let Some(entry) = (unsafe { slot.entry(file) }) else {
            // SAFETY: as above.
            unsafe { slot.into_errand() }.end();
            return Ok(());
        };
        let number = self.slots.iter().position(Option::is_none).expect("there is a slot for each request (U4)");
        self.slots[number] = Some(slot);
        // SAFETY: the slot keeps what the entry points to until the request is completed (U1, U2).
        // The file is borrowed for as long as the flight lasts.
        unsafe { self.push(&entry.user_data(number as u64)) }
    }

    /// Offers a request to the kernel.
    ///
    /// # Safety
    ///
    /// What the request points to stays valid, and is not touched, until its completion was seen or
    /// this value has gone.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // There are as many places as requests under way (U4), so that this does not happen.
        pushed.map_err(|_| io::Error::other("the ring is full"))?;
        self.count += 1;
        Ok(())
    }

    /// Hands over what was pushed and waits for a completion. On an error nothing more must be
    /// handed over.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.0.submitter().submit_and_wait(1).map_err(|error| Errno::from_io_error(&error)) {
                Ok(_) | Err(Some(Errno::INTR)) => return Ok(()),
                // The kernel is short of something, which completions may give back.
                Err(Some(Errno::AGAIN | Errno::BUSY)) => {
                    self.pause();
                    if self.is_anything_taken() {
                        return Ok(());
                    }
                }
                Err(errno) => return Err(errno.map_or(io::ErrorKind::Other.into(), io::Error::from)),
            }
        }
    }

    fn is_anything_taken(&mut self) -> bool {
        self.count > self.ring.submission().len()
    }

    fn pause(&self) {
        std::thread::sleep(Duration::from_micros(50));
    }

    /// The completions that are there, of which none is under way any more.
    fn completed(&mut self) -> Vec<(usize, io::Result<usize>)> {
        let completion = |entry: io_uring::cqueue::Entry| (entry.user_data() as usize, answer(entry.result()));
        let completed: Vec<_> = self.ring.completion().map(completion).collect();
        self.count -= completed.len();
        completed
    }

    /// Waits until nothing is under way. What the kernel has not taken it never will, since nobody
    /// enters this ring again (U3). What it has taken ends without our help, as any request to a
    /// file does.
    fn drain(&mut self) {
        self.count -= self.ring.submission().len().min(self.count);
        while self.count > 0 {
            self.pause();
            self.completed();
        }
    }

    /// Gives back what has not ended, when the kernel is done with it.
    fn break_off(mut self, error: io::Error) -> Broken<'e> {
        self.drain();
        let left = self.slots.iter_mut().filter_map(Option::take);
        // SAFETY: nothing is under way any more.
        let left = left.map(|slot| unsafe { slot.into_errand() }).collect();
        Broken { error, left }
    }
}

impl Drop for Flight<'_, '_> {
    /// Only after an error or a panic is there anything to wait for.
    fn drop(&mut self) {
        if self.count > 0 {
            self.drain();
        }
    }
}

/// A completion's result as an ordinary read would say it.
fn answer(result: i32) -> io::Result<usize> {
    match usize::try_from(result) {
        Ok(bytes) => Ok(bytes),
        // It could not be taken up at this moment: as if interrupted.
        Err(_) if result == -Errno::AGAIN.raw_os_error() => Err(io::ErrorKind::Interrupted.into()),
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;
    use std::io::{IoSlice, IoSliceMut, Write};
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

    use super::super::super::{Errand, Request, Transfer};
    use super::*;

    /// One request; its memory and answer go to whoever listens when it ends.
    struct One<'e> {
        memory: Memory<'e>,
        answer: Option<io::Result<usize>>,
        ended: Sender<(Vec<u8>, io::Result<usize>)>,
    }

    enum Memory<'e> {
        Read(Vec<u8>),
        Write(&'e [u8]),
    }

    impl Errand for One<'_> {
        fn request(&mut self) -> Option<Request<'_>> {
            let transfer = match &mut self.memory {
                Memory::Read(bytes) => Transfer::Read(vec![IoSliceMut::new(bytes)]),
                Memory::Write(bytes) => Transfer::Write(vec![IoSlice::new(bytes)]),
            };
            self.answer.is_none().then_some(Request { offset: 0, transfer })
        }

        fn answer(&mut self, answer: io::Result<usize>) {
            self.answer = Some(answer);
        }

        fn end(self: Box<Self>) {
            let memory = match self.memory {
                Memory::Read(bytes) => bytes,
                Memory::Write(_) => Vec::new(),
            };
            self.ended.send((memory, self.answer.unwrap())).unwrap();
        }
    }

    fn as_it_is(_: &mut (dyn Errand + '_), answer: io::Result<usize>) -> io::Result<usize> {
        answer
    }

    fn ring() -> Option<Ring> {
        Ring::new().inspect_err(|error| crate::skipped(&format!("io_uring is refused: {error}"))).ok()
    }

    /// A pipe: reads of it take until somebody writes.
    fn pipe() -> (File, std::io::PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        (File::from(OwnedFd::from(reader)), writer)
    }

    /// More than fit at once; each completion is one write of another's.
    const MANY: usize = UNDER_WAY * 5 + 3;

    #[test]
    fn each_errand_ends_as_its_answer_comes_and_another_takes_its_place() {
        let Some(mut ring) = ring() else { return };
        let (slow, mut writer) = pipe();
        let (ended, ends) = channel();
        std::thread::scope(|scope| {
            let (done, is_done) = channel();
            scope.spawn(move || {
                let mut left = MANY;
                let mut next = || -> Option<Box<dyn Errand>> {
                    left = left.checked_sub(1)?;
                    Some(Box::new(One { memory: Memory::Read(vec![0]), answer: None, ended: ended.clone() }))
                };
                assert!(ring.serve(slow.as_fd(), &mut next, &mut as_it_is).is_ok());
                done.send(()).unwrap();
            });
            for byte in 0..MANY as u8 {
                writer.write_all(&[byte]).unwrap();
                // Whoever it is: all the others are still under way, or have not begun.
                let (memory, answer) = ends.recv().unwrap();
                assert_eq!((memory, answer.unwrap()), (vec![byte], 1));
                let last = byte as usize == MANY - 1;
                assert_eq!(is_done.recv_timeout(Duration::from_millis(if last { 10_000 } else { 1 })).is_ok(), last);
            }
        });
    }

    /// Memory that tells when it goes, after whoever holds it has looked at it.
    struct Watched(Vec<u8>, Sender<Vec<u8>>);

    impl Errand for Watched {
        fn request(&mut self) -> Option<Request<'_>> {
            Some(Request { offset: 0, transfer: Transfer::Read(vec![IoSliceMut::new(&mut self.0)]) })
        }

        fn answer(&mut self, _: io::Result<usize>) {}

        fn end(self: Box<Self>) {}
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            // Nobody listens any more where the test has failed.
            let _ = self.1.send(std::mem::take(&mut self.0));
        }
    }

    #[test]
    fn memory_outlives_the_requests_of_a_flight_that_panics() {
        let Some(mut ring) = ring() else { return };
        let (slow, mut writer) = pipe();
        let (dropped, drops) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut flight = Flight::new(&mut ring);
                let fd = slow.as_raw_fd();
                flight.begin(fd, Slot::new(Box::new(Watched(vec![0; 3], dropped.clone())))).unwrap();
                flight.ring.0.submitter().submit().unwrap();
                // The kernel never learns of this one.
                flight.begin(fd, Slot::new(Box::new(Watched(vec![9; 3], dropped)))).unwrap();
                let panic = std::panic::AssertUnwindSafe(|| {
                    let _flight = flight;
                    std::panic::resume_unwind(Box::new("in the middle of it"));
                });
                std::panic::catch_unwind(panic).unwrap_err();
            });
            let early = drops.recv_timeout(Duration::from_millis(50));
            assert!(matches!(early, Err(RecvTimeoutError::Timeout)), "the kernel may still write to the memory");
            writer.write_all(b"abc").unwrap();
            assert_eq!(drops.recv().unwrap(), b"abc");
            assert_eq!(drops.recv().unwrap(), [9; 3]);
        });
    }

    #[test]
    fn a_flight_that_breaks_off_gives_back_what_has_not_ended() {
        let Some(mut ring) = ring() else { return };
        let (slow, mut writer) = pipe();
        let (dropped, drops) = channel();
        let mut flight = Flight::new(&mut ring);
        flight.begin(slow.as_raw_fd(), Slot::new(Box::new(Watched(vec![0; 3], dropped.clone())))).unwrap();
        flight.ring.0.submitter().submit().unwrap();
        flight.begin(slow.as_raw_fd(), Slot::new(Box::new(Watched(vec![9; 3], dropped)))).unwrap();
        writer.write_all(b"abc").unwrap();
        let broken = flight.break_off(io::Error::other("a reason"));
        assert_eq!((broken.left.len(), broken.error.to_string().as_str()), (2, "a reason"));
        drop(broken);
        assert_eq!(drops.iter().collect::<Vec<_>>(), [b"abc".to_vec(), vec![9; 3]]);
    }

    #[test]
    fn results_are_what_an_ordinary_request_would_say() {
        assert_eq!(answer(4096).unwrap(), 4096);
        assert_eq!(answer(-Errno::INTR.raw_os_error()).unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(answer(-Errno::AGAIN.raw_os_error()).unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(answer(-Errno::IO.raw_os_error()).unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    }

    #[test]
    fn each_request_fails_by_itself() {
        let Some(mut ring) = ring() else { return };
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("only written")).unwrap();
        let (ended, ends) = channel();
        let one = |memory| One { memory, answer: None, ended: ended.clone() };
        let mut errands = vec![one(Memory::Write(b"word")), one(Memory::Read(vec![0; 8]))];
        let mut next = || Some(Box::new(errands.pop()?) as Box<dyn Errand>);
        assert!(ring.serve(file.as_fd(), &mut next, &mut as_it_is).is_ok());
        drop((errands, ended));
        let (failed, done): (Vec<_>, Vec<_>) = ends.iter().map(|(_, answer)| answer).partition(Result::is_err);
        let failed: Vec<_> = failed.into_iter().map(|answer| answer.unwrap_err().raw_os_error()).collect();
        assert_eq!(failed, [Some(Errno::BADF.raw_os_error())]);
        assert_eq!(done.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [4]);
    }
}
