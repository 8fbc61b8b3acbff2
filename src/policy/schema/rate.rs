//! `[[rate]]` and `[[alert]]`: what is counted in a window, and what comes of it.

use std::time::Duration;

use super::hook::hook;
use super::nearest::nearest_hint;
use super::reader::{Item, Table};
use super::{Span, rule, value};
use crate::policy::error::{PolicyError, printable};
use crate::policy::model::{Alert, AlertOn, Measure, Rate, RateKey, Verdict};
use crate::policy::tree::Value;

/// More than anybody counts to, and far inside every integer that counts.
pub(super) const MAX_FIGURE: u64 = 1_000_000_000_000;
/// Digits before and behind the point of what is added up, as the store keeps it.
const AMOUNT_DIGITS: (usize, usize) = (18, 9);
/// The shortest window.
const MIN_WINDOW: Duration = Duration::from_secs(1);

const RATE: &[&str] = &["name", "match", "agents", "key", "count", "sum", "max", "per", "then", "reason"];
const ALERT: &[&str] = &["name", "on", "above", "per", "run"];

/// What an alert may count besides the use of a rate.
const COUNTED: [(&str, AlertOn); 3] =
    [("denied", AlertOn::Denials), ("timeout", AlertOn::Timeouts), ("check", AlertOn::Checks)];

/// A rate and where its names stand.
#[derive(Debug)]
pub(in crate::policy) struct ReadRate {
    /// Without a name where none is written: joining makes one.
    pub rate: Rate,
    /// Where its name stands, else where the rate starts.
    pub name: Span,
    /// Where each entry of `match` stands.
    pub matches: Vec<Span>,
    /// Where each entry of `key` stands.
    pub key: Vec<Span>,
    /// Where `sum` stands.
    pub sum: Option<Span>,
}

/// An alert and where its names stand.
#[derive(Debug)]
pub(in crate::policy) struct ReadAlert {
    /// Without a name where none is written: joining makes one.
    pub alert: Alert,
    /// Where its name stands, else where the alert starts.
    pub name: Span,
    /// Where `on` stands.
    pub on: Span,
}

/// Names of rules and tools, and where they stand.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub names: Option<Vec<String>>,
    pub spans: Vec<Span>,
}

/// Every table of a list of tables, as `[[KEY]]` makes one.
pub(super) fn tables<'a, T>(
    top: &Table<'a>,
    key: &'static str,
    shown: &'static str,
    read: impl Fn(&Table<'a>) -> Result<T, PolicyError>,
) -> Result<Vec<T>, PolicyError> {
    let Some(item) = top.get(key) else { return Ok(Vec::new()) };
    if !item.is_list() {
        let message = format!("`{key}` must be a list of tables");
        return Err(item.error(message).hint(format!("write `{shown}`")));
    }
    item.list("a list of tables")?.iter().map(|entry| read(&entry.table(shown)?)).collect()
}

pub(super) fn rates(top: &Table<'_>) -> Result<Vec<ReadRate>, PolicyError> {
    tables(top, "rate", "[[rate]]", rate)
}

pub(super) fn alerts(top: &Table<'_>) -> Result<Vec<ReadAlert>, PolicyError> {
    tables(top, "alert", "[[alert]]", alert)
}

fn rate(t: &Table<'_>) -> Result<ReadRate, PolicyError> {
    t.only(RATE)?;
    let (name, name_span) = name(t, "a rate's name")?;
    let Names { names, spans } = t.opt("match", matches)?.unwrap_or_default();
    let (key, key_spans) = t.opt("key", key)?.unwrap_or_default();
    let (measure, max) = measure(t)?;
    let rate = Rate {
        name,
        at: t.doc.place(&t.span),
        matches: names,
        agents: t.opt("agents", rule::agents)?,
        key,
        measure,
        max,
        per: window(&t.need("per")?)?,
        then: t
            .opt("then", |i| i.word(&[("deny", Verdict::Deny), ("ask", Verdict::Ask)]))?
            .unwrap_or(Verdict::Deny),
        reason: t.opt("reason", rule::sentence)?,
    };
    let sum = t.get("sum").map(|item| item.span.clone());
    Ok(ReadRate { rate, name: name_span, matches: spans, key: key_spans, sum })
}

fn alert(t: &Table<'_>) -> Result<ReadAlert, PolicyError> {
    t.only(ALERT)?;
    let (name, name_span) = name(t, "an alert's name")?;
    let on_item = t.need("on")?;
    let on = on(&on_item)?;
    let above = t.need("above")?;
    let alert = Alert {
        name,
        at: t.doc.place(&t.span),
        above: match on {
            AlertOn::Rate(_) => amount(&above)?,
            _ => above.count(0, MAX_FIGURE)?.to_string(),
        },
        on,
        per: window(&t.need("per")?)?,
        run: hook(&t.need("run")?)?,
    };
    Ok(ReadAlert { alert, name: name_span, on: on_item.span.clone() })
}

