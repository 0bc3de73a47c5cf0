//! What BP-Wrapper costs in hits: nothing with one session, next to nothing with sixteen in a pool
//! of a hundred queues.
//!
//! On the real traces in `../shared/traces`; the table is printed by `cargo test --release -p
//! pagecast-sim --test sessions -- --nocapture`. A debug build takes the traces below 200,000
//! requests at one size, a release build all traces at four, the short ones first; that takes a
//! good quarter of an hour. Without the folder the test says that it is skipped.
#![allow(clippy::unwrap_used)]

use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Batching, HitNeed, Policy, PolicySpec, names};
use pagecast_sim::replay::{PageIds, accesses, replay, replay_in_sessions};

use std::fs;
use std::path::Path;

mod shared_traces;

const SESSIONS: u32 = 16;
/// The smallest pool in which sixteen sessions are held to the bound, in queues.
const JUDGED_FROM_QUEUES: u32 = 100;
/// In hundredths of the requests.
const BOUND: f64 = 0.1;

/// The names of all traces, those with the fewest requests first.
fn traces(folder: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let names = manifest.lines().skip(1).map(|line| line.split('\t').next().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort_by_key(|name| shared_traces::requests_of(folder, name));
    names
}

/// The policies whose hits go through queues.
fn ordered() -> impl Iterator<Item = PolicySpec> {
    let keeps_order = |spec: &PolicySpec| {
        !spec.needs_trace()
            && matches!(spec.build(8, 1).unwrap(), Policy::Sequential(policy) if policy.hit_need() == HitNeed::Order)
    };
    names().map(|name| PolicySpec::parse(name).unwrap()).filter(keeps_order)
}

#[test]
fn one_session_is_no_session_and_sixteen_are_near() {
    let Some(folder) = shared_traces::folder("one_session_is_no_session_and_sixteen_are_near") else { return };
    let (mut judged, mut broken) = (0, Vec::new());
    for trace in traces(&folder) {
        let requests = shared_traces::requests_of(&folder, &trace);
        if cfg!(debug_assertions) && requests > 200_000 {
            continue;
        }
        let (pages, unique) = shared_traces::pages(&folder, &trace);
        let ids = PageIds::Dense(unique);
        for percent in if cfg!(debug_assertions) { &[20][..] } else { &[5, 10, 20, 40] } {
            let frames = (unique * percent / 100).max(1);
            for spec in ordered() {
                let plain = replay(accesses(&pages), ids, &spec, frames, 42, &NoScans, |_| ()).unwrap();
                let sessions = |count| {
                    let how = (count, Batching::default());
                    replay_in_sessions(accesses(&pages), ids, &spec, frames, 42, how).unwrap()
                };
                assert_eq!(sessions(1), plain, "{trace}, {spec} with {frames} frames: one session");
                let many = sessions(SESSIONS);
                let lost = (many.misses as f64 - plain.misses as f64) * 100.0 / plain.requests as f64;
                let large = frames >= JUDGED_FROM_QUEUES * Batching::default().length();
                let line = format!(
                    "{trace:17} {frames:8} {:10} {:9} {:9} {lost:+7.3} {}",
                    spec.name(),
                    plain.misses,
                    many.misses,
                    if large { "judged" } else { "shown" }
                );
                println!("{line}");
                judged += u32::from(large);
                if large && lost.abs() > BOUND {
                    broken.push(line);
                }
            }
        }
    }
    assert!(judged > 0, "no pool was large enough to be judged");
    assert!(broken.is_empty(), "{} differ by more than {BOUND} points:\n{}", broken.len(), broken.join("\n"));
}
