//! What a policy says that it takes is what it takes: every allocation of a filled and churned policy is counted.
#![allow(clippy::unwrap_used)]

mod counting_unsafe;
#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;

use pagecast_core::PageId;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{Access, Policy};
use policy_pool::specs;

const APART_FROM_FRAMES: u64 = 4 << 10;

/// Fills `frames` frames and replaces all pages five times over, some written, some hit on the way.
fn churn(policy: &mut Policy, frames: u32) {
    let Policy::Sequential(policy) = policy else { return };
    for at in 0..u64::from(frames) * 6 {
        let access = Access { page: PageId::from_raw(at * 7919), scan: None, write: at % 3 == 0, at };
        let frame = if at < u64::from(frames) {
            pagecast_core::FrameId(at as u32)
        } else {
            policy.evict(&access, &NoScans, &mut |_, _| pagecast_core::policy::Claim::Taken).unwrap()
        };
        policy.admit(frame, &access);
        if at % 5 == 0 {
            policy.hit(frame, &access);
        }
    }
}

#[test]
fn no_policy_takes_more_than_it_says() {
    println!("{:12} {:>9} {:>14} {:>14}", "policy", "frames", "bytes/frame", "said");
    for spec in specs() {
        for frames in [1, 5_000, 18_700] {
            let before = counting_unsafe::allocated();
            let mut policy = spec.build(frames, 1).unwrap();
            churn(&mut policy, frames);
            let taken = counting_unsafe::allocated() - before;
            let said = u64::from(spec.bytes_per_frame()) * u64::from(frames) + APART_FROM_FRAMES;
            println!(
                "{:12} {frames:9} {:14.1} {:14}",
                spec.name(),
                taken as f64 / f64::from(frames),
                spec.bytes_per_frame()
            );
            assert!(taken <= said, "{spec} takes {taken} bytes for {frames} frames and says {said}");
            // Nor does it say so much more that a pool would lose many frames to it.
            let slack = 2 * APART_FROM_FRAMES + u64::from(frames) / 2;
            assert!(said <= 3 * taken + slack, "{spec} takes {taken} bytes for {frames} frames and says {said}");
        }
    }
}
