//! Forbids system calls to the calling thread and to those that it starts. The only unsafe code of this test.

use std::io;

/// From now on `call` fails with EPERM here, as under a container's filter.
pub(crate) fn forbid(call: libc::c_long) -> io::Result<()> {
    // Load the number of the call; if it is this one, refuse; else allow. The numbers are those of this machine's calls,
    // since the test makes no others.
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32) },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: takes no pointers. A filter needs it, so that no program with more rights runs under it.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its filter live during the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    if set != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
