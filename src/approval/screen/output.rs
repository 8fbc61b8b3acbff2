//! The last part of a screen that asks about an output: all of it, as exactly as a screen can show it.

use super::{Screen, content_of};
use crate::approval::output::{BoundOutput, BoundStream, Streams};

impl Screen {
    /// Both streams.
    pub(super) fn output(&mut self, output: &BoundOutput, streams: Option<&Streams>) {
        self.stream("stdout", &output.stdout, streams.map(|streams| streams.stdout.as_slice()));
        self.stream("stderr", &output.stderr, streams.map(|streams| streams.stderr.as_slice()));
    }

    fn stream(&mut self, label: &str, bound: &BoundStream, bytes: Option<&[u8]>) {
        let written = match bound.written {
            Some(written) if written != bound.kept.size => format!("; the command wrote {written}"),
            _ => String::new(),
        };
        self.row(label, &format!("{}{written}", content_of(&bound.kept)));
        match bytes {
            None => self.more("what it says is not kept any more"),
            Some(b"") => {}
            Some(bytes) => {
                self.quoted(bytes);
                if !bytes.ends_with(b"\n") {
                    self.more("(without a newline at its end)");
                }
            }
        }
    }
}
