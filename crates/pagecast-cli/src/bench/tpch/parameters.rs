//! What TPC-H draws for each query, put in the place of its validation's parameters.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use pagecast_core::random::Random;
use tpchgen::distribution::{Distribution, Distributions};
use tpchgen::generators::NationGenerator;

/// Texts of a query, and what stands in their place.
pub(super) struct Drawn(Vec<(&'static str, String)>);

impl Drawn {
    /// What is drawn for query `number` over tables of scale factor `scale`.
    pub(super) fn of(number: usize, scale: f64, random: &mut Random) -> Self {
        let words = Distributions::static_default();
        let mut draw = Draw(random);
        Self(match number {
            1 => vec![("'90'", format!("'{}'", draw.number(60..=120)))],
            2 => vec![
                ("p_size = 15", format!("p_size = {}", draw.number(1..=50))),
                ("BRASS", draw.end_of_type()),
                ("EUROPE", draw.word(words.regions())),
            ],
            3 => vec![
                ("BUILDING", draw.word(words.market_segments())),
                ("1995-03-15", format!("1995-03-{:02}", draw.number(1..=31))),
            ],
            4 => vec![("1993-07-01", draw.month((1993, 1), (1997, 10)))],
            5 => vec![("ASIA", draw.word(words.regions())), ("1994-01-01", draw.year())],
            6 => {
                let discount = draw.number(2..=9);
                let range = format!("0.{:02} AND 0.{:02}", discount - 1, discount + 1);
                let quantity = format!("l_quantity < {}", draw.number(24..=25));
                vec![("1994-01-01", draw.year()), ("0.05 AND 0.07", range), ("l_quantity < 24", quantity)]
            }
            7 => {
                let [one, other] = draw.different(NATIONS.len());
                vec![("FRANCE", NATIONS[one].0.clone()), ("GERMANY", NATIONS[other].0.clone())]
            }
            8 => {
                let (nation, region) = &NATIONS[draw.index(NATIONS.len())];
                let kind = draw.word(words.part_types());
                vec![("BRAZIL", nation.clone()), ("AMERICA", region.clone()), ("ECONOMY ANODIZED STEEL", kind)]
            }
            9 => vec![("green", draw.word(words.part_colors()))],
            10 => vec![("1993-10-01", draw.month((1993, 2), (1995, 1)))],
            11 => vec![("GERMANY", draw.nation()), ("0.0001", format!("{:.10}", 0.0001 / scale))],
            12 => {
                let modes = words.ship_modes();
                let [one, other] = draw.different(modes.size()).map(|mode| modes.get_value(mode).to_owned());
                vec![("'MAIL'", format!("'{one}'")), ("'SHIP'", format!("'{other}'")), ("1994-01-01", draw.year())]
            }
            13 => vec![
                ("special", draw.of(&["special", "pending", "unusual", "express"])),
                ("requests", draw.of(&["packages", "requests", "accounts", "deposits"])),
            ],
            14 => vec![("1995-09-01", draw.month((1993, 1), (1997, 12)))],
            15 => vec![("1996-01-01", draw.month((1993, 1), (1997, 10)))],
            16 => {
                let kind = draw.word(words.part_types());
                let two_words = kind.rsplit_once(' ').map_or(kind.as_str(), |(most, _)| most).to_owned();
                let sizes = draw.different::<8>(50).map(|size| (size + 1).to_string()).join(", ");
                vec![
                    ("Brand#45", draw.brand()),
                    ("MEDIUM POLISHED", two_words),
                    ("49, 14, 23, 45, 19, 3, 36, 9", sizes),
                ]
            }
            17 => vec![("Brand#23", draw.brand()), ("MED BOX", draw.word(words.part_containers()))],
            18 => vec![("> 250", format!("> {}", draw.number(312..=315)))],
            19 => {
                let quantity = |least: i64| format!("l_quantity BETWEEN {least} AND {}", least + 10);
                vec![
                    ("Brand#12", draw.brand()),
                    ("Brand#23", draw.brand()),
                    ("Brand#34", draw.brand()),
                    ("l_quantity BETWEEN 1 AND 11", quantity(draw.number(1..=10))),
                    ("l_quantity BETWEEN 10 AND 20", quantity(draw.number(10..=20))),
                    ("l_quantity BETWEEN 20 AND 30", quantity(draw.number(20..=30))),
                ]
            }
            20 => {
                vec![("forest", draw.word(words.part_colors())), ("1994-01-01", draw.year()), ("CANADA", draw.nation())]
            }
            21 => vec![("SAUDI ARABIA", draw.nation())],
            22 => {
                // A country's code is its nation's number and ten.
                let codes = draw.different::<7>(NATIONS.len()).map(|nation| format!("'{}'", nation + 10)).join(", ");
                vec![("'13', '31', '23', '29', '30', '18', '17'", codes)]
            }
            _ => Vec::new(),
        })
    }

    /// `sql` with what was drawn. All places are found before one is filled, since a nation that is
    /// drawn may be another's text.
    pub(super) fn put_into(&self, sql: &str) -> String {
        let place = |number: usize| format!("\u{1}{number}\u{1}");
        let texts = self.0.iter().enumerate();
        let marked = texts.fold(sql.to_owned(), |sql, (number, (text, _))| sql.replace(text, &place(number)));
        let drawn = self.0.iter().enumerate();
        drawn.fold(marked, |sql, (number, (_, drawn))| sql.replace(&place(number), drawn))
    }
}

/// The nations and their regions, by number.
static NATIONS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let regions = Distributions::static_default().regions();
    let nation = |nation: tpchgen::generators::Nation<'_>| {
        (nation.n_name.to_owned(), regions.get_value(nation.n_regionkey as usize).to_owned())
    };
    NationGenerator::default().iter().map(nation).collect()
});

