//! A small assembler for classic BPF: conditions on system call arguments, and a search tree over numbers.
//!
//! What a program costs is paid when it is installed, before every exec. The kernel translates it to machine code, in several
//! passes over every instruction, and runs it once per number, to find those that are always allowed (5.11); for these
//! it costs nothing afterwards. So there are as few instructions as can be: returns are shared, and what stands alone in
//! the table takes one comparison.

use libc::sock_filter;

/// `SECCOMP_RET_KILL_PROCESS`.
pub const KILL_PROCESS: u32 = 0x8000_0000;
/// `SECCOMP_RET_USER_NOTIF`: the call waits for whoever holds the filter's descriptor; without one it is `ENOSYS`.
pub const NOTIFY: u32 = 0x7fc0_0000;
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

/// A piece of program that judges one call: conditions in a row, each ending it or leading to a later one; after the last
/// one the call is allowed.
#[derive(Debug, Clone, Default)]
pub struct Checks(Vec<Step>);

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The word at this offset becomes the current one.
    Load(u32),
    /// Only these bits of it.
    Mask(u32),
    /// Whether a comparison of it with `value` holds.
    If { test: u16, value: u32, yes: Then, no: Then },
}

#[derive(Debug, Clone, Copy)]
enum Then {
    /// The call returns this.
    Return(u32),
    /// Goes on with the step that stands this many places further.
    On(u16),
}

use Then::{On, Return};

fn on(places: usize) -> Then {
    On(u16::try_from(places).expect("a check is a few steps long"))
}

impl Checks {
    /// No condition yet.
    pub fn new() -> Checks {
        Checks(Vec::with_capacity(4))
    }

    /// The low half of `argument`, masked, is one of `values`, or the call returns `action`.
    #[must_use]
    pub fn one_of(mut self, argument: u32, mask: u32, values: &[u32], action: u32) -> Checks {
        self.load_masked(argument, mask);
        for (i, value) in values.iter().enumerate() {
            let left = values.len() - i;
            let no = if left == 1 { Return(action) } else { On(1) };
            self.test(IF_EQUAL, *value, on(left), no);
        }
        self
    }

    /// Where the low half of `argument`, masked, is one of `values`, the call returns `action`.
    #[must_use]
    pub fn none_of(mut self, argument: u32, mask: u32, values: &[u32], action: u32) -> Checks {
        self.load_masked(argument, mask);
        for value in values {
            self.test(IF_EQUAL, *value, Return(action), On(1));
        }
        self
    }

    /// The low half of `argument` has none of `bits`, or the call returns `action`.
    #[must_use]
    pub fn no_bits(mut self, argument: u32, bits: u32, action: u32) -> Checks {
        self.0.push(Step::Load(low(argument)));
        self.test(IF_ANY_BIT, bits, Return(action), On(1));
        self
    }

    /// The low half of `argument` has at least one of `bits`, or the call returns `action`.
    #[must_use]
    pub fn some_bit(mut self, argument: u32, bits: u32, action: u32) -> Checks {
        self.0.push(Step::Load(low(argument)));
        self.test(IF_ANY_BIT, bits, On(1), Return(action));
        self
    }

    /// All 64 bits of `argument` equal `value`, or the call returns `action`.
    #[must_use]
    pub fn exactly(mut self, argument: u32, value: u64, action: u32) -> Checks {
        for (offset, half) in [(low(argument), value as u32), (high(argument), (value >> 32) as u32)] {
            self.0.push(Step::Load(offset));
            self.test(IF_EQUAL, half, On(1), Return(action));
        }
        self
    }

    /// Where all 64 bits of `argument` are zero, the call is allowed at once.
    #[must_use]
    pub fn allow_if_null(mut self, argument: u32) -> Checks {
        self.0.push(Step::Load(low(argument)));
        self.test(IF_EQUAL, 0, On(1), On(3));
        self.0.push(Step::Load(high(argument)));
        self.test(IF_EQUAL, 0, Return(ALLOW), On(1));
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
        self.test(IF_EQUAL, first.2, On(1), on(1 + inner.0.len()));
        self.0.extend(inner.0);
        self
    }

    fn load_masked(&mut self, argument: u32, mask: u32) {
        self.0.push(Step::Load(low(argument)));
        if mask != u32::MAX {
            self.0.push(Step::Mask(mask));
        }
    }

