//! The finder of wrong rows: random tables and statements, of which the answers are computed from
//! the rows themselves, and which DuckDB and pagecast must answer alike.
//!
//! * `types`, `value`: types of columns, and their values.
//! * `tables`, `files`, `formats`: tables that say what their rows are, how their files differ, and
//!   who else wrote them.
//! * `expr`, `statements`: what is asked of them; `asked` makes it up.
//! * `faults`, `faulty`, `questions`: kinds of wrong rows, and the tables and statements that show
//!   each.
//! * `naive`: what is right.
//! * `engines`, `declared`, `peers`: who answers, in which settings, and who writes files.
//! * `finder`: rounds of all that, and what is counted.
//! * `case`: a difference as a file, and as small as it gets.

mod asked;
mod case;
mod engines;
mod expr;
mod faults;
mod faulty;
mod files;
mod finder;
mod formats;
mod naive;
mod peers;
mod questions;
mod statements;
mod tables;
mod types;
mod value;

pub use case::{Case, Difference};
pub use engines::{ByRule, Setting};
pub use finder::{Options, Report, find};
