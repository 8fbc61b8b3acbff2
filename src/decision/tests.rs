//! Tests of judging as a whole.

pub(super) mod made;
