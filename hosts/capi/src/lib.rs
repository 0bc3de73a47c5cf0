//! pagecast for C. `include/pagecast.h` is made from this crate and is what its users read;
//! `examples/read.c` shows it at work. `include/pagecast_kv.h` has the key-value store.
//!
//! Every entry point runs inside `status::answer`, which catches panics and turns errors into a
//! status and a message. Pointers from C become references in `pointers` only, on the promises (C1)
//! to (C5) that the header asks of its users; null is refused everywhere.
//!
//! | module | is |
//! |---|---|
//! | `status` | codes, the thread's message, no panic into C |
//! | `pointers` | the raw pointers' way in and out |
//! | `pool`, `relation`, `scan`, `unordered`, `page`, `session`, `tuples`, `write` | the entry points |
//! | `kv` | those of the key-value store, under a header of their own |

mod kv;
mod layout;
mod page;
mod pointers;
mod pool;
mod relation;
mod scan;
mod session;
mod status;
mod tuples;
mod unordered;
mod write;

pub use kv::{KvHandle, pagecast_kv_close, pagecast_kv_delete, pagecast_kv_get, pagecast_kv_open, pagecast_kv_put};
pub use layout::{CountItems, Layout, LayoutKind, LocateItem, NameItem};
pub use page::{Page, PinHandle, pagecast_pin, pagecast_read, pagecast_unpin};
pub use pool::{
    FlushLog, Options, PoolHandle, Resized, Stats, pagecast_default_options, pagecast_pool_close, pagecast_pool_open,
    pagecast_pool_resize, pagecast_pool_snapshot, pagecast_pool_stats, pagecast_text_free,
};
pub use relation::{
    RelationHandle, pagecast_relation_cap, pagecast_relation_close, pagecast_relation_length, pagecast_relation_open,
    pagecast_relation_pages, pagecast_relation_reserve,
};
pub use scan::{
    Part, Run, ScanHandle, pagecast_scan_cap, pagecast_scan_finish, pagecast_scan_prefetch, pagecast_scan_register,
    pagecast_scan_report,
};
pub use session::{
    SessionHandle, pagecast_session_close, pagecast_session_copy, pagecast_session_open, pagecast_session_pin,
};
pub use status::{Status, pagecast_message};
pub use tuples::{
    LogItem, TuplesHandle, pagecast_tuples_close, pagecast_tuples_open, pagecast_tuples_read, pagecast_tuples_update,
};
pub use unordered::{
    Chunk, LeaseHandle, pagecast_lease_asked, pagecast_lease_chunk, pagecast_lease_consumed, pagecast_lease_return,
    pagecast_scan_register_unordered, pagecast_scan_remove, pagecast_scan_take,
};
pub use write::{
    PageMut, PinMutHandle, pagecast_checkpoint, pagecast_flush, pagecast_mark_dirty, pagecast_pin_to_write,
    pagecast_relation_grow, pagecast_relation_open_to_write, pagecast_unpin_written,
};
