//! What a file must be to be written, and what its owner says of it.

use crate::PoolError;
use crate::io::Buffer;
use crate::seal::{self, Format};
use crate::storage::{MAX_REQUEST, Storage, read_full};

/// How a file is opened to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Whether to make an empty file if there is none. Default: no.
    pub create: bool,
    /// What its pages are. Default: raw.
    pub format: Format,
    /// How many pages it has at least, if its owner knows. Default: none.
    pub pages: u32,
}

impl WriteOptions {
    crate::setters! {
        create: bool,
        format: Format,
        pages: u32,
    }
}

/// Fails unless the file is what `options` say.
pub(crate) fn check(storage: &dyn Storage, page_size: u32, options: &WriteOptions) -> Result<(), PoolError> {
    let (path, len) = (storage.path(), storage.len());
    if options.format == Format::Sealed
        && let Some(found) = other_page_size(storage, page_size)
            .map_err(|source| PoolError::io(path, 0, len.min(MAX_REQUEST as u64), source))?
    {
        return Err(PoolError::OtherPageSize { path: path.to_owned(), given: page_size, found });
    }
    if !len.is_multiple_of(u64::from(page_size)) {
        return Err(PoolError::PartialPage { path: path.to_owned(), len, page_size });
    }
    let pages = u32::try_from(len / u64::from(page_size)).unwrap_or(u32::MAX);
    if pages < options.pages {
        return Err(PoolError::Shorter { path: path.to_owned(), pages, declared: options.pages });
    }
    Ok(())
}

/// The page size that the first page's seal says, if it is another one.
fn other_page_size(storage: &dyn Storage, page_size: u32) -> std::io::Result<Option<u32>> {
    let len = storage.len().min(MAX_REQUEST as u64) as usize;
    let mut start = Buffer::new(len.next_multiple_of(crate::io::ALIGNMENT));
    let read = read_full(storage, 0, &mut [std::io::IoSliceMut::new(start.bytes_mut())])?;
    let bytes = &start.bytes()[..read];
    let is_ours = bytes.get(..page_size as usize).is_some_and(|page| seal::verify(page, 0).is_ok());
    Ok(if is_ours { None } else { seal::page_size_of(bytes) })
}
