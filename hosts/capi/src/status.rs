//! Codes and messages, and the border that no panic crosses.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pagecast::Refusal;
use pagecast::predictor::RegisterError;
use pagecast::{PoolError, UnorderedError};

/// What became of a call. The numbers stay as they are; later versions may add some.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A null pointer, a number out of range, a text that cannot be read.
    InvalidArgument = 1,
    /// Every frame is pinned or being filled: unpin some pages, or read past the pool with
    /// pagecast_read.
    NoFrame = 2,
    /// Storage refused to open, read or write.
    Io = 3,
    /// The file is not the one that was opened: open it again.
    Changed = 4,
    /// The file has no such page or byte.
    OutOfBounds = 5,
    /// No room for another scan, which may run without being registered, or for another relation to
    /// be kept.
    NoRoom = 6,
    /// Pages of the pool are still pinned.
    InUse = 7,
    /// Memory or threads were refused, or too little memory was offered.
    Setup = 8,
    /// A mistake inside pagecast. The pool stays usable.
    Internal = 9,
    /// The pool changes no page any more: a sync failed, or a change was not logged. Pages can
    /// still be read.
    ReadOnly = 10,
    /// The bytes in the file are not a page as pagecast wrote it.
    Damaged = 11,
    /// There is nothing yet: ask again.
    NotYet = 12,
}

/// A status that is not OK, and its words.
pub(crate) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, message)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        let status = match &error {
            PoolError::NoFrame { .. } => Status::NoFrame,
            PoolError::Changed { .. } => Status::Changed,
            PoolError::Io { .. }
            | PoolError::Open { .. }
            | PoolError::Write { .. }
            | PoolError::Sync { .. }
            | PoolError::Log { .. } => Status::Io,
            PoolError::ReadOnly { .. } | PoolError::Unlogged { .. } | PoolError::Closed => Status::ReadOnly,
            PoolError::Checksum { .. }
            | PoolError::Misplaced { .. }
            | PoolError::PartialPage { .. }
            | PoolError::Shorter { .. }
            | PoolError::OtherPageSize { .. } => Status::Damaged,
            PoolError::OutOfBounds { .. } | PoolError::NoPage { .. } => Status::OutOfBounds,
            PoolError::TooSmall { .. } | PoolError::MoreThanMemory { .. } | PoolError::Setup { .. } => Status::Setup,
            PoolError::Register(error) => of_register(error),
            PoolError::TooManyReserved { .. } => Status::NoRoom,
            PoolError::Abandoned { .. } => Status::Internal,
            _ => Status::InvalidArgument,
        };
        Self::new(status, error.to_string())
    }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        Self::new(of_register(&error), error.to_string())
    }
}

impl From<UnorderedError> for Failure {
    fn from(error: UnorderedError) -> Self {
        let status = match &error {
            UnorderedError::Predictor(error) => of_register(error),
            UnorderedError::Cooperation(Refusal::BadChunk { .. }) => Status::InvalidArgument,
            _ => Status::NoRoom,
        };
        Self::new(status, error.to_string())
    }
}

fn of_register(error: &RegisterError) -> Status {
    // The others are about the description of the scan.
    if error.is_full() { Status::NoRoom } else { Status::InvalidArgument }
}

thread_local! {
    /// The words of this thread's last failure.
    static MESSAGE: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs the work of an entry point. A panic inside becomes a status, so that none crosses into C.
pub(crate) fn answer(work: impl FnOnce() -> Result<(), Failure>) -> Status {
    // Unwind safety: what a panic leaves behind is the pool's own, which keeps its invariants
    // through panics; the handles are only read.
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Status::Internal, format!("pagecast panicked: {}", words_of(panic.as_ref()))),
    };
    remember(failure.message);
    failure.status
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

/// A text for C, which reads up to the first zero byte. Names of files inside it may hold one.
pub(crate) fn c_text(text: String) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

fn remember(message: String) {
    let text = c_text(message);
    // A thread that is ending has no place for it any more, and nobody to read it.
    let _ = MESSAGE.try_with(|place| *place.borrow_mut() = text);
}

/// What went wrong in this thread's last call that did not return PAGECAST_OK; empty before the
/// first. The text stays until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn pagecast_message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_status_with_its_words() {
        assert_eq!(answer(|| panic!("as {}", "planned")), Status::Internal);
        MESSAGE.with(|text| assert_eq!(text.borrow().to_str(), Ok("pagecast panicked: as planned")));
        assert_eq!(answer(|| Err(Failure::argument("a\0b"))), Status::InvalidArgument);
        MESSAGE.with(|text| assert_eq!(text.borrow().to_str(), Ok("a\\0b")));
        assert_eq!(answer(|| Ok(())), Status::Ok);
    }
}
