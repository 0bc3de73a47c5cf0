//! Workloads made by rule and seed, each after one that the literature measures.
//!
//! A generator writes down what each stream does, one thing after the other; `interleave` merges
//! the streams in logical time with every request a hit. The trace keeps streams, paces and waits,
//! so that a replay in logical time can interleave them anew.

mod amg;
mod bitmap;
pub(crate) mod call;
mod dynzipf;
mod index;
mod loops;
mod points;
pub(crate) mod program;
mod recurring;
mod sequential;
mod tuples;
mod ycsb;
mod zipf;

#[cfg(feature = "redset")]
pub(crate) use call::MAX_REQUESTS;
pub use program::Generated;
pub use zipf::Zipf;

use call::Call;
use pagecast_core::random::Random;
use program::interleave;

/// A workload that there is.
struct Workload {
    name: &'static str,
    /// What it imitates, and its parameters, for people.
    about: &'static str,
    make: fn(&mut Call, &mut Random) -> Result<Vec<program::Program>, String>,
}

static WORKLOADS: &[Workload] = &[
    Workload { name: "sequential", about: sequential::ABOUT, make: sequential::make },
    Workload { name: "trailing-index", about: index::ABOUT_TRAILING, make: index::trailing },
    Workload { name: "sequential-index", about: index::ABOUT_SEQUENTIAL, make: index::almost_sequential },
    Workload { name: "bitmap", about: bitmap::ABOUT, make: bitmap::make },
    Workload { name: "ycsb", about: ycsb::ABOUT, make: ycsb::make },
    Workload { name: "dynzipf-like", about: dynzipf::ABOUT, make: dynzipf::serial },
    Workload { name: "dynzipf-like-cs", about: dynzipf::ABOUT_CS, make: dynzipf::concurrent },
    Workload { name: "tuples", about: tuples::ABOUT, make: tuples::make },
    Workload { name: "amg", about: amg::ABOUT, make: amg::make },
    Workload { name: "recurring", about: recurring::ABOUT, make: recurring::make },
    Workload { name: "loop", about: loops::ABOUT, make: loops::make },
];

/// The workloads by name, with what each imitates and takes.
pub fn workloads() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORKLOADS.iter().map(|workload| (workload.name, workload.about))
}

/// Makes the workload that `text` names, as `name` or `name(parameter=value,...)`.
///
/// ```
/// use pagecast_sim::generate::generate;
/// use pagecast_sim::trace::Trace;
///
/// let mut workload = generate("loop(pages=100,rounds=3)", 42)?;
/// assert_eq!(workload.origin(), "loop(pages=100,rounds=3,streams=1), seed 42");
/// let trace = Trace::load("loop", &mut workload)?;
/// assert_eq!((trace.requests().len(), trace.unique()), (300, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// An unknown name or parameter, or a value out of its range, in one line that says which there
/// are.
pub fn generate(text: &str, seed: u64) -> Result<Generated, String> {
    let mut call = Call::parse(text)?;
    let workload = WORKLOADS.iter().find(|workload| workload.name == call.name()).ok_or_else(|| {
        let known: Vec<_> = workloads().map(|(name, _)| name).collect();
        format!("unknown workload `{}`; there are {}", call.name(), known.join(", "))
    })?;
    let programs = (workload.make)(&mut call, &mut Random::new(seed))?;
    let resolved = call.finish()?;
    Ok(interleave(programs, format!("{resolved}, seed {seed}")))
}

#[cfg(test)]
mod tests;
