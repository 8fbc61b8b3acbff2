//! A small assembler for classic BPF: conditions on system call arguments, and a search tree over numbers.
//!
//! The kernel runs the program once per number when it is installed, to find those that are always allowed (5.11); for
//! these it costs nothing afterwards. So the depth of the tree counts, not its length.

use libc::sock_filter;

/// `SECCOMP_RET_KILL_PROCESS`.
pub const KILL_PROCESS: u32 = 0x8000_0000;
/// `SECCOMP_RET_ALLOW`.
pub const ALLOW: u32 = 0x7fff_0000;
/// `SECCOMP_RET_USER_NOTIF` (5.0).
pub const USER_NOTIF: u32 = 0x7fc0_0000;

/// `SECCOMP_RET_ERRNO` with `errno`.
pub const fn fail(errno: i32) -> u32 {
    0x0005_0000 | (errno as u32 & 0xffff)
}

/// `offsetof(struct seccomp_data, nr)`.
const NR: u32 = 0;
/// `offsetof(struct seccomp_data, arch)`.
const ARCH: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const GOTO: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;

const fn insn(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Offset of the low half of argument `n`.
const fn low(n: u32) -> u32 {
    16 + 8 * n + if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// Offset of its high half.
const fn high(n: u32) -> u32 {
    16 + 8 * n + if cfg!(target_endian = "big") { 0 } else { 4 }
}

/// A piece of program that judges one call: conditions in a row, each ending it or falling through to the next; after
/// the last one the call is allowed.
#[derive(Debug, Clone, Default)]
pub struct Checks(Vec<sock_filter>);

impl Checks {
    /// No condition yet.
    pub fn new() -> Checks {
        Checks(Vec::with_capacity(24))
    }

    /// The low half of `argument`, masked, is one of `values`, or the call returns `action`.
    #[must_use]
    pub fn one_of(mut self, argument: u32, mask: u32, values: &[u32], action: u32) -> Checks {
        self.load_masked(argument, mask);
        self.jump_over_if(values);
        self.0.push(insn(RETURN, 0, 0, action));
        self
    }

    /// Where the low half of `argument`, masked, is one of `values`, the call returns `action`.
    #[must_use]
    pub fn none_of(mut self, argument: u32, mask: u32, values: &[u32], action: u32) -> Checks {
        self.load_masked(argument, mask);
        for value in values {
            self.0.push(insn(IF_EQUAL, 0, 1, *value));
            self.0.push(insn(RETURN, 0, 0, action));
        }
        self
    }

    /// The low half of `argument` has none of `bits`, or the call returns `action`.
    #[must_use]
    pub fn no_bits(mut self, argument: u32, bits: u32, action: u32) -> Checks {
        self.0.push(insn(LOAD, 0, 0, low(argument)));
        self.0.push(insn(IF_ANY_BIT, 0, 1, bits));
        self.0.push(insn(RETURN, 0, 0, action));
        self
    }

    /// The low half of `argument` has at least one of `bits`, or the call returns `action`.
    #[must_use]
    pub fn some_bit(mut self, argument: u32, bits: u32, action: u32) -> Checks {
        self.0.push(insn(LOAD, 0, 0, low(argument)));
        self.0.push(insn(IF_ANY_BIT, 1, 0, bits));
        self.0.push(insn(RETURN, 0, 0, action));
        self
    }

    /// All 64 bits of `argument` equal `value`, or the call returns `action`.
    #[must_use]
    pub fn exactly(mut self, argument: u32, value: u64, action: u32) -> Checks {
        for (offset, half) in [(low(argument), value as u32), (high(argument), (value >> 32) as u32)] {
            self.0.push(insn(LOAD, 0, 0, offset));
            self.0.push(insn(IF_EQUAL, 1, 0, half));
            self.0.push(insn(RETURN, 0, 0, action));
        }
        self
    }

    /// Where the low half of `argument` is one of `values`, the call is allowed at once.
    #[must_use]
    pub fn allow_if(self, argument: u32, values: &[u32]) -> Checks {
        self.none_of(argument, u32::MAX, values, ALLOW)
    }

    /// Where the low half of `argument` is none of `values`, the call is allowed at once.
    #[must_use]
    pub fn allow_unless(self, argument: u32, values: &[u32]) -> Checks {
        self.one_of(argument, u32::MAX, values, ALLOW)
    }

    /// Where one argument's low half equals a value and another's masked one is one of `values`, the call is
    /// allowed at once.
    #[must_use]
    pub fn allow_if_both(mut self, first: (u32, u32, u32), second: (u32, u32, &[u32])) -> Checks {
        let inner = Checks::new().none_of(second.0, second.1, second.2, ALLOW);
        self.load_masked(first.0, first.1);
        let over = u8::try_from(inner.0.len()).expect("a list of values is short");
        self.0.push(insn(IF_EQUAL, 0, over, first.2));
        self.0.extend(inner.0);
        self
    }

    fn load_masked(&mut self, argument: u32, mask: u32) {
        self.0.push(insn(LOAD, 0, 0, low(argument)));
        if mask != u32::MAX {
            self.0.push(insn(AND, 0, 0, mask));
        }
    }

    /// A chain of comparisons that skips the one instruction after it.
    fn jump_over_if(&mut self, values: &[u32]) {
        for (i, value) in values.iter().enumerate() {
            let skip = u8::try_from(values.len() - i).expect("a list of values is short");
            self.0.push(insn(IF_EQUAL, skip, 0, *value));
        }
    }
}

/// What happens to a call.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Always the same return value.
    Always(u32),
    /// It depends on the arguments.
    If(Checks),
}

/// Builds the whole program. `verdicts` need not be sorted; numbers from `first_unknown` on, x32's and every
/// negative one included, return `ENOSYS`; all others are allowed.
///
/// # Panics
/// If a number stands twice in `verdicts`: a table of ours is wrong.
pub fn assemble(
    audit_arch: u32,
    mut verdicts: Vec<(u32, Verdict)>,
    first_unknown: u32,
) -> Box<[sock_filter]> {
    verdicts.sort_unstable_by_key(|(number, _)| *number);
    let ranges = ranges(&verdicts, first_unknown);
    let mut program = Vec::with_capacity(640);
    program.push(insn(LOAD, 0, 0, ARCH));
    program.push(insn(IF_EQUAL, 1, 0, audit_arch));
    program.push(insn(RETURN, 0, 0, KILL_PROCESS));
    program.push(insn(LOAD, 0, 0, NR));
    tree(&ranges, &mut program);
    program.into_boxed_slice()
}

/// From this number up to the next range's first one.
struct Range<'a> {
    first: u32,
    verdict: Leaf<'a>,
}

