//! How a runner tells guardexec what it heard: one bounded frame over a pipe, read to its end.

use super::{Heard, STDERR_TAIL};
use crate::run::LimitKind;

/// Kind, flag, number, two lengths.
const HEAD: usize = 14;

/// The longest frame: the output that is kept, a tail or a sentence, and the head.
pub const LONGEST: usize = (1 << 20) + STDERR_TAIL + HEAD;

const EXITED: u8 = 1;
const SIGNALED: u8 = 2;
const TIMED_OUT: u8 = 3;
const LIMIT: u8 = 4;
const NOT_STARTED: u8 = 5;
const CANCELLED: u8 = 6;
const STOPPED: u8 = 7;
const LOST: u8 = 8;

/// As bytes.
pub fn encode(heard: &Heard) -> Vec<u8> {
    let (kind, flag, number, out, text): (u8, bool, i32, &[u8], &[u8]) = match heard {
        Heard::Exited { code, stdout, truncated, stderr } => (EXITED, *truncated, *code, stdout, stderr),
        Heard::Signaled { signal, stderr } => (SIGNALED, false, *signal, &[], stderr),
        Heard::TimedOut => (TIMED_OUT, false, 0, &[], &[]),
        Heard::Limit(kind) => (LIMIT, false, *kind as i32, &[], &[]),
        Heard::NotStarted(why) => (NOT_STARTED, false, 0, &[], why.as_bytes()),
        Heard::Cancelled(signal) => (CANCELLED, false, *signal, &[], &[]),
        Heard::Stopped => (STOPPED, false, 0, &[], &[]),
        Heard::Lost(why) => (LOST, false, 0, &[], why.as_bytes()),
    };
    let mut frame = Vec::with_capacity(HEAD + out.len() + text.len());
    frame.extend([kind, flag.into()]);
    frame.extend(number.to_le_bytes());
    for part in [out, text] {
        frame.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    frame.extend_from_slice(out);
    frame.extend_from_slice(text);
    frame
}

/// From bytes; `None` for anything but exactly one whole frame.
pub fn decode(frame: &[u8]) -> Option<Heard> {
    let (head, rest) = frame.split_at_checked(HEAD)?;
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let number = i32::from_le_bytes(head.get(2..6)?.try_into().ok()?);
    let (out, text) = rest.split_at_checked(word(6)? as usize)?;
    if text.len() != word(10)? as usize {
        return None;
    }
    let sentence = || String::from_utf8_lossy(text).into_owned();
    Some(match head[0] {
        EXITED => Heard::Exited {
            code: number,
            stdout: out.to_vec(),
            truncated: head[1] != 0,
            stderr: text.to_vec(),
        },
        SIGNALED => Heard::Signaled { signal: number, stderr: text.to_vec() },
        TIMED_OUT => Heard::TimedOut,
        LIMIT => Heard::Limit(LimitKind::from_number(number)?),
        NOT_STARTED => Heard::NotStarted(sentence()),
        CANCELLED => Heard::Cancelled(number),
        STOPPED => Heard::Stopped,
        LOST => Heard::Lost(sentence()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_arrives_as_it_was() {
        let stderr = b"\xff\0late".to_vec();
        for heard in [
            Heard::Exited { code: 0, stdout: b"{}\n".to_vec(), truncated: false, stderr: stderr.clone() },
            Heard::Exited { code: 255, stdout: vec![0; 1 << 20], truncated: true, stderr: Vec::new() },
            Heard::Signaled { signal: 9, stderr },
            Heard::TimedOut,
            Heard::Limit(LimitKind::Memory),
            Heard::NotStarted("no".into()),
            Heard::Cancelled(15),
            Heard::Stopped,
            Heard::Lost("gone".into()),
        ] {
            let frame = encode(&heard);
            assert!(frame.len() <= LONGEST);
            assert_eq!(decode(&frame), Some(heard));
        }
    }

    #[test]
    fn a_cut_or_longer_frame_is_none() {
        let frame = encode(&Heard::Exited {
            code: 0,
            stdout: b"{}".to_vec(),
            truncated: false,
            stderr: b"e".to_vec(),
        });
        for end in 0..frame.len() {
            assert_eq!(decode(&frame[..end]), None, "{end}");
        }
        assert_eq!(decode(&[frame.as_slice(), b"x"].concat()), None);
        assert_eq!(decode(&[&[99][..], &frame[1..]].concat()), None);
    }
}
