//! Sessions as the verbs print them.

use serde_json::{Value, json};

use super::{Halt, Session, SessionEvent};

impl Session {
    /// As the verbs print it.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "state": if self.halted.is_some() { "halted" } else { "open" },
            "first": self.first,
            "last": self.last,
            "since": self.since_wall,
            "runs": self.runs,
            "denials": self.denials,
            "all_runs": self.all_runs,
            "all_denials": self.all_denials,
            "halted": self.halted.as_ref().map(Halt::to_json),
        })
    }
}

impl Halt {
    /// As the verbs print it.
    pub fn to_json(&self) -> Value {
        json!({"reason": self.reason, "at": self.wall, "run": self.run})
    }
}

impl SessionEvent {
    /// As the verbs print it.
    pub fn to_json(&self) -> Value {
        json!({"event": self.event, "at": self.wall, "by": self.by, "reason": self.reason, "run": self.run})
    }
}
