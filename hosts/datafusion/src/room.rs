//! Memory for what is about to be read: whoever runs the session may have reads wait for it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use datafusion::common::Result;
use futures::future::BoxFuture;

/// Room for bytes that are read.
pub type Room = Arc<dyn Any + Send + Sync>;

/// Who is asked before column data is read into memory beside the pool.
pub trait ReadRoom: Send + Sync {
    /// Waits until there is room for so many bytes, of which so many more are `decoded` at once.
    /// What it gives is held as long as the bytes are.
    ///
    /// # Errors
    ///
    /// There is no room, which ends the query that asks.
    fn room(&self, bytes: u64, decoded: u64) -> BoxFuture<'_, Result<Room>>;
}

/// Who is asked, if anybody is.
#[derive(Default)]
pub(crate) struct Asked(OnceLock<Arc<dyn ReadRoom>>);

impl Asked {
    /// The first one stays.
    pub(crate) fn set(&self, room: Arc<dyn ReadRoom>) {
        let _ = self.0.set(room);
    }

    pub(crate) async fn room(&self, bytes: u64, decoded: u64) -> Result<Option<Room>> {
        match self.0.get() {
            Some(room) => room.room(bytes, decoded).await.map(Some),
            None => Ok(None),
        }
    }
}
