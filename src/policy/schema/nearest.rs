//! The name that was probably meant.

/// ``did you mean `X`?``, or all there are.
pub(super) fn nearest_hint(got: &str, known: &[&str]) -> String {
    match nearest(got, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "there is nothing to choose from".to_owned(),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// The name that was probably meant.
pub(in crate::policy) fn nearest<'k>(got: &str, known: &[&'k str]) -> Option<&'k str> {
    let short: String = got.chars().take(40).collect();
    let (distance, name) = known.iter().map(|k| (strsim::osa_distance(&short, k), *k)).min()?;
    (distance <= 1 + name.len() / 4 && distance < name.len().min(short.len())).then_some(name)
}
