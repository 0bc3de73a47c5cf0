//! What more than one of the benchmarks measures with.

pub mod eviction;

/// What the program was told, without the file that it writes: `--only cells --seed 2`. A result
/// says by it how to get it again.
pub fn arguments() -> String {
    without_file(std::env::args().skip(1))
}

fn without_file(mut given: impl Iterator<Item = String>) -> String {
    let mut kept = Vec::new();
    while let Some(argument) = given.next() {
        if argument == "--json" {
            given.next();
        } else {
            kept.push(argument);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_is_left_out_and_the_rest_stays_in_order() {
        let given = ["--only", "cells", "--json", "target/bench/x.json", "--seed", "2"];
        assert_eq!(super::without_file(given.map(str::to_owned).into_iter()), "--only cells --seed 2");
    }
}
