//! The finder of wrong rows: random tables and statements, which plain DataFusion, DuckDB and
//! pagecast must answer alike.
//!
//! * `types`, `tables`, `files`: tables that say what their rows are, and how their files differ.
//! * `statements`: what is asked of them.
//! * `engines`, `duckdb`: who answers, and in which settings.
//! * `rows`: when answers are equal.
//! * `finder`: rounds of all that, and what is counted.
//! * `case`: a difference as a file, and as small as it gets.

mod case;
mod duckdb;
mod engines;
mod files;
mod finder;
mod rows;
mod statements;
mod tables;
mod types;

pub use case::{Case, Difference};
pub use engines::{ByRule, Setting};
pub use finder::{Options, Report, find};
