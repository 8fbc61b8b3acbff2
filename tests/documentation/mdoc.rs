//! What stands in a manual page.
//!
//! The pages keep to four forms: a flag is `Fl`, a verb `.It Ic`, a policy key `.It Cm`, a result key `.It Va`.

use std::fs;

use crate::{Names, repository};

/// The source of one page.
pub struct Page {
    text: String,
}

impl Page {
    /// A page of `man/`.
    pub fn read(name: &str) -> Page {
        let text =
            fs::read_to_string(repository().join("man").join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        Page { text }
    }

    /// The lines below `.Sh TITLE`, up to the next.
    pub fn section(&self, title: &str) -> String {
        let head = format!(".Sh {title}");
        assert!(self.text.lines().any(|l| l == head), "no section {title}");
        let lines = self.text.lines().skip_while(|l| *l != head).skip(1);
        lines.take_while(|l| !l.starts_with(".Sh ")).collect::<Vec<_>>().join("\n")
    }

    /// Every flag, with its dashes.
    pub fn flags(&self) -> Names {
        let mut found = Names::new();
        for line in self.text.lines().filter(|l| l.starts_with('.')) {
            let words: Vec<&str> = line.trim_start_matches('.').split_whitespace().collect();
            for pair in words.windows(2).filter(|p| p[0] == "Fl" && p[1] != "-") {
                found.insert(format!("-{}", pair[1]));
            }
        }
        found
    }

    /// Every verb.
    pub fn verbs(&self) -> Names {
        let items = self.text.lines().filter_map(|l| l.strip_prefix(".It Ic "));
        let words =
            items.map(|l| l.split_whitespace().take_while(|w| !is_macro(w)).collect::<Vec<_>>().join(" "));
        words.filter(|v| v != "help").collect()
    }

    /// Every policy key, of one section or of all; a table's own section says what the table's key is.
    pub fn keys(&self, section: Option<&str>) -> Names {
        match section {
            Some(title) => items(&self.section(title), "Cm"),
            None => items(&self.text, "Cm").into_iter().chain(self.tables()).collect(),
        }
    }

    /// The tables that have a section, as in `.Sh [limits]` and `.Sh [tools.NAME]`.
    fn tables(&self) -> impl Iterator<Item = String> {
        let heads = self.text.lines().filter_map(|l| l.strip_prefix(".Sh ["));
        heads.filter_map(|l| l.trim_matches(['[', ']']).split('.').next()).map(str::to_owned)
    }

    /// The keys of the list in a section, those of nested lists too.
    pub fn variables(&self, section: &str) -> Names {
        items(&self.section(section), "Va")
    }

    /// The example policies: displays that start with a version or a table.
    pub fn policies(&self) -> Vec<String> {
        let displays = self.text.split("\n.Bd ").skip(1).filter_map(|d| d.split("\n.Ed").next());
        let texts = displays.filter_map(|d| d.split_once('\n')).map(|(_, text)| plain(text));
        texts
            .filter_map(|text| match text.split_whitespace().next()? {
                "version" => Some(text),
                first if first.starts_with('[') || first == "extends" => {
                    Some(format!("version = 1\n{text}\n"))
                }
                _ => None,
            })
            .collect()
    }

    /// The first display below `.Ss TITLE`.
    pub fn display(&self, title: &str) -> String {
        let below =
            self.text.split_once(&format!("\n.Ss {title}\n")).unwrap_or_else(|| panic!("no {title}")).1;
        let display = below.split_once("\n.Bd ").and_then(|(_, d)| d.split_once('\n')).expect("a display").1;
        plain(display.split("\n.Ed").next().unwrap_or_default())
    }

    /// The command lines of the examples.
    pub fn examples(&self) -> Vec<String> {
        self.text.lines().filter_map(|l| l.strip_prefix(".Dl $ ")).map(plain).collect()
    }
}

fn items(text: &str, kind: &str) -> Names {
    let start = format!(".It {kind} ");
    let items = text.lines().filter_map(|l| l.strip_prefix(&start));
    items.filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect()
}

/// `Op`, `Ar`, `Cm`: a capital and a small letter.
fn is_macro(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 2 && bytes[0].is_ascii_uppercase() && bytes[1].is_ascii_lowercase()
}

/// Text without the escapes that the pages use.
fn plain(text: &str) -> String {
    text.replace("\\(ti", "~").replace("\\(dq", "\"").replace("\\&", "").replace("\\e", "\\")
}

#[test]
fn a_page_is_read() {
    let text = ".Sh [x]\n.It Cm one\n.It Fl p Ar f , Fl -policy Ar f\n.Fl -\n.It Ic audit verify Ar file\n.Sh Y\n.It Cm two\n.Bd -literal\n[a]\nb = '\\ew\\(ti'\n.Ed\n";
    let page = Page { text: text.to_owned() };
    assert_eq!(page.keys(Some("[x]")), Names::from(["one".into()]));
    assert_eq!(page.keys(None), Names::from(["one".into(), "two".into(), "x".into()]));
    assert_eq!(page.flags(), Names::from(["-p".into(), "--policy".into()]));
    assert_eq!(page.verbs(), Names::from(["audit verify".into()]));
    assert_eq!(page.policies(), ["version = 1\n[a]\nb = '\\w~'\n"]);
}
