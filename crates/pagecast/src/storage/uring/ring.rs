//! One io_uring: requests in, answers out. The only unsafe code of the storage.
//!
//! The kernel reads and writes the buffers of a request from its submission until its completion, on its own time. What
//! keeps that sound is that nothing is under way outside of [`Ring::run`]:
//!
//! * (U1) `run` borrows file and buffers for as long as it lasts, and does not end, by return or by panic, before every
//!   request that the kernel has taken is completed: [`InFlight`] waits for them when it goes.
//! * (U2) A request that the kernel has not taken is never offered again after `run`: a ring that failed is closed.
//! * (U3) No more requests are under way than the ring has entries, and there is room for twice as many completions. So
//!   no completion is lost, and a full ring is waited for.
//!
//! Completions come in any order; each carries the number of its request. A ring is used by one thread, and needs no lock.
//!
//! Cost: one system call for as many requests as fit, and one more for each time that the next answer is waited for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::Errno;

use super::super::{Request, Transfer};

/// Requests that are under way at once.
const ENTRIES: u32 = 64;

/// A ring that works, as far as its first request could tell.
pub(super) struct Ring(IoUring);

impl Ring {
    /// Makes a ring and tries it.
    ///
    /// # Errors
    ///
    /// The kernel has no io_uring, or one without reading and writing, or this process may not use it.
    pub(super) fn new() -> io::Result<Self> {
        let mut ring = Self(IoUring::new(ENTRIES)?);
        let mut probe = Probe::new();
        ring.0.submitter().register_probe(&mut probe)?;
        if ![opcode::Readv::CODE, opcode::Writev::CODE].into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no vectored reads and writes"));
        }
        // A filter of system calls may let a ring be made, but not be used.
        let mut flight = InFlight { ring: &mut ring.0, count: 0 };
        // SAFETY: a request that does nothing has no buffers.
        unsafe { flight.push(&opcode::Nop::new().build()) }?;
        let mut answers = 0;
        while answers == 0 {
            flight.wait()?;
            flight.reap(|_, _| answers += 1);
        }
        drop(flight);
        Ok(ring)
    }

    /// Makes all requests and returns when each has its answer.
    ///
    /// # Errors
    ///
    /// The ring does not work any more, and must not be used again. Requests without an answer are as if interrupted.
    pub(super) fn run(&mut self, file: BorrowedFd<'_>, requests: &mut [Request<'_, '_>]) -> io::Result<()> {
        let mut flight = InFlight { ring: &mut self.0, count: 0 };
        let (mut begun, mut answered) = (0, 0);
        while answered < requests.len() {
            while begun < requests.len() && flight.count < ENTRIES {
                let entry = entry(file, &mut requests[begun]).user_data(begun as u64);
                // SAFETY: the request's buffers and the list of them are borrowed by `requests`, mutably where the kernel
                // writes, and the file by `file`, until `run` ends, and it ends after the request (U1).
                unsafe { flight.push(&entry) }?;
                begun += 1;
            }
            flight.wait()?;
            flight.reap(|number, answer| {
                requests[number].answer = answer;
                answered += 1;
            });
        }
        Ok(())
    }
}

/// `IoSlice` and `IoSliceMut` are, by std's promise, an `iovec` in memory.
fn entry(file: BorrowedFd<'_>, request: &mut Request<'_, '_>) -> squeue::Entry {
    let fd = types::Fd(file.as_raw_fd());
    match &mut request.transfer {
        Transfer::Read(bufs) => {
            opcode::Readv::new(fd, bufs.as_mut_ptr().cast(), bufs.len() as u32).offset(request.offset).build()
        }
        Transfer::Write(bufs) => {
            opcode::Writev::new(fd, bufs.as_ptr().cast(), bufs.len() as u32).offset(request.offset).build()
        }
    }
}

/// The requests under way. Going, it waits until there is none.
struct InFlight<'a> {
    ring: &'a mut IoUring,
    count: u32,
}

