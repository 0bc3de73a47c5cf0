//! What more than one of the benchmarks measures with.

pub mod eviction;

/// What the program was told, without the file that it writes: `--only cells --seed 2`. A result
/// says by it how to get it again.
pub fn arguments() -> String {
    let (mut given, mut kept) = (std::env::args().skip(1), Vec::new());
    while let Some(argument) = given.next() {
        if argument == "--json" {
            given.next();
        } else {
            kept.push(argument);
        }
    }
    kept.join(" ")
}
