//! What became of a result before it went out: rewritten, withheld, cancelled, stopped by the switch.

use super::compose::signal_name;
use super::result::ResultDoc;
use super::status::Status;
use super::text;
use crate::decision::Stage;
use crate::switch::Stopped;

impl ResultDoc {
    /// The kill switch ended the run. `by`: what it says now; nothing where it is off again already.
    pub fn switched_off(&mut self, by: Option<&Stopped>) {
        let sentence = by.map_or_else(|| "the kill switch was on".to_owned(), Stopped::sentence);
        self.status = Status::Cancelled;
        self.exit_status = Status::Cancelled.exit_status(None, None);
        self.stage = Some(Stage::KillSwitch.as_str());
        self.text =
            text::failed(&format!("{sentence}; the run was killed"), by.map(Stopped::hint).as_deref());
        let kept: Vec<String> = [&self.stdout, &self.stderr].into_iter().flatten().cloned().collect();
        for kept in kept.into_iter().filter(|kept| !kept.is_empty()) {
            self.text.push('\n');
            self.text.push_str(&kept);
        }
        self.reason = Some(sentence);
    }

    /// guardexec got this signal while nothing ran.
    pub fn cancelled(&mut self, signal: i32) {
        self.status = Status::Cancelled;
        self.exit_status = Status::Cancelled.exit_status(None, Some(signal));
        self.signal = Some(signal_name(signal));
        let sentence = format!("cancelled by {}", signal_name(signal));
        self.text = text::failed(&sentence, None);
        self.reason = Some(sentence);
    }

    /// Checks put this in the place of what the command wrote.
    pub fn rewritten(&mut self, stdout: Option<String>, stderr: Option<String>) {
        if let Some(stdout) = stdout {
            (self.stdout, self.stdout_base64) = (Some(stdout), None);
        }
        if let Some(stderr) = stderr {
            (self.stderr, self.stderr_base64) = (Some(stderr), None);
        }
        self.text_again();
    }

    /// The text for the model, from what the streams hold now.
    fn text_again(&mut self) {
        let (stdout, stderr) =
            (self.stdout.clone().unwrap_or_default(), self.stderr.clone().unwrap_or_default());
        let own_end = matches!(self.status, Status::Ok | Status::NonzeroExit);
        if own_end {
            self.text = self.ran_text_of(&stdout);
            return;
        }
        let head = self.text.lines().next().unwrap_or_default().to_owned();
        let kept = [head, stdout, stderr];
        self.text = kept.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("\n");
    }

    /// Nothing of what the command wrote goes out.
    pub fn withhold(&mut self) {
        (self.stdout, self.stdout_base64, self.stdout_truncated) = (None, None, false);
        (self.stderr, self.stderr_base64, self.stderr_truncated) = (None, None, false);
        self.text.clear();
    }
}
