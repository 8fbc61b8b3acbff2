//! Asking a person: what is filed, shown, answered, and consumed once.
