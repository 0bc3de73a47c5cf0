//! The line in which reads wait for a thread.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

use pagecast_core::Tick;

/// Jobs in the order in which they are due. Of those that are due at the same time the first comes
/// first.
pub(super) struct Line<J> {
    jobs: BTreeMap<(Tick, u64), J>,
    /// How many have come.
    came: u64,
}

impl<J> Line<J> {
    pub(super) fn new() -> Self {
        Self { jobs: BTreeMap::new(), came: 0 }
    }

    pub(super) fn push(&mut self, job: J, due: Tick) {
        self.came += 1;
        self.jobs.insert((due, self.came), job);
    }

    pub(super) fn pop(&mut self) -> Option<J> {
        self.jobs.pop_first().map(|(_, job)| job)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The next one, if it is `wanted`.
    pub(super) fn pop_if(&mut self, wanted: impl Fn(&J) -> bool) -> Option<J> {
        self.jobs.first_entry().filter(|first| wanted(first.get())).map(OccupiedEntry::remove)
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::Line;

    #[test]
    fn what_is_due_first_comes_first_and_then_what_came_first() {
        let mut line = Line::new();
        for (job, due) in [("late", 9), ("first", 3), ("second", 3), ("at once", 0)] {
            line.push(job, due);
        }
        assert_eq!(line.pop(), Some("at once"));
        assert_eq!(line.pop_if(|&job| job == "second"), None);
        assert_eq!(line.pop_if(|&job| job == "first"), Some("first"));
        assert_eq!((line.pop(), line.pop(), line.pop()), (Some("second"), Some("late"), None));
    }
}
