//! What a tuple buffer decides: which items of a page outlive it, which of them give way, and how
//! much of the pool they may have.
//!
//! A page cache holds the cold neighbours of hot rows. So a page that the policy gives up
//! *dissolves*: its visited items go on in a *mini-page*, in slabs that are frames borrowed from
//! the pool. A page is whole or dissolved, never both; a load merges the mini-page into the page.
//!
//! * [`Visits`] counts who asked for which item of a resident page.
//! * [`Keep`] and [`Trim`] say which items stay, [`Room`] what they take.
//! * [`Heat`], [`Ages`] and [`coldest`] choose the mini-page that gives way.
//! * [`Model`] is a pool that does all of this without bytes.
//! * [`Shares`] learns the share of the frames from a few small models.
//!
//! The pool runs the first three on its slabs and the last beside it. The simulator runs [`Model`],
//! which is made of the same parts.

mod heat;
mod items;
mod keep;
mod mini_pages;
mod model;
mod page_frames;
mod room;
mod shares;
mod visits;

pub use heat::{Ages, Candidate, Heat, SAMPLED, coldest};
pub use items::Tuple;
pub use keep::{Keep, Trim, Weight};
pub use model::{Bounds, Counts, Found, Model, ModelOptions};
pub use room::{HEAD_BYTES, INDEX_BYTES, ITEM_BYTES, Room, Slot};
pub use shares::{SHARES, Sample, Shares};
pub use visits::{MOST_VISITS, Visits};
