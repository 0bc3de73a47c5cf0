//! Damage of every file that is read before the data: rows or an error, and no panic, no hang.

use std::time::Duration;

use super::data::{Fixture, open, run};

/// Numbers as a simple generator has them.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// The bytes after one of several kinds of damage.
fn damaged(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match numbers.below(6) {
        0 => bytes.truncate(numbers.below(bytes.len())),
        1 => {
            let (from, to) = (numbers.below(bytes.len()), numbers.below(bytes.len()));
            bytes.drain(from.min(to)..from.max(to));
        }
        // What is left is often decoded, and means something else.
        2..=4 => {
            let at = numbers.below(bytes.len());
            bytes[at] ^= 1 << numbers.below(8);
        }
        _ => {
            for _ in 0..=numbers.below(4) {
                let at = numbers.below(bytes.len());
                bytes[at] = numbers.below(256) as u8;
            }
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_gives_rows_or_an_error() {
    let rounds = std::env::var("PAGECAST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(60);
    let seed = std::env::var("PAGECAST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("PAGECAST_SEED={seed} PAGECAST_ROUNDS={rounds}");
    let mut numbers = Numbers(seed);
    let (mut read, mut refused) = (0, 0);
    for version in 1..=3 {
        let table = Fixture::new(version).await;
        let is_data = |name: &str| matches!(name, "a.parquet" | "b.parquet");
        for file in table.files().into_iter().filter(|file| !is_data(file.file_name().unwrap().to_str().unwrap())) {
            let whole = std::fs::read(&file).unwrap();
            let before = read;
            for round in 0..rounds {
                std::fs::write(&file, damaged(&whole, &mut numbers)).unwrap();
                let root = table.root.clone();
                // A task of its own, so that a panic is seen.
                let asked =
                    tokio::spawn(async move { run(&open(&root).await?, "SELECT count(id), max(word) FROM t").await });
                let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
                let at = format!("version {version}, {}, round {round}", file.display());
                match asked.unwrap_or_else(|_| panic!("{at} hangs")).unwrap_or_else(|panic| panic!("{at}: {panic}")) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
            }
            std::fs::write(&file, whole).unwrap();
            println!("version {version}, {}: {} of {rounds} read", file.display(), read - before);
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > 0 && refused > read);
}
