//! What a policy says that it takes is what it takes: every allocation of a filled and churned
//! policy is counted.
#![allow(clippy::unwrap_used)]

mod counting_unsafe;
#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;

use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Access, Policy};
use pagecast_core::{FrameId, PageId};
use policy_pool::{Slots, admit, evict, hit, specs};

/// Fills all frames and replaces all pages five times over, some written, some hit on the way.
fn churn(policy: &mut Policy, pool: &Slots, frames: u32) {
    for at in 0..u64::from(frames) * 6 {
        let access = Access { page: PageId::from_raw(at * 7919), scan: None, write: at % 3 == 0, at };
        let frame = if at < u64::from(frames) {
            FrameId(at as u32)
        } else {
            evict(policy, pool, &access, &NoScans).unwrap().frame()
        };
        pool.fill(frame, access.page);
        admit(policy, pool, frame, &access);
        if at % 5 == 0 {
            hit(policy, pool, frame, &access);
        }
    }
}

#[test]
fn no_policy_takes_more_than_it_says() {
    println!("{:12} {:>9} {:>14} {:>14}", "policy", "frames", "bytes/frame", "said");
    for spec in specs() {
        for frames in [1, 5_000, 18_700] {
            let pool = Slots::new(frames);
            let before = counting_unsafe::allocated();
            let mut policy = spec.build(frames, 1).unwrap();
            churn(&mut policy, &pool, frames);
            let taken = counting_unsafe::allocated() - before;
            let apart = u64::from(spec.bytes_apart(frames));
            let said = u64::from(spec.bytes_per_frame()) * u64::from(frames) + apart;
            println!(
                "{:12} {frames:9} {:14.1} {:14}",
                spec.name(),
                taken as f64 / f64::from(frames),
                spec.bytes_per_frame()
            );
            assert!(taken <= said, "{spec} takes {taken} bytes for {frames} frames and says {said}");
            // Nor does it say so much more that a pool would lose many frames to it.
            let slack = 2 * apart + u64::from(frames) / 2;
            assert!(said <= 3 * taken + slack, "{spec} takes {taken} bytes for {frames} frames and says {said}");
        }
    }
}