#[derive(Clone, Copy)]
enum Leaf<'a> {
    Return(u32),
    Checks(&'a Checks),
}

fn ranges<'a>(verdicts: &'a [(u32, Verdict)], first_unknown: u32) -> Vec<Range<'a>> {
    let mut ranges: Vec<Range<'a>> = Vec::with_capacity(2 * verdicts.len() + 2);
    let mut push = |first: u32, verdict: Leaf<'a>| match ranges.last_mut() {
        Some(last) if same(last.verdict, verdict) => {}
        _ => ranges.push(Range { first, verdict }),
    };
    let mut next = 0;
    for (number, verdict) in verdicts {
        assert!(*number >= next, "system call {number} stands twice in the tables");
        if *number > next {
            push(next, Leaf::Return(ALLOW));
        }
        match verdict {
            Verdict::Always(value) => push(*number, Leaf::Return(*value)),
            Verdict::If(checks) => push(*number, Leaf::Checks(checks)),
        }
        next = number + 1;
    }
    if next < first_unknown {
        push(next, Leaf::Return(ALLOW));
    }
    push(first_unknown.max(next), Leaf::Return(fail(libc::ENOSYS)));
    ranges
}

fn same(a: Leaf<'_>, b: Leaf<'_>) -> bool {
    matches!((a, b), (Leaf::Return(a), Leaf::Return(b)) if a == b)
}

/// Emits a balanced tree: a comparison, the left half, the right half.
fn tree(ranges: &[Range<'_>], program: &mut Vec<sock_filter>) {
    let [only] = ranges else {
        let middle = ranges.len() / 2;
        let (left, right) = ranges.split_at(middle);
        let at = program.len();
        // Conditional jumps reach 255 instructions; the unconditional one after it reaches any.
        program.push(insn(IF_AT_LEAST, 0, 1, right[0].first));
        program.push(insn(GOTO, 0, 0, 0));
        let start = program.len();
        tree(left, program);
        let distance = program.len() - start;
        if let Ok(short) = u8::try_from(distance) {
            program.remove(at + 1);
            program[at] = insn(IF_AT_LEAST, short, 0, right[0].first);
        } else {
            program[at + 1].k = u32::try_from(distance).expect("a program is shorter than 4096");
        }
        tree(right, program);
        return;
    };
    match only.verdict {
        Leaf::Return(value) => program.push(insn(RETURN, 0, 0, value)),
        Leaf::Checks(checks) => {
            program.extend_from_slice(&checks.0);
            program.push(insn(RETURN, 0, 0, ALLOW));
        }
    }
}
