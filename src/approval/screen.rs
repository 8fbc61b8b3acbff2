//! All that is needed to answer a request, for a person, on one screen.
//!
//! Nothing of it is ever shortened, and nothing in it can drive a terminal: what others wrote is escaped, and stands
//! behind a label or a bar of ours, so that no text of theirs looks like a line of ours.

use std::fmt::Write as _;
use std::time::Duration;

use super::bound::{Bound, BoundFile, BoundInput, Setting, Variable};
use super::entry::{Answered, Answerer, Entry, Lately, State};
use super::files::Content;
use super::output::Streams;
use crate::request::mask::mask_variable;
use crate::request::quote::{self, display, line, repr};
use crate::request::units::show_size;
use crate::sys::account::Person;

mod output;
#[cfg(test)]
mod tests;

/// Where the values begin.
const COLUMN: usize = 11;

/// What the screen is about.
#[derive(Debug)]
pub struct Paper<'a> {
    /// What an approval would bind to.
    pub bound: &'a Bound,
    /// What the evidence says.
    pub evidence: Option<&'a [u8]>,
    /// The output, where that is what is asked about and whoever is asked may see it.
    pub output: Option<&'a Streams>,
    /// The request in the store, where it is in one.
    pub entry: Option<&'a Entry>,
    /// What was answered lately to the same rule, where answers are kept.
    pub lately: Option<&'a [Lately]>,
}

impl<'a> Paper<'a> {
    /// The paper of a filed request.
    pub fn of(entry: &'a Entry, lately: &'a [Lately]) -> Paper<'a> {
        Paper {
            bound: &entry.bound,
            evidence: entry.evidence(),
            output: entry.output.as_ref(),
            entry: Some(entry),
            lately: Some(lately),
        }
    }

    /// Lines, each with its newline. The command comes first, then what it leads to, then the asker's own words, and
    /// last what the command wrote.
    pub fn screen(&self) -> String {
        let mut out = Screen(String::new());
        if let Some(entry) = self.entry {
            out.standing(entry);
        }
        if let Some(output) = &self.bound.output {
            out.row(
                "output",
                &format!("of run {}, which is over: {}", line(output.run_id.as_bytes()), output.ending()),
            );
        }
        out.command(self.bound, self.entry);
        out.leads_to(self.bound);
        for cause in &self.bound.causes {
            let place = display(&cause.file.0);
            out.row("because", &format!("{} ({place}:{})", repr(cause.id.as_bytes()), cause.line));
            out.more(&line(cause.reason.as_bytes()));
        }
        out.confinement(&self.bound.settings);
        for (path, sha256) in &self.bound.policies {
            out.row("policy", &display(&path.0));
            out.more(&format!("sha256 {sha256}"));
        }
        if let Some(lately) = self.lately {
            out.lately(lately);
        }
        out.asker(self);
        if let Some(output) = &self.bound.output {
            out.output(output, self.output);
        }
        out.0
    }
}

struct Screen(String);

impl Screen {
    /// A label and its value.
    fn row(&mut self, label: &str, value: &str) {
        let _ = writeln!(self.0, "{label:<COLUMN$}{value}");
    }

    /// More of the same.
    fn more(&mut self, value: &str) {
        self.row("", value);
    }

    fn standing(&mut self, entry: &Entry) {
        let left = match entry.state {
            State::Pending | State::Approved => {
                format!(", expires in {}", shown_duration(entry.left))
            }
            _ => String::new(),
        };
        self.row("approval", &format!("{}  {}{left} ({})", entry.id, entry.state.as_str(), entry.expires_at));
        self.more(&format!("digest {}", entry.digest));
        self.row("filed", &format!("{} by {}", entry.filed_at, person(&entry.filed_by)));
        if let Some(answered) = &entry.answered {
            self.row("answer", &answer(answered));
        }
        if let Some((at, run_id)) = &entry.used {
            self.row("used", &format!("{at} by run {}", line(run_id.as_bytes())));
        }
        if let Some(at) = &entry.escalated_at {
            self.row("escalated", at);
        }
    }

    fn command(&mut self, bound: &Bound, entry: Option<&Entry>) {
        if let Some(tool) = &bound.tool {
            self.row("tool", &display(tool.name.as_bytes()));
            for (name, value) in &tool.arguments {
                let text = match value {
                    serde_json::Value::String(text) => display(text.as_bytes()),
                    other => line(other.to_string().as_bytes()),
                };
                self.more(&format!("{} = {text}", display(name.as_bytes())));
            }
        }
        if let Some(asked) = entry.and_then(|entry| entry.asked_argv.as_ref()) {
            let words: Vec<&[u8]> = asked.iter().map(|word| word.0.as_slice()).collect();
            self.words("asked for", &words);
        }
        let words: Vec<&[u8]> = bound.argv.iter().map(|word| word.0.as_slice()).collect();
        if !words.is_empty() {
            self.words(
                if entry.is_some_and(|entry| entry.asked_argv.is_some()) { "edited to" } else { "command" },
                &words,
            );
        }
    }

    /// One word a line.
    fn words(&mut self, label: &str, words: &[&[u8]]) {
        self.row(label, &if words.len() == 1 { "1 word".into() } else { format!("{} words", words.len()) });
        for (number, word) in words.iter().enumerate() {
            self.more(&format!("[{number}] {}", display(word)));
            if let Some(ascii) = quote::ascii(word).filter(|ascii| *ascii != display(word)) {
                self.more(&format!("{:1$}= {ascii}", "", format!("[{number}]").len() - 1));
            }
        }
    }

