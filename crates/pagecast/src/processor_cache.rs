//! The instruction that brings memory into the processor's cache ahead of its use. Unsafe code,
//! because the compiler wants it so: it reads nothing, and what it is told wrongly costs time only.

/// Asks for the cache line at `address`, to be read soon and perhaps written. Does nothing on
/// processors for which we know no way.
#[inline]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint that neither reads nor faults, whatever is at the address; every x86-64
        // processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; it changes no register, flag or memory.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
