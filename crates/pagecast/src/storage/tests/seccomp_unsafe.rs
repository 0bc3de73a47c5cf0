//! Refuses system calls to the calling thread and to those that it starts. The only unsafe code of
//! this test.

use std::io;

/// From now on `call` fails here with `error`; with `second`, only where its second argument is
/// that.
pub(crate) fn refuse(call: libc::c_long, second: Option<u32>, error: i32) -> io::Result<()> {
    // Load a word; if it is not what is refused, go to the last statement, which allows. The
    // numbers of calls are those of this machine, since the test makes no others.
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let refused = [(0, call as u32)].into_iter().chain(second.map(|argument| (24, argument)));
    let mut filter = Vec::new();
    for (offset, value) in refused.rev() {
        let to_the_end = filter.len() as u8 + 1;
        let compare = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value);
        let load = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
        filter.splice(..0, [load, libc::sock_filter { jf: to_the_end, ..compare }]);
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32));
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: takes no pointers. A filter needs it, so that no program with more rights runs under
    // it.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its filter live during the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    if set != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
