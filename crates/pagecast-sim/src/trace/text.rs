//! Text: one page a line (ours and that of the LIRS authors), and runs of pages a line (that of the
//! ARC authors).

use super::error::{TraceError, excerpt};
use super::lines::{Lines, direction, number, page_id, words};
use super::{Action, Record, Source};
use pagecast_core::{PageId, RelationId};
use std::io::{BufRead, Write};

/// `PAGE [r|w] [RELATION [TUPLE]]` a line; blank lines, and lines that begin with `#`, say nothing.
/// Without a relation, PAGE is the page's 64-bit id, with or without a sign (traces whose ids are
/// hashes have both); with one, its block.
///
/// The LIRS authors' files are the same with lines of `*`, which mark where a trace ends and are
/// passed over.
pub(crate) struct Text<R> {
    lines: Lines<R>,
    stars: bool,
}

impl<R: BufRead> Text<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { lines: Lines::new(input), stars: false }
    }

    pub(crate) fn lirs(input: R) -> Self {
        Self { lines: Lines::new(input), stars: true }
    }
}

/// The line's page, or what is wrong with it.
fn parse(line: &[u8]) -> Result<Record, String> {
    // Most lines are one number: no splitting for those.
    if let Some(page) = page_id(line) {
        return Ok(Record::request(PageId::from_raw(page), false));
    }
    let mut words = words(line);
    let first = words.next().unwrap_or_default();
    let page = page_id(first).ok_or_else(|| {
        format!("`{}` is no page; a line is a whole number, then perhaps r or w, a relation, a tuple", excerpt(first))
    })?;
    let mut write = false;
    let mut next = words.next();
    if let Some(word) = next.filter(|word| number(word).is_none()) {
        write = direction(word).ok_or_else(|| format!("`{}` is neither r nor w", excerpt(word)))?;
        next = words.next();
    }
    let page = match next {
        None => PageId::from_raw(page),
        Some(relation) => in_relation(number(relation), page)
            .ok_or_else(|| format!("block {page} of relation `{}`: both must be below 2^32", excerpt(relation)))?,
    };
    let item = words.next().map(item).transpose()?;
    match words.next() {
        None => Ok(Record::of(page, item, write)),
        Some(word) => Err(format!("`{}` is one word too many", excerpt(word))),
    }
}

/// The item that `word` names.
pub(crate) fn item(word: &[u8]) -> Result<u32, String> {
    let item = number(word).and_then(|item| u32::try_from(item).ok()).filter(|&item| item < u32::MAX);
    item.ok_or_else(|| format!("the tuple `{}` is no whole number below 2^32 - 1", excerpt(word)))
}

/// Whether the lines that `beginning` has whole are two numbers each, of which the first only rises
/// and the second changes: what stands first may be a time, and what stands second the page.
pub(crate) fn may_be_timed(beginning: &[u8]) -> bool {
    let whole = &beginning[..beginning.iter().rposition(|&byte| byte == b'\n').unwrap_or(0)];
    let said = |line: &&[u8]| !line.is_empty() && line[0] != b'#';
    let mut pairs = whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(said).map(|line| {
        let mut words = words(line);
        let pair = (number(words.next()?)?, number(words.next()?)?);
        words.next().is_none().then_some(pair)
    });
    let Some(Some(first)) = pairs.next() else { return false };
    let (mut last, mut rises, mut changes) = (first, false, false);
    for pair in pairs {
        let Some(pair) = pair.filter(|pair| pair.0 >= last.0) else { return false };
        (rises, changes) = (rises || pair.0 > last.0, changes || pair.1 != last.1);
        last = pair;
    }
    rises && changes
}

/// Block `block` of relation `relation`, if both fit.
pub(crate) fn in_relation(relation: Option<u64>, block: u64) -> Option<PageId> {
    Some(PageId::new(RelationId(relation?.try_into().ok()?), block.try_into().ok()?))
}

impl<R: BufRead> Source for Text<R> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let stars = self.stars;
            match self.lines.next()? {
                None => return Ok(None),
                Some([] | [b'#', ..]) => {}
                Some(b"*") if stars => {}
                Some(line) => {
                    return parse(line).map(Some).map_err(|cause| self.lines.fault(cause));
                }
            }
        }
    }
}

/// A line of an ARC trace asks for no more pages than this; 2^24 pages of 512 bytes are 8 GiB.
const MAX_RUN: u64 = 1 << 24;

/// ARC's `.lis`: `START COUNT IGNORED REQUEST` a line asks for COUNT pages from START on (Megiddo
/// and Modha, FAST 2003).
pub(crate) struct Lis<R> {
    lines: Lines<R>,
    next: u64,
    end: u64,
}

impl<R: BufRead> Lis<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { lines: Lines::new(input), next: 0, end: 0 }
    }

    /// The pages of `line`, from and to.
    fn parse(line: &[u8]) -> Result<(u64, u64), String> {
        let mut words = words(line);
        let mut field = |name: &str| {
            let word = words.next().ok_or_else(|| format!("the {name} is missing; a line is START COUNT 0 REQUEST"))?;
            number(word).ok_or_else(|| format!("the {name} `{}` is no whole number", excerpt(word)))
        };
        let (start, count) = (field("start")?, field("count")?);
        field("third number")?;
        field("request number")?;
        if count > MAX_RUN {
            return Err(format!("a request for {count} pages; at most {MAX_RUN} are believed"));
        }
        let end = start.checked_add(count).ok_or("the pages go beyond 2^64")?;
        Ok((start, end))
    }
}

impl<R: BufRead> Source for Lis<R> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        while self.next == self.end {
            match self.lines.next()? {
                None => return Ok(None),
                Some([]) => {}
                Some(line) => match Self::parse(line) {
                    Ok(run) => (self.next, self.end) = run,
                    Err(cause) => return Err(self.lines.fault(cause)),
                },
            }
        }
        let page = PageId::from_raw(self.next);
        self.next += 1;
        Ok(Some(Record::request(page, false)))
    }
}

/// Writes the requests of `source` as text; scans are not part of that format and are left out.
/// Returns how many.
///
/// # Errors
///
/// Those of `source`, and those of writing as an error of [`super::Place::Whole`].
pub fn write_text(source: &mut dyn Source, out: &mut dyn Write) -> Result<u64, TraceError> {
    let mut requests = 0;
    while let Some(record) = source.next()? {
        let written = match record.action {
            Action::Request { page, write, .. } => writeln!(out, "{}{}", page.raw(), if write { " w" } else { "" }),
            Action::Tuple { page, item, write } => {
                let (block, relation) = (page.block(), page.relation().0);
                writeln!(out, "{block} {} {relation} {item}", if write { "w" } else { "r" })
            }
            _ => continue,
        };
        written.map_err(|error| TraceError::io(super::Place::Whole, &error))?;
        requests += 1;
    }
    Ok(requests)
}