    fn test(&mut self, test: u16, value: u32, yes: Then, no: Then) {
        self.0.push(Step::If { test, value, yes, no });
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
    let groups = groups(&ranges);
    let mut builder = Backwards { program: Vec::with_capacity(256), returns: Vec::with_capacity(8) };
    let root = builder.tree(&groups);
    builder.reach(root, 0);
    builder.program.push(insn(LOAD, 0, 0, NR));
    builder.program.push(insn(RETURN, 0, 0, KILL_PROCESS));
    builder.program.push(insn(IF_EQUAL, 1, 0, audit_arch));
    builder.program.push(insn(LOAD, 0, 0, ARCH));
    builder.program.reverse();
    builder.program.into_boxed_slice()
}

/// From this number up to the next range's first one.
#[derive(Clone, Copy)]
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

/// How many single numbers are compared in a row.
const ROW: usize = 3;

/// A range with single numbers in it that are judged otherwise: one comparison each, where two ends would take two. Every
/// second one is such a number, and behind it the range goes on.
type Group<'r, 'a> = &'r [Range<'a>];

fn groups<'r, 'a>(ranges: &'r [Range<'a>]) -> Vec<Group<'r, 'a>> {
    let mut groups = Vec::with_capacity(ranges.len());
    let mut rest = ranges;
    while let [range, ..] = rest {
        let mut length = 1;
        while let [single, again, ..] = rest[length..]
            && length < 1 + 2 * ROW
            && same(again.verdict, range.verdict)
            && again.first == single.first + 1
        {
            length += 2;
        }
        let (group, after) = rest.split_at(length);
        groups.push(group);
        rest = after;
    }
    groups
}

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum Target {
    Return(u32),
    /// An instruction, counted from the end of the program.
    At(usize),
}

/// Emits the program from its end: jumps go forward only, so what they lead to is there already, and one return serves
/// many of them.
struct Backwards {
    program: Vec<sock_filter>,
    /// The latest place of each return value.
    returns: Vec<(u32, usize)>,
}

/// Conditional jumps reach 255 instructions; some are left for what is put in between.
const REACH: usize = 250;

impl Backwards {
    /// A balanced search tree: half the groups on either side of each comparison.
    fn tree(&mut self, groups: &[Group<'_, '_>]) -> Target {
        if let [only] = groups {
            let mut below = self.leaf(only[0].verdict);
            for single in only[1..].iter().step_by(2).rev() {
                let at = self.leaf(single.verdict);
                below = self.test(IF_EQUAL, single.first, at, below);
            }
            return below;
        }
        let (left, right) = groups.split_at(groups.len() / 2);
        let above = self.tree(right);
        let below = self.tree(left);
        self.test(IF_AT_LEAST, right[0][0].first, above, below)
    }

    fn leaf(&mut self, leaf: Leaf<'_>) -> Target {
        match leaf {
            Leaf::Return(value) => Target::Return(value),
            Leaf::Checks(checks) => self.checks(checks),
        }
    }

    fn checks(&mut self, Checks(steps): &Checks) -> Target {
        // Where each step begins, once it is there; after the last one the call is allowed.
        let mut places = vec![Target::Return(ALLOW); steps.len() + 1];
        for (i, step) in steps.iter().enumerate().rev() {
            let then = |then: Then| match then {
                Return(value) => Target::Return(value),
                On(further) => places[i + usize::from(further)],
            };
            places[i] = match *step {
                Step::Load(offset) => self.straight(LOAD, offset, places[i + 1]),
                Step::Mask(bits) => self.straight(AND, bits, places[i + 1]),
                Step::If { test, value, yes, no } => self.test(test, value, then(yes), then(no)),
            };
        }
        places[0]
    }

    /// An instruction that goes on to `next`.
    fn straight(&mut self, code: u16, k: u32, next: Target) -> Target {
        self.reach(next, 0);
        self.program.push(insn(code, 0, 0, k));
        Target::At(self.program.len() - 1)
    }

    fn test(&mut self, test: u16, value: u32, yes: Target, no: Target) -> Target {
        let yes = self.reach(yes, 2);
        let no = self.reach(no, 1);
        let at = self.program.len();
        let distance = |to: usize| u8::try_from(at - to - 1).expect("within reach");
        self.program.push(insn(test, distance(yes), distance(no), value));
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
