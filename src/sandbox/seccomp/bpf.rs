//! A small assembler for classic BPF: conditions on system call arguments, and a search tree over numbers.
//!
//! The kernel runs the program once per number when it is installed, to find those that are always allowed (5.11); for
//! these it costs nothing afterwards. So the depth of the tree counts, not its length.

use libc::sock_filter;

/// `SECCOMP_RET_KILL_PROCESS`.
pub const KILL_PROCESS: u32 = 0x8000_0000;
/// `SECCOMP_RET_ALLOW`.
pub const ALLOW: u32 = 0x7fff_0000;

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

    /// Where all 64 bits of `argument` are zero, the call is allowed at once.
    #[must_use]
    pub fn allow_if_null(mut self, argument: u32) -> Checks {
        self.0.push(insn(LOAD, 0, 0, low(argument)));
        self.0.push(insn(IF_EQUAL, 0, 3, 0));
        self.0.push(insn(LOAD, 0, 0, high(argument)));
        self.0.push(insn(IF_EQUAL, 0, 1, 0));
        self.0.push(insn(RETURN, 0, 0, ALLOW));
        self
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
    let mut builder = Backwards { program: Vec::with_capacity(512), returns: Vec::with_capacity(8) };
    let root = builder.tree(&ranges);
    builder.reach(root, 0);
    builder.program.push(insn(LOAD, 0, 0, NR));
    builder.program.push(insn(RETURN, 0, 0, KILL_PROCESS));
    builder.program.push(insn(IF_EQUAL, 1, 0, audit_arch));
    builder.program.push(insn(LOAD, 0, 0, ARCH));
    builder.program.reverse();
    builder.program.into_boxed_slice()
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

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum Target {
    Return(u32),
    /// An instruction, counted from the end of the program.
    At(usize),
}

/// Emits the program from its end: jumps go forward only, so what they lead to is there already, and one return serves
/// many of them. The kernel's work at installation grows with the number of instructions.
struct Backwards {
    program: Vec<sock_filter>,
    /// The latest place of each return value.
    returns: Vec<(u32, usize)>,
}

/// Conditional jumps reach 255 instructions; some are left for what is put in between.
const REACH: usize = 250;

impl Backwards {
    /// A balanced search tree: half the ranges on either side of each comparison.
    fn tree(&mut self, ranges: &[Range<'_>]) -> Target {
        if let [only] = ranges {
            return match only.verdict {
                Leaf::Return(value) => Target::Return(value),
                Leaf::Checks(checks) => {
                    self.program.push(insn(RETURN, 0, 0, ALLOW));
                    self.program.extend(checks.0.iter().rev());
                    Target::At(self.program.len() - 1)
                }
            };
        }
        let (left, right) = ranges.split_at(ranges.len() / 2);
        let above = self.tree(right);
        let below = self.tree(left);
        let above = self.reach(above, 2);
        let below = self.reach(below, 1);
        let at = self.program.len();
        let distance = |to: usize| u8::try_from(at - to - 1).expect("within reach");
        self.program.push(insn(IF_AT_LEAST, distance(above), distance(below), right[0].first));
        Target::At(at)
    }

    /// An instruction that leads to `target` and can be jumped to after `more` further ones; with `more` 0, the very
    /// next one before it.
    fn reach(&mut self, target: Target, more: usize) -> usize {
        let near = |at: usize, len: usize| if more == 0 { at + 1 == len } else { len - at + more <= REACH };
        let len = self.program.len();
        match target {
            Target::At(at) if near(at, len) => at,
            Target::At(at) => {
                let distance = u32::try_from(len - at - 1).expect("a program is shorter than 4096");
                self.program.push(insn(GOTO, 0, 0, distance));
                len
            }
            Target::Return(value) => {
                let known = self.returns.iter_mut().find(|(v, _)| *v == value);
                match known {
                    Some((_, at)) if near(*at, len) => return *at,
                    Some((_, at)) => *at = len,
                    None => self.returns.push((value, len)),
                }
                self.program.push(insn(RETURN, 0, 0, value));
                len
            }
        }
    }
}
