//! Names of files and folders are safe when the call that makes them returns. A thread whose syncs
//! of folders fail finds out who makes them; files are synced by another call.

use super::*;

/// Runs `test` where a sync of a folder fails with this error.
fn where_folders_answer(error: i32, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| match seccomp_unsafe::refuse(libc::SYS_fsync, None, error) {
            Ok(()) => test(),
            Err(error) => crate::skipped(&format!("no filter can be set here: {error}")),
        });
    });
}

/// Also of what is there already: the process that made it may have died right after that.
#[test]
fn names_are_synced_whoever_made_them() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("a/store"), folder.path().join("table"));
    std::fs::create_dir_all(&store).unwrap();
    std::fs::write(&file, [0; PAGE]).unwrap();
    where_folders_answer(libc::EIO, || {
        for device in [Device::local(), Device::uring()] {
            for failed in [
                device.make_folder(&store).err(),
                device.make_folder(&folder.path().join("b")).err(),
                device.open_to_write(&file, true).err(),
                device.open_to_write(&store.join("new"), true).err(),
            ] {
                let code = failed.and_then(|error| error.raw_os_error());
                assert_eq!(code, Some(libc::EIO), "a folder is not synced");
            }
            let table = device.open_to_write(&file, false).unwrap();
            table.sync().unwrap();
        }
    });
    // And nothing else is in the way.
    Device::local().make_folder(&folder.path().join("c/d/e")).unwrap();
    assert!(folder.path().join("c/d/e").is_dir());
}

/// As in a folder below a read-only image.
#[test]
fn a_file_system_that_cannot_sync_folders_is_used_nevertheless() {
    let folder = tempfile::tempdir().unwrap();
    where_folders_answer(libc::EINVAL, || {
        let store = folder.path().join("a/store");
        Device::local().make_folder(&store).unwrap();
        Device::local().open_to_write(&store.join("new"), true).unwrap();
    });
}