    fn leads_to(&mut self, bound: &Bound) {
        if let Some(program) = &bound.program {
            self.file("program", program);
        }
        self.row("cwd", &display(&bound.cwd.0));
        match &bound.stdin {
            BoundInput::Null => self.row("stdin", "/dev/null"),
            BoundInput::File(file) => self.file("stdin", file),
            BoundInput::Bytes(content) => self.row("stdin", &content_of(content)),
            BoundInput::Relayed => self.row("stdin", "guardexec's own, which was not kept"),
        }
        for named in &bound.files {
            let what = named
                .content
                .as_ref()
                .map_or_else(|| "directory, its content is not bound".into(), content_of);
            let path = display(&named.path.0);
            match named.word {
                0 => self.row("run by", &path),
                _ if bound.argv.is_empty() => self.row("file", &path),
                word => self.row("file", &format!("[{word}] {path}")),
            }
            self.more(&what);
        }
        let mut label = "env";
        for variable in &bound.env {
            self.row(std::mem::take(&mut label), &shown_variable(variable));
        }
    }

    fn file(&mut self, label: &str, file: &BoundFile) {
        self.row(label, &display(&file.path.0));
        self.more(&content_of(&file.content));
    }

    /// What is one word in one paragraph, lists each on a line of their own.
    fn confinement(&mut self, settings: &[Setting]) {
        let one: Vec<String> = settings
            .iter()
            .filter(|setting| setting.values.len() == 1 && !is_list(&setting.name))
            .map(|setting| format!("{} {}", setting.name, shown_setting(setting)))
            .collect();
        self.row("run", &one.join(", "));
        for setting in settings.iter().filter(|setting| is_list(&setting.name) && !setting.values.is_empty())
        {
            let values: Vec<String> = setting.values.iter().map(|value| display(&value.0)).collect();
            self.more(&format!("{}: {}", setting.name, values.join(" ")));
        }
    }

    fn lately(&mut self, lately: &[Lately]) {
        let mut label = "lately";
        for one in lately {
            let agent = one
                .agent
                .as_ref()
                .map(|agent| format!(" for {}", repr(agent.as_bytes())))
                .unwrap_or_default();
            self.row(std::mem::take(&mut label), &format!("{}{agent}: {}", one.id, answer(&one.answered)));
        }
        if lately.is_empty() {
            self.row(label, "nothing was answered to this yet");
        }
    }

    /// What the asker says of itself: nothing here is proven.
    fn asker(&mut self, paper: &Paper<'_>) {
        let bound = paper.bound;
        let named =
            |name: &Option<String>| name.as_ref().map_or_else(|| "-".into(), |name| repr(name.as_bytes()));
        self.row("asker", &format!("agent {}, session {}", named(&bound.agent), named(&bound.session)));
        for (key, value) in &bound.labels {
            self.more(&format!("label {} = {}", display(key.as_bytes()), display(value.as_bytes())));
        }
        if let Some(why) = &bound.why {
            self.row("why", "the asker says:");
            self.quoted(why.as_bytes());
        }
        if let Some(evidence) = &bound.evidence {
            self.file("evidence", evidence);
            match paper.evidence {
                Some(bytes) => self.quoted(bytes),
                None => self.more("its text is not kept any more"),
            }
        }
    }

    /// Somebody else's lines, each behind a bar.
    fn quoted(&mut self, text: &[u8]) {
        for one in text.strip_suffix(b"\n").unwrap_or(text).split(|b| *b == b'\n') {
            self.more(&format!("| {}", line(one)));
        }
    }
}

/// The lists among the settings.
fn is_list(name: &str) -> bool {
    matches!(
        name,
        "require"
            | "require (default)"
            | "cwd"
            | "read"
            | "write"
            | "deny"
            | "map"
            | "unix"
            | "exec"
            | "path"
    )
}

fn shown_setting(setting: &Setting) -> String {
    let Some(value) = setting.values.first() else { return "none".into() };
    let text = display(&value.0);
    let sized = matches!(setting.name.as_str(), "memory" | "output" | "file_size" | "tmp");
    match text.parse::<u64>() {
        Ok(bytes) if sized => show_size(bytes),
        _ => text,
    }
}

fn shown_variable(variable: &Variable) -> String {
    let name = display(&variable.name.0);
    match &variable.value {
        Some(value) => format!("{name}={}", display(&mask_variable(&variable.name.0, &value.0))),
        None => format!("{name} (its value is not kept any more)"),
    }
}

fn content_of(content: &Content) -> String {
    format!("{} bytes, sha256 {}", content.size, content.sha256)
}

/// `approved by 'bob' (uid 1000) at 2026-01-01T00:00:00Z: text`.
pub(super) fn answer(answered: &Answered) -> String {
    let verdict = if answered.approved { "approved" } else { "declined" };
    let text = answered.text.as_ref().map(|text| format!(": {}", line(text.as_bytes()))).unwrap_or_default();
    format!("{verdict} by {} at {}{text}", answerer(&answered.by), answered.at)
}

/// The program that answered, else the person.
pub fn answerer(by: &Answerer) -> String {
    match &by.program {
        Some(program) => format!("the program {}", repr(program.as_bytes())),
        None => person(&by.person),
    }
}

/// `'bob' (uid 1000, logged in as 1000)`.
pub fn person(person: &Person) -> String {
    let login = person.login_uid.map(|uid| format!(", logged in as {uid}")).unwrap_or_default();
    format!("{} (uid {}{login})", repr(person.user.as_bytes()), person.uid)
}

/// Whole seconds, as `9m 41s`.
pub(super) fn shown_duration(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}
