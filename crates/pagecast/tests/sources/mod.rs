//! Sources as the tests of names and layers read them, with no more grammar than they need.
#![allow(dead_code)] // Each of those who share it uses a part.

pub(crate) mod uses;

/// The lines of a file, without the items that are there for tests only.
pub(crate) fn without_tests(text: &str) -> Vec<&str> {
    let (mut kept, mut is_test) = (Vec::new(), false);
    for line in text.lines() {
        is_test |= line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        if !is_test {
            kept.push(line);
        }
        // Such an item ends with a line that is not indented.
        is_test &= line.starts_with(['#', ' ', '/']) || !line.ends_with([';', '}']);
    }
    kept
}
