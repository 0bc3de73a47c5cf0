//! The processor time of this process. Unsafe code, because the call is the system's.

use std::time::Duration;

/// What all threads of the process together have used; none where the system does not tell.
pub(crate) fn used() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time` and to nothing else, and it is ours.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    (answer == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