/// A name where one is written, and the place to complain of it.
fn name(t: &Table<'_>, what: &str) -> Result<(String, Span), PolicyError> {
    match t.get("name") {
        Some(item) => Ok((rule::safe_name(&item, what)?.to_owned(), item.span.clone())),
        None => Ok((String::new(), t.span.clone())),
    }
}

/// The rules and tools that something is about: a name or a list of them.
pub(super) fn matches(item: &Item<'_>) -> Result<Names, PolicyError> {
    let entries = one_or_more(item, "the id of a rule, the name of a tool, or a list of them")?;
    let mut found = Names::default();
    let names = found.names.insert(Vec::with_capacity(entries.len()));
    for entry in entries {
        let name = entry.string()?;
        if names.iter().any(|n| n == name) {
            return Err(entry.error(format!("`{}` stands twice in {}", printable(name), item.what)));
        }
        names.push(name.to_owned());
        found.spans.push(entry.span.clone());
    }
    Ok(found)
}

fn one_or_more<'a>(item: &Item<'a>, wanted: &str) -> Result<Vec<Item<'a>>, PolicyError> {
    if item.is_string() {
        return Ok(vec![item.clone()]);
    }
    let entries = item.list(wanted)?;
    match entries.is_empty() {
        true => Err(item
            .error(format!("{} is empty: it would speak of nothing", item.what))
            .hint("leave the key out to speak of all")),
        false => Ok(entries),
    }
}

/// `"none"` alone, or by what is counted apart.
fn key(item: &Item<'_>) -> Result<(Vec<RateKey>, Vec<Span>), PolicyError> {
    if item.is_string() && item.string()? == "none" {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut keys = Vec::new();
    let mut spans = Vec::new();
    for entry in one_or_more(item, "a string or a list of strings")? {
        let key = match entry.string()? {
            "none" => {
                return Err(entry
                    .error("`none` stands alone")
                    .hint("leave it out, or write `key = \"none\"`"));
            }
            "agent" => RateKey::Agent,
            "session" => RateKey::Session,
            param => RateKey::Param(param.to_owned()),
        };
        if keys.contains(&key) {
            return Err(entry.error(format!("the same stands twice in {}", item.what)));
        }
        keys.push(key);
        spans.push(entry.span.clone());
    }
    Ok((keys, spans))
}

/// `count = N`, `count = true` with `max`, or `sum` with `max`.
fn measure(t: &Table<'_>) -> Result<(Measure, String), PolicyError> {
    let most = |i: &Item<'_>| Ok(i.count(1, MAX_FIGURE)?.to_string());
    match (t.get("count"), t.get("sum")) {
        (Some(_), Some(sum)) => Err(sum.error("a rate has `count` or `sum`, not both")),
        (None, None) => Err(t
            .error("a rate needs `count` or `sum`")
            .hint("`count = N` for at most N calls, or `sum = \"PARAM\"` with `max`")),
        (None, Some(sum)) => Ok((Measure::Sum(sum.string()?.to_owned()), amount(&t.need("max")?)?)),
        (Some(count), None) => match (count.value(), t.get("max")) {
            (Value::Boolean(true), _) => Ok((Measure::Count, most(&t.need("max")?)?)),
            (Value::Boolean(false), _) => {
                Err(count.error("`count = false` counts nothing").hint("write the most as `count = N`"))
            }
            (_, Some(max)) => Err(max
                .error("`max` beside `count = N`, which is the most already")
                .hint("leave one of the two out, or write `count = true`")),
            (_, None) => Ok((Measure::Count, most(&count)?)),
        },
    }
}

/// A decimal number that is not negative, as it is written.
fn amount(item: &Item<'_>) -> Result<String, PolicyError> {
    let text = value::decimal(item)?;
    if text.starts_with('-') {
        return Err(item.error(format!("{} cannot be negative", item.what)));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    if whole.len() > AMOUNT_DIGITS.0 || fraction.trim_end_matches('0').len() > AMOUNT_DIGITS.1 {
        let (large, fine) = AMOUNT_DIGITS;
        let message =
            format!("{} has more than {large} digits before the point or {fine} behind it", item.what);
        return Err(item.error(message).hint("nothing is added up more exactly than that"));
    }
    Ok(text)
}

fn window(item: &Item<'_>) -> Result<Duration, PolicyError> {
    let window = item.duration()?;
    match window < MIN_WINDOW {
        true => Err(item.error(format!("{} must be at least \"1s\"", item.what))),
        false => Ok(window),
    }
}

/// A word, or a rate's name. Which rate is meant is known when the files are joined.
fn on(item: &Item<'_>) -> Result<AlertOn, PolicyError> {
    let text = item.string()?;
    if text.starts_with("rate:") {
        return Ok(AlertOn::Rate(text.to_owned()));
    }
    if let Some((_, on)) = COUNTED.iter().find(|(word, _)| *word == text) {
        return Ok(on.clone());
    }
    let known: Vec<&str> = COUNTED.iter().map(|(word, _)| *word).chain(["rate:NAME"]).collect();
    let message = format!("{} cannot be \"{}\"", item.what, printable(text));
    Err(item.error(message).hint(nearest_hint(text, &known)))
}
