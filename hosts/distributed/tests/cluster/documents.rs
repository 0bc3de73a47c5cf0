//! The code of the user's guide is that of an example, which runs.

use std::fs;
use std::path::Path;

#[test]
fn the_guide_shows_what_the_example_does() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = fs::read_to_string(here.join("examples/cluster.rs")).unwrap();
    let has: Vec<&str> = example.lines().map(str::trim).collect();
    let guide = fs::read_to_string(here.join("../../docs/distributed.md")).unwrap();
    let blocks: Vec<&str> = guide.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let lines: Vec<&str> = block.lines().map(str::trim).collect();
        assert!(has.windows(lines.len()).any(|part| part == lines), "not in examples/cluster.rs:\n{block}");
    }
}
