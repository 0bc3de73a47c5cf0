//! The key-value store: `include/pagecast_kv.h` is made from this module.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pagecast_kv::{Error, Options, Store};

use crate::pointers::{array, borrow, buffer, give, output, take, text};
use crate::status::{Failure, Status, answer};

/// A store that is open.
pub struct KvHandle {
    store: Store,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Pool(error) => return error.into(),
            Error::Open { .. } | Error::Log { .. } | Error::Stalled { .. } => Status::Io,
            Error::Locked { .. } => Status::InUse,
            Error::Foreign { .. }
            | Error::OtherStore { .. }
            | Error::NoLog { .. }
            | Error::Damaged { .. }
            | Error::DamagedLog { .. } => Status::Damaged,
            _ => Status::InvalidArgument,
        };
        Self::new(status, error.to_string())
    }
}

/// Opens the store in a folder, with so many bytes of memory (0: the default), and makes it if
/// there is none. PAGECAST_STATUS_IN_USE: another process has it open.
///
/// # Safety
///
/// (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_kv_open(path: *const c_char, memory: u64, store: *mut *mut KvHandle) -> Status {
    answer(|| {
        // SAFETY: (C3).
        let path = unsafe { text(path, "path") }?;
        // SAFETY: (C2).
        let out = unsafe { output(store, "store") }?;
        let options = if memory > 0 { Options::default().memory(memory) } else { Options::default() };
        let store = Store::open(Path::new(OsStr::from_bytes(path.to_bytes())), options)?;
        out.set(give(KvHandle { store }));
        Ok(())
    })
}

/// Gives a key its value. It is safe from a crash when this returns.
///
/// # Safety
///
/// (C1), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_kv_put(
    store: *const KvHandle,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: (C3).
        let key = unsafe { array(key, key_length, "key") }?;
        // SAFETY: (C3).
        let value = unsafe { array(value, value_length, "value") }?;
        Ok(store.store.put(key, value)?)
    })
}

/// Copies the value of a key, as much of it as there is room for, and says how long it is. `found`
/// becomes 1, or 0 if there is no such key.
///
/// # Safety
///
/// (C1), (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_kv_get(
    store: *const KvHandle,
    key: *const u8,
    key_length: usize,
    value: *mut u8,
    room: usize,
    value_length: *mut usize,
    found: *mut u8,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: (C3).
        let key = unsafe { array(key, key_length, "key") }?;
        // SAFETY: (C2): as many bytes as the caller says.
        let memory = unsafe { buffer(value, room, "value") }?;
        // SAFETY: (C2).
        let length_out = unsafe { output(value_length, "value_length") }?;
        // SAFETY: (C2).
        let found_out = unsafe { output(found, "found") }?;
        let length = store.store.get_with(key, |value| {
            let memory = memory.unwritten();
            for (to, from) in memory.iter_mut().zip(value) {
                to.write(*from);
            }
            value.len()
        })?;
        length_out.set(length.unwrap_or(0));
        found_out.set(u8::from(length.is_some()));
        Ok(())
    })
}

/// Takes a key away. `was_there` becomes 1, or 0 if there was no such key.
///
/// # Safety
///
/// (C1), (C2), (C3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_kv_delete(
    store: *const KvHandle,
    key: *const u8,
    key_length: usize,
    was_there: *mut u8,
) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let store = unsafe { borrow(store, "store") }?;
        // SAFETY: (C3).
        let key = unsafe { array(key, key_length, "key") }?;
        // SAFETY: (C2).
        let out = unsafe { output(was_there, "was_there") }?;
        out.set(u8::from(store.store.delete(key)?));
        Ok(())
    })
}

/// Closes a store, so that it opens without a recovery. The handle is gone also after a failure;
/// what was put is then brought back from the log.
///
/// # Safety
///
/// (C1)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pagecast_kv_close(store: *mut KvHandle) -> Status {
    answer(|| {
        // SAFETY: (C1).
        let handle = unsafe { take(store, "store") }?;
        Ok(handle.store.close()?)
    })
}
