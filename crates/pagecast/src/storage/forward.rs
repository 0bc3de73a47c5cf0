//! Files that make another one's requests differently, and are otherwise that file.

/// Inside of an `impl Storage`: all but the requests and who makes them, from the file in this
/// field.
macro_rules! forward {
    ($file:ident) => {
        fn path(&self) -> &std::path::Path {
            self.$file.path()
        }
        fn generation(&self) -> $crate::storage::Generation {
            self.$file.generation()
        }
        fn current(&self) -> std::io::Result<$crate::storage::Generation> {
            self.$file.current()
        }
        fn alignment(&self) -> usize {
            self.$file.alignment()
        }
        fn request_shape(&self) -> $crate::storage::RequestShape {
            self.$file.request_shape()
        }
        fn direct(&self) -> $crate::storage::DirectIo {
            self.$file.direct()
        }
        fn len(&self) -> u64 {
            self.$file.len()
        }
        fn compares_reads(&self) -> bool {
            self.$file.compares_reads()
        }
        fn may_be_copied(&self) -> bool {
            self.$file.may_be_copied()
        }
        fn is_writable(&self) -> bool {
            self.$file.is_writable()
        }
        fn set_len(&self, len: u64) -> std::io::Result<()> {
            self.$file.set_len(len)
        }
        fn allocate(&self, len: u64) -> std::io::Result<()> {
            self.$file.allocate(len)
        }
    };
}

pub(super) use forward;
