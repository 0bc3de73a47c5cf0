//! Policies of FIFO queues that a page may go round in again: hits only mark pages, queues move at
//! evictions.

mod s3_fifo;
mod sieve;

pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