struct Draw<'a>(&'a mut Random);

impl Draw<'_> {
    fn index(&mut self, count: usize) -> usize {
        self.0.below(count as u32) as usize
    }

    fn number(&mut self, range: RangeInclusive<i64>) -> i64 {
        range.start() + i64::from(self.0.below((range.end() - range.start() + 1) as u32))
    }

    /// `N` numbers below `count`, none twice.
    fn different<const N: usize>(&mut self, count: usize) -> [usize; N] {
        let mut left: Vec<usize> = (0..count).collect();
        std::array::from_fn(|_| left.swap_remove(self.index(left.len())))
    }

    fn of(&mut self, words: &[&str]) -> String {
        words[self.index(words.len())].to_owned()
    }

    /// One of these, each as likely as another.
    fn word(&mut self, words: &Distribution) -> String {
        self.of(words.get_values())
    }

    fn nation(&mut self) -> String {
        NATIONS[self.index(NATIONS.len())].0.clone()
    }

    /// The metal that ends a part's type.
    fn end_of_type(&mut self) -> String {
        self.of(&["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"])
    }

    fn brand(&mut self) -> String {
        format!("Brand#{}{}", self.number(1..=5), self.number(1..=5))
    }

    /// The first day of a year from 1993 to 1997.
    fn year(&mut self) -> String {
        format!("{}-01-01", self.number(1993..=1997))
    }

    /// The first day of a month, from (year, month) to (year, month).
    fn month(&mut self, first: (i64, i64), last: (i64, i64)) -> String {
        let months = |(year, month): (i64, i64)| year * 12 + month - 1;
        let month = self.number(months(first)..=months(last));
        format!("{}-{:02}-01", month / 12, month % 12 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::QUERIES;
    use super::*;

    #[test]
    fn every_text_stands_in_its_query() {
        let mut random = Random::new(1);
        for (number, sql) in (1..).zip(QUERIES) {
            let drawn = Drawn::of(number, 1.0, &mut random);
            assert!(!drawn.0.is_empty(), "q{number} draws nothing");
            for (text, _) in &drawn.0 {
                assert!(sql.contains(text), "q{number}: {text}");
            }
            assert!(!drawn.put_into(sql).contains('\u{1}'), "q{number}");
        }
    }

    #[test]
    fn what_is_drawn_stays_where_it_is_put() {
        let drawn = Drawn(vec![("FRANCE", "GERMANY".into()), ("GERMANY", "FRANCE".into())]);
        assert_eq!(drawn.put_into("FRANCE GERMANY FRANCE"), "GERMANY FRANCE GERMANY");
    }

    #[test]
    fn ranges_keep_to_the_specification() {
        let mut random = Random::new(3);
        let mut draw = Draw(&mut random);
        for _ in 0..1000 {
            let month = draw.month((1993, 2), (1995, 1));
            assert!(("1993-02-01".."1995-01-02").contains(&month.as_str()), "{month}");
            let [one, other] = draw.different(2);
            assert_ne!(one, other);
        }
        let region = |name: &str| &NATIONS.iter().find(|nation| nation.0 == name).expect("a nation").1;
        assert_eq!((NATIONS.len(), region("BRAZIL").as_str(), region("CHINA").as_str()), (25, "AMERICA", "ASIA"));
    }
}
