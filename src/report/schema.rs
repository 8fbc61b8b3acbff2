//! The JSON Schemas (2020-12) that are shipped inside the binary, for `guardexec schema NAME`.

/// Every schema: its name on the command line and its text.
pub const ALL: [(&str, &str); 4] = [
    ("policy", include_str!("schema/policy.schema.json")),
    ("request", include_str!("schema/request.schema.json")),
    ("result", include_str!("schema/result.schema.json")),
    ("audit", include_str!("schema/audit.schema.json")),
];

/// The text of one schema, or `None` for a name that is not in [`ALL`].
pub fn get(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests;
