//! One HTML page with charts and tables, complete in itself: it opens offline, and nothing in it
//! leaves the machine.
//!
//! A chart is an option object of [Apache ECharts](https://echarts.apache.org/en/option.html) as
//! JSON. JSON has no functions, so where ECharts wants a `formatter` the strings `"=bytes"`,
//! `"=count"`, `"=seconds"` and `"=percent"` (of a share from 0 to 1) name one, and `"=B"`,
//! `"=KiB"`, `"=MiB"`, `"=GiB"` and `"=TiB"` bytes in that unit, for an axis. ECharts' own `media`
//! key adapts a chart to narrow screens.

pub mod text;

use std::fmt::{self, Write};

use serde_json::Value;

const ECHARTS: &str = include_str!("../../assets/echarts/echarts.min.js");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A report in the making; [`fmt::Display`] renders it.
///
/// ```
/// use pagecast_sim::report::{Page, Table};
/// let mut page = Page::new("Misses <by> policy", "One trace, two policies.");
/// page.fact("seed", "1");
/// page.table("All figures", Table::new(&["policy", "misses"], 1).row(["lru", "17"]));
/// let html = page.to_string();
/// assert!(html.contains("Misses &lt;by&gt; policy"));
/// ```
#[derive(Debug)]
pub struct Page {
    title: String,
    lead: String,
    facts: Vec<(String, String)>,
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    title: String,
    note: String,
    body: Body,
    words: Vec<(String, String)>,
}

#[derive(Debug)]
enum Body {
    Chart { height: u32, option: Value },
    Table(Table),
}

/// A table of a [`Page`].
#[derive(Debug)]
pub struct Table {
    heads: Vec<String>,
    text_columns: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads; the first `text_columns` are text, the others figures.
    pub fn new(heads: &[&str], text_columns: usize) -> Self {
        Self { heads: heads.iter().map(|&head| head.to_owned()).collect(), text_columns, rows: Vec::new() }
    }

    /// The same table with one more row.
    #[must_use]
    pub fn row<C: Into<String>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}

impl Page {
    /// A page with a heading and one or two sentences under it.
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { title: title.into(), lead: lead.into(), facts: Vec::new(), sections: Vec::new() }
    }

    /// Adds something that the reader must know about all figures: the machine, the seed, the
    /// storage.
    pub fn fact(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.facts.push((name.into(), value.into()));
    }

    /// Adds a chart `height` pixels high; `note` says how to read it.
    pub fn chart(&mut self, title: impl Into<String>, note: impl Into<String>, height: u32, option: Value) {
        self.section(title.into(), note.into(), Body::Chart { height, option });
    }

    /// Adds a table.
    pub fn table(&mut self, title: impl Into<String>, table: Table) {
        self.section(title.into(), String::new(), Body::Table(table));
    }

    fn section(&mut self, title: String, note: String, body: Body) {
        self.sections.push(Section { title, note, body, words: Vec::new() });
    }

    /// Explains a word under the chart or table that was added last.
    pub fn explain(&mut self, word: impl Into<String>, meaning: impl Into<String>) {
        if let Some(section) = self.sections.last_mut() {
            section.words.push((word.into(), meaning.into()));
        }
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = Text(&self.title);
        writeln!(f, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
        writeln!(f, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
        writeln!(f, "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>")?;
        writeln!(f, "<h1>{title}</h1>\n<p class=\"lead\">{}</p>\n<dl>", Text(&self.lead))?;
        for (name, value) in &self.facts {
            writeln!(f, "<div><dt>{}</dt><dd>{}</dd></div>", Text(name), Text(value))?;
        }
        writeln!(f, "</dl>")?;
        for (number, section) in self.sections.iter().enumerate() {
            section.write(number, f)?;
        }
        writeln!(f, "<footer>pagecast {}</footer>\n</main>", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "<script>{ECHARTS}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>")
    }
}

impl Section {
    fn write(&self, number: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "<section>\n<h2>{}</h2>", Text(&self.title))?;
        if !self.note.is_empty() {
            writeln!(f, "<p>{}</p>", Text(&self.note))?;
        }
        match &self.body {
            Body::Chart { height, option } => {
                writeln!(f, "<div class=\"chart\" style=\"height:{height}px\" data-option=\"option-{number}\"></div>")?;
                let option = script_safe(option);
                writeln!(f, "<script type=\"application/json\" id=\"option-{number}\">{option}</script>")?;
            }
            Body::Table(table) => {
                writeln!(f, "<div class=\"wide\">\n<table>")?;
                table.write(f)?;
                writeln!(f, "</table>\n</div>")?;
            }
        }
        if !self.words.is_empty() {
            writeln!(f, "<dl class=\"words\">")?;
            for (word, meaning) in &self.words {
                writeln!(f, "<div><dt>{}</dt><dd>{}</dd></div>", Text(word), Text(meaning))?;
            }
            writeln!(f, "</dl>")?;
        }
        writeln!(f, "</section>")
    }
}

impl Table {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |tag: &str, cells: &[String]| -> fmt::Result {
            f.write_str("<tr>")?;
            for (column, cell) in cells.iter().enumerate() {
                let class = if column < self.text_columns { " class=\"text\"" } else { "" };
                write!(f, "<{tag}{class}>{}</{tag}>", Text(cell))?;
            }
            f.write_str("</tr>\n")
        };
        line("th", &self.heads)?;
        self.rows.iter().try_for_each(|row| line("td", row))
    }
}

/// `option` as JSON that cannot end the script element it stands in: `<` only occurs inside JSON's
/// strings, where its escape means the same.
fn script_safe(option: &Value) -> String {
    option.to_string().replace('<', "\\u003c")
}

/// Shows text as HTML text.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hostile_names_stay_text() {
        let mut page = Page::new("</title><script>alert(1)</script>", "");
        page.chart("x", "", 100, json!({"title": {"text": "</script><script>alert(2)</script>"}}));
        let html = page.to_string();
        assert!(!html.contains("<script>alert"));
        let start = html.find("id=\"option-0\">").map(|at| at + 14).unwrap_or(0);
        let end = html[start..].find("</script>").unwrap_or(0);
        let back: Value = serde_json::from_str(&html[start..start + end]).unwrap_or_default();
        assert_eq!(back["title"]["text"], "</script><script>alert(2)</script>");
    }

    #[test]
    fn nothing_is_fetched() {
        let html = Page::new("t", "l").to_string();
        for fetching in ["<script src", "<link", "@import", "<img", "url("] {
            assert!(!html.replace(ECHARTS, "").contains(fetching), "{fetching}");
        }
    }
}