impl InFlight<'_> {
    /// Offers a request to the kernel.
    ///
    /// # Safety
    ///
    /// What the request points to stays valid, and is not touched, until this value has gone.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the caller's promise, until the completion, which this value waits for.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // There are as many places as requests under way (U3), so that this does not happen.
        pushed.map_err(|_| io::Error::other("the ring is full"))?;
        self.count += 1;
        Ok(())
    }

    /// Hands over what was pushed and waits for a completion. On an error nothing more must be handed over.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1).map_err(|error| Errno::from_io_error(&error)) {
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
        self.count as usize > self.ring.submission().len()
    }

    fn pause(&self) {
        std::thread::sleep(Duration::from_micros(50));
    }

    /// Hands out the completions that are there.
    fn reap(&mut self, mut done: impl FnMut(usize, io::Result<usize>)) {
        for completion in self.ring.completion() {
            self.count -= 1;
            done(completion.user_data() as usize, answer(completion.result()));
        }
    }
}

impl Drop for InFlight<'_> {
    /// Only after an error or a panic is there anything to wait for. What the kernel has not taken it never will, since
    /// nobody enters this ring again (U2). What it has taken ends without our help, as any request to a file does.
    fn drop(&mut self) {
        self.count -= self.ring.submission().len() as u32;
        while self.count > 0 {
            self.pause();
            self.reap(|_, _| {});
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
    use std::io::{IoSliceMut, Write};
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    fn ring() -> Option<Ring> {
        Ring::new().inspect_err(|error| println!("skipped: io_uring is refused: {error}")).ok()
    }

    /// A pipe: reads of it take until somebody writes.
    fn pipe() -> (File, std::io::PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        (File::from(OwnedFd::from(reader)), writer)
    }

    #[test]
    fn a_run_ends_when_its_last_request_has() {
        let Some(mut ring) = ring() else { return };
        let (slow, mut writer) = pipe();
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // More than fit at once; each completion is one write of another's.
                let mut memory = [[0u8; 1]; ENTRIES as usize + 20];
                let mut bufs: Vec<_> = memory.iter_mut().map(|byte| [IoSliceMut::new(byte)]).collect();
                let mut requests: Vec<_> = bufs.iter_mut().map(|b| Request::new(0, Transfer::Read(b))).collect();
                ring.run(slow.as_fd(), &mut requests).unwrap();
                assert!(requests.into_iter().all(|request| request.answer.unwrap() == 1));
                sender.send(memory.concat()).unwrap();
            });
            writer.write_all(&[7; ENTRIES as usize + 19]).unwrap();
            let early = receiver.recv_timeout(Duration::from_millis(50));
            assert!(matches!(early, Err(RecvTimeoutError::Timeout)), "one of them has no answer yet");
            writer.write_all(&[7]).unwrap();
            assert_eq!(receiver.recv().unwrap(), [7; ENTRIES as usize + 20]);
        });
    }

    #[test]
    fn memory_outlives_the_requests_of_a_run_that_breaks_off() {
        let Some(mut ring) = ring() else { return };
        let (slow, mut writer) = pipe();
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut memory = [0u8; 3];
                let mut bufs = [IoSliceMut::new(&mut memory)];
                let mut request = Request::new(0, Transfer::Read(&mut bufs));
                let mut flight = InFlight { ring: &mut ring.0, count: 0 };
                let taken = entry(slow.as_fd(), &mut request);
                // SAFETY: `memory`, its list and the pipe are dropped after `flight`.
                unsafe { flight.push(&taken) }.unwrap();
                flight.ring.submit().unwrap();
                let never = entry(slow.as_fd(), &mut request);
                // SAFETY: as above.
                unsafe { flight.push(&never) }.unwrap();
                drop(flight);
                sender.send(memory).unwrap();
            });
            let early = receiver.recv_timeout(Duration::from_millis(50));
            assert!(matches!(early, Err(RecvTimeoutError::Timeout)), "the kernel may still write to the memory");
            writer.write_all(b"abc").unwrap();
            assert_eq!(&receiver.recv().unwrap(), b"abc");
        });
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
        let mut memory = [0u8; 8];
        let mut bufs = [IoSliceMut::new(&mut memory)];
        let word = [io::IoSlice::new(b"word")];
        let mut requests = [Request::new(0, Transfer::Read(&mut bufs)), Request::new(0, Transfer::Write(&word))];
        ring.run(file.as_fd(), &mut requests).unwrap();
        let [read, written] = requests;
        assert_eq!(read.answer.unwrap_err().raw_os_error(), Some(Errno::BADF.raw_os_error()));
        assert_eq!(written.answer.unwrap(), 4);
    }
}
