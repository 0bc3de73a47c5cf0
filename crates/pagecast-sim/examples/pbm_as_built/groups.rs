//! What the authors' server knows of scans: by block group, who will come to it, and the frames
//! that hold pages of it.

use pagecast_core::policy::Access;
use pagecast_core::{FrameId, PageId, ScanId, Tick};
use std::collections::HashMap;

/// What can be built as the authors did or otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Built {
    /// Pages of a block group.
    pub(crate) group: u32,
    /// By how much the way from a scan's first block to a group is multiplied. Their code keeps the
    /// way in blocks and turns it from groups into blocks once more when it estimates.
    pub(crate) way_times: u32,
    /// Whether pages wanted after the end of the timeline count as wanted by nobody.
    pub(crate) far_is_unwanted: bool,
    /// Whether what the nearest queue holds when its time has passed is estimated anew.
    pub(crate) estimates_passed: bool,
    /// Whether all pages of a queue become victims together, whatever happens to them until they
    /// leave; else one page at a time leaves the furthest queue.
    pub(crate) whole_queue: bool,
    /// Ticks for which sampling keeps a group's estimate.
    pub(crate) estimate_age: Tick,
}

/// A scan on its way.
struct Scan {
    start: u32,
    /// The group that it is in, and the blocks in front of it that it has reported.
    group: u32,
    scanned: u32,
    reported: Tick,
    /// Blocks a tick, over the last group alone.
    speed: f64,
}

#[derive(Default)]
struct Group {
    /// Scans that will come or are there, with the blocks from their first one to here.
    scans: Vec<(ScanId, u32)>,
    /// Those that hold pages of it; the last came in last.
    frames: Vec<u32>,
    /// Sampling's estimate: a moment, and until when it counts.
    known: Option<(Tick, Tick)>,
}

/// The scans, all over blocks of one table and of equal length.
pub(crate) struct Groups {
    built: Built,
    length: u32,
    running: HashMap<ScanId, Scan>,
    /// The last request, which a policy may be told of twice.
    last: Option<(ScanId, PageId)>,
    groups: Vec<Group>,
    /// What a new scan's speed is taken for.
    first_speed: f64,
}

impl Groups {
    pub(crate) fn new(built: Built, pages: u32, length: u32) -> Self {
        let groups = (0..pages.div_ceil(built.group)).map(|_| Group::default()).collect();
        Self { built, length, running: HashMap::new(), last: None, groups, first_speed: 1e-4 }
    }

    pub(crate) fn of(&self, page: PageId) -> u32 {
        page.block() / self.built.group
    }

    /// A scan asks for a page. The groups whose scans have changed by that.
    pub(crate) fn comes(&mut self, access: &Access) -> Vec<u32> {
        let Some(id) = access.scan else { return Vec::new() };
        if self.last.replace((id, access.page)) == Some((id, access.page)) {
            return Vec::new();
        }
        let (block, group) = (access.page.block(), self.of(access.page));
        if !self.running.contains_key(&id) {
            return self.begins(id, block, access.at);
        }
        let last = self.length - 1;
        let Some(scan) = self.running.get_mut(&id) else { return Vec::new() };
        let (before, at_end) = (scan.group, block - scan.start == last);
        if group != before && access.at > scan.reported {
            let blocks = block - scan.start - scan.scanned;
            scan.speed = f64::from(blocks) / (access.at - scan.reported) as f64;
            (scan.scanned, scan.reported) = (scan.scanned + blocks, access.at);
        }
        scan.group = group;
        if at_end {
            self.first_speed = self.first_speed * 0.85 + scan.speed * 0.15;
            self.running.remove(&id);
        }
        let passed: Vec<u32> = (before..group + u32::from(at_end)).collect();
        for &group in &passed {
            self.groups[group as usize].scans.retain(|(scan, _)| *scan != id);
        }
        passed
    }

    fn begins(&mut self, id: ScanId, start: u32, at: Tick) -> Vec<u32> {
        let size = self.built.group;
        let (first, last) = (start / size, (start + self.length - 1) / size);
        let scan = Scan { start, group: first, scanned: 0, reported: at, speed: self.first_speed };
        self.running.insert(id, scan);
        for number in first..=last {
            let group = &mut self.groups[number as usize];
            group.scans.push((id, (number * size).saturating_sub(start)));
            group.known = None;
        }
        (first..=last).collect()
    }

    pub(crate) fn admits(&mut self, frame: FrameId, page: PageId) {
        let group = self.of(page);
        self.groups[group as usize].frames.push(frame.0);
    }

    /// Whether no page of its group is left.
    pub(crate) fn leaves(&mut self, frame: FrameId, page: PageId) -> bool {
        let group = self.of(page);
        let frames = &mut self.groups[group as usize].frames;
        frames.retain(|&other| other != frame.0);
        frames.is_empty()
    }

    /// The frames that hold pages of a group; the last came in last.
    pub(crate) fn frames(&self, group: u32) -> &[u32] {
        &self.groups[group as usize].frames
    }

    /// Ticks until a scan comes to the group.
    pub(crate) fn estimate(&self, group: u32) -> Option<Tick> {
        let scans = &self.groups[group as usize].scans;
        let ticks = scans.iter().filter_map(|(id, way)| {
            let scan = self.running.get(id)?;
            let left = (u64::from(*way) * u64::from(self.built.way_times)).saturating_sub(scan.scanned.into());
            Some((left as f64 / scan.speed) as Tick)
        });
        ticks.min()
    }

    /// The same, as it was found out some time ago.
    pub(crate) fn kept_estimate(&mut self, group: u32, now: Tick) -> Option<Tick> {
        let known = self.groups[group as usize].known.filter(|(_, until)| now <= *until);
        let (moment, _) = match known {
            Some(known) => known,
            None => (now + self.estimate(group)?, now + self.built.estimate_age),
        };
        self.groups[group as usize].known = known.or(Some((moment, now + self.built.estimate_age)));
        Some(moment.saturating_sub(now))
    }
}
