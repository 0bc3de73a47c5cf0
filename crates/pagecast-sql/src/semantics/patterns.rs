//! Patterns of `to_char`, `to_date` and `to_timestamp`: PostgreSQL's words for parts of a moment.

/// A part of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// Text that stands for itself.
    Text(char),
    /// A space or a sign between fields, which in texts that are read may be another one.
    Separator(char),
    Field {
        field: Field,
        /// Without zeros before and blanks behind it (FM).
        bare: bool,
        /// An ordinal's ending behind it: th or TH.
        ending: Option<Letters>,
    },
}

/// How a word is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Letters {
    Upper,
    Lower,
    /// The first one large.
    Title,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// The last digits of a year, so many of them.
    Year(u8),
    YearWithComma,
    IsoYear(u8),
    Century,
    Quarter,
    Month,
    MonthName(Letters),
    MonthShort(Letters),
    Day,
    DayName(Letters),
    DayShort(Letters),
    DayOfYear,
    /// From Sunday, which is 1.
    DayOfWeek,
    IsoDay,
    WeekOfMonth,
    WeekOfYear,
    IsoWeek,
    Julian,
    Hour24,
    Hour12,
    Minute,
    Second,
    /// Digits of a second behind the point.
    Fraction(u8),
    SecondOfDay,
    /// AM or PM, with points or without.
    HalfDay {
        letters: Letters,
        points: bool,
    },
    /// The name of the time zone.
    Zone(Letters),
}

/// Words whose letters may be large or small, the longer first where one begins another.
const WORDS: &[(&str, Field)] = &[
    ("y,yyy", Field::YearWithComma),
    ("yyyy", Field::Year(4)),
    ("yyy", Field::Year(3)),
    ("yy", Field::Year(2)),
    ("y", Field::Year(1)),
    ("iyyy", Field::IsoYear(4)),
    ("iyy", Field::IsoYear(3)),
    ("iy", Field::IsoYear(2)),
    ("iw", Field::IsoWeek),
    ("id", Field::IsoDay),
    ("i", Field::IsoYear(1)),
    ("cc", Field::Century),
    ("ddd", Field::DayOfYear),
    ("dd", Field::Day),
    ("d", Field::DayOfWeek),
    ("q", Field::Quarter),
    ("mi", Field::Minute),
    ("mm", Field::Month),
    ("ms", Field::Fraction(3)),
    ("us", Field::Fraction(6)),
    ("ff1", Field::Fraction(1)),
    ("ff2", Field::Fraction(2)),
    ("ff3", Field::Fraction(3)),
    ("ff4", Field::Fraction(4)),
    ("ff5", Field::Fraction(5)),
    ("ff6", Field::Fraction(6)),
    ("hh24", Field::Hour24),
    ("hh12", Field::Hour12),
    ("hh", Field::Hour12),
    ("sssss", Field::SecondOfDay),
    ("ssss", Field::SecondOfDay),
    ("ss", Field::Second),
    ("ww", Field::WeekOfYear),
    ("w", Field::WeekOfMonth),
    ("j", Field::Julian),
];

/// A field whose letters are those of its word.
type Named = fn(Letters) -> Field;

/// Words that look as what they stand for: all large, all small, or the first letter large.
const NAMES: &[(&str, Named)] = &[
    ("month", Field::MonthName),
    ("mon", Field::MonthShort),
    ("day", Field::DayName),
    ("dy", Field::DayShort),
    ("tz", Field::Zone),
];

/// Words of PostgreSQL that mean something, and that nobody here knows.
const UNKNOWN: &[&str] = &["a.d.", "b.c.", "ad", "bc", "fx", "iddd", "of", "rm", "sp", "tm", "tzh", "tzm"];

/// The parts of a pattern, or the word that is not known.
pub(super) fn parse(pattern: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest, mut bare) = (Vec::new(), pattern, false);
    while let Some(first) = rest.chars().next() {
        if starts(rest, "fm") {
            (rest, bare) = (&rest[2..], true);
            continue;
        }
        if let Some(word) = UNKNOWN.iter().find(|word| starts(rest, word)) {
            return Err(word.to_uppercase());
        }
        if let Some((length, field)) = field(rest) {
            rest = &rest[length..];
            let ending = match rest.get(..2) {
                Some("TH") => Some(Letters::Upper),
                Some("th") => Some(Letters::Lower),
                _ => None,
            };
            if ending.is_some() {
                rest = &rest[2..];
            }
            pieces.push(Piece::Field { field, bare, ending });
            bare = false;
            continue;
        }
        rest = match first {
            '"' => quoted(&rest[1..], &mut pieces),
            '\\' if rest[1..].starts_with('"') => {
                pieces.push(Piece::Text('"'));
                &rest[2..]
            }
            other => {
                let separates = other.is_ascii() && !other.is_ascii_alphanumeric() && !other.is_ascii_control();
                pieces.push(if separates { Piece::Separator(other) } else { Piece::Text(other) });
                &rest[other.len_utf8()..]
            }
        };
    }
    Ok(pieces)
}

fn starts(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The field that a pattern begins with, and the bytes of its word.
fn field(text: &str) -> Option<(usize, Field)> {
    for (word, points) in [("a.m.", true), ("p.m.", true), ("am", false), ("pm", false)] {
        if starts(text, word) {
            let letters =
                if text.starts_with(|c: char| c.is_ascii_uppercase()) { Letters::Upper } else { Letters::Lower };
            return Some((word.len(), Field::HalfDay { letters, points }));
        }
    }
    for (word, field) in NAMES {
        if let Some(letters) = text.get(..word.len()).and_then(|start| letters_of(start, word)) {
            return Some((word.len(), field(letters)));
        }
    }
    WORDS.iter().find(|(word, _)| starts(text, word)).map(|(word, field)| (word.len(), *field))
}

fn letters_of(text: &str, word: &str) -> Option<Letters> {
    if text == word {
        Some(Letters::Lower)
    } else if text == word.to_uppercase() {
        Some(Letters::Upper)
    } else if text[1..] == word[1..] && text[..1] == word[..1].to_uppercase() {
        Some(Letters::Title)
    } else {
        None
    }
}

/// Takes text up to its closing quote; what is behind it.
fn quoted<'a>(text: &'a str, pieces: &mut Vec<Piece>) -> &'a str {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return &text[at + 1..],
            '\\' => pieces.extend(characters.next().map(|(_, escaped)| Piece::Text(escaped))),
            other => pieces.push(Piece::Text(other)),
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_parts() {
        let field = |field| Piece::Field { field, bare: false, ending: None };
        assert_eq!(
            parse("YYYY-mm\"th\""),
            Ok(vec![
                field(Field::Year(4)),
                Piece::Separator('-'),
                field(Field::Month),
                Piece::Text('t'),
                Piece::Text('h'),
            ])
        );
        let day = Piece::Field { field: Field::Day, bare: true, ending: Some(Letters::Lower) };
        assert_eq!(parse("FMDDth"), Ok(vec![day]));
        assert_eq!(parse("Mon"), Ok(vec![field(Field::MonthShort(Letters::Title))]));
        assert_eq!(
            parse("YYYY TZ"),
            Ok(vec![field(Field::Year(4)), Piece::Separator(' '), field(Field::Zone(Letters::Upper))])
        );
        assert_eq!(parse("YYYY TZH"), Err("TZH".to_owned()));
    }
}
