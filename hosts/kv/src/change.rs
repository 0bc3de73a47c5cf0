//! What can happen to a page. The store changes its pages by these and by nothing else, writes
//! them to its log, and does them again after a crash.

use crate::page::{Kind, Node, NodeMut};

/// A change of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change<'a> {
    /// The page is empty now.
    Format { kind: Kind, level: u8, next: u32 },
    /// The page has this head and this tail, and zeros between them.
    Image { head: &'a [u8], tail: &'a [u8] },
    /// An entry is added before entry `at`.
    Insert { at: u16, key: &'a [u8], value: &'a [u8] },
    /// The entry of this key has another value of the same length. By its key, since who changes an
    /// entry without its page does not know where in the page it is.
    Overwrite { key: &'a [u8], value: &'a [u8] },
    /// Entry `at` goes.
    Remove { at: u16 },
    /// The first `count` entries stay.
    Truncate { count: u16 },
}

impl<'a> Change<'a> {
    /// All that a page holds now.
    pub(crate) fn image(node: Node<'a>) -> Option<Self> {
        let (head, tail) = node.ends()?;
        Some(Self::Image { head, tail })
    }

    /// Does it. False: the page is not one to which this can be done.
    pub(crate) fn apply(&self, bytes: &mut [u8]) -> bool {
        let mut node = NodeMut { bytes };
        match *self {
            Self::Format { kind, level, next } => {
                node.format(kind, level, next);
                true
            }
            Self::Image { head, tail } => {
                let free = node.bytes.len().checked_sub(head.len() + tail.len());
                if let Some(free) = free {
                    node.bytes[..head.len()].copy_from_slice(head);
                    node.bytes[head.len()..head.len() + free].fill(0);
                    node.bytes[head.len() + free..].copy_from_slice(tail);
                }
                free.is_some()
            }
            Self::Insert { at, key, value } => node.insert(at.into(), key, value),
            Self::Overwrite { key, value } => node.overwrite(key, value),
            Self::Remove { at } => node.remove(at.into()),
            Self::Truncate { count } => node.truncate(count.into()),
        }
    }

    /// Adds its bytes, as the log holds them.
    pub(crate) fn encode(&self, log: &mut Vec<u8>) {
        let short = |log: &mut Vec<u8>, number: u16| log.extend(number.to_le_bytes());
        let part = |log: &mut Vec<u8>, bytes: &[u8]| {
            short(log, bytes.len() as u16);
            log.extend(bytes);
        };
        match *self {
            Self::Format { kind, level, next } => {
                log.extend([1, kind as u8, level]);
                log.extend(next.to_le_bytes());
            }
            Self::Image { head, tail } => {
                log.push(2);
                part(log, head);
                part(log, tail);
            }
            Self::Insert { at, key, value } => {
                log.push(3);
                short(log, at);
                part(log, key);
                part(log, value);
            }
            Self::Overwrite { key, value } => {
                log.push(4);
                part(log, key);
                part(log, value);
            }
            Self::Remove { at } => {
                log.push(5);
                short(log, at);
            }
            Self::Truncate { count } => {
                log.push(6);
                short(log, count);
            }
        }
    }

    /// The next change of the log; `None` if this is none.
    fn decode(log: &mut Reader<'a>) -> Option<Self> {
        Some(match log.byte()? {
            1 => {
                let kinds = [Kind::Unused, Kind::Leaf, Kind::Inner, Kind::Free, Kind::Meta];
                let kind = *kinds.get(usize::from(log.byte()?))?;
                Self::Format { kind, level: log.byte()?, next: log.long()? }
            }
            2 => Self::Image { head: log.part()?, tail: log.part()? },
            3 => Self::Insert { at: log.short()?, key: log.part()?, value: log.part()? },
            4 => Self::Overwrite { key: log.part()?, value: log.part()? },
            5 => Self::Remove { at: log.short()? },
            6 => Self::Truncate { count: log.short()? },
            _ => return None,
        })
    }
}

/// Bytes of the log, from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        self.bytes(length.into())
    }
}

/// The changes that one batch makes of one page, as the log holds them.
pub(crate) struct PageChanges<'a> {
    pub(crate) block: u32,
    log: Reader<'a>,
}

impl PageChanges<'_> {
    /// Does all of them.
    pub(crate) fn apply(mut self, page: &mut [u8]) -> bool {
        while !self.log.0.is_empty() {
            if !Change::decode(&mut self.log).is_some_and(|change| change.apply(page)) {
                return false;
            }
        }
        true
    }
}

/// Adds the changes of one page to a record of the log.
pub(crate) fn encode_page(block: u32, changes: &[u8], record: &mut Vec<u8>) {
    record.extend(block.to_le_bytes());
    record.extend((changes.len() as u32).to_le_bytes());
    record.extend(changes);
}

/// The pages that a record changes; `None` if it ends in the middle of one.
pub(crate) fn pages_of(record: &[u8]) -> Option<Vec<PageChanges<'_>>> {
    let (mut log, mut pages) = (Reader(record), Vec::new());
    while !log.0.is_empty() {
        let (block, length) = (log.long()?, log.long()?);
        pages.push(PageChanges { block, log: Reader(log.bytes(length as usize)?) });
    }
    Some(pages)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_read_back_does_the_same() {
        let changes = [
            Change::Format { kind: Kind::Leaf, level: 0, next: 7 },
            Change::Insert { at: 0, key: b"one", value: b"1" },
            Change::Insert { at: 1, key: b"two", value: b"2" },
            Change::Insert { at: 1, key: b"three", value: b"33" },
            Change::Overwrite { key: b"three", value: b"44" },
            Change::Remove { at: 0 },
            Change::Truncate { count: 1 },
        ];
        let (mut direct, mut log, mut record) = (vec![9; 500], Vec::new(), Vec::new());
        for change in changes {
            assert!(change.apply(&mut direct));
            change.encode(&mut log);
        }
        encode_page(3, &log, &mut record);
        let mut redone = vec![5; 500];
        let page = pages_of(&record).unwrap().pop().unwrap();
        assert_eq!(page.block, 3);
        assert!(page.apply(&mut redone));
        assert!(direct == redone && Node { bytes: &direct }.entry(0) == Some((b"three", b"44")));

        let mut copy = vec![8; 500];
        assert!(Change::image(Node { bytes: &direct }).unwrap().apply(&mut copy));
        assert_eq!(Node { bytes: &copy }.entry(0), Some((&b"three"[..], &b"44"[..])));
    }

    proptest! {
        #[test]
        fn nonsense_is_no_record(record in prop::collection::vec(any::<u8>(), 0..200), mut page in prop::collection::vec(any::<u8>(), 64..300)) {
            for changes in pages_of(&record).into_iter().flatten() {
                changes.apply(&mut page);
            }
            let mut framed = Vec::new();
            encode_page(0, &record, &mut framed);
            pages_of(&framed).unwrap().pop().unwrap().apply(&mut page);
        }
    }
}
