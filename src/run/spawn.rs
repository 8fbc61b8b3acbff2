//! Making the child: `clone` with the keeper's memory shared and the keeper asleep until the exec, on a stack of
//! the child's own. Ten times cheaper than a fork of a big process, and never a second copy of anything secret.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::RawFd;

use super::child::{self, Plan};
use crate::sys::process::Pid;

const STACK: usize = 64 << 10;
const GUARD: usize = 16 << 10;

struct Stack(*mut c_void);

impl Stack {
    fn new() -> io::Result<Stack> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping somewhere free; the lowest part becomes the guard.
        unsafe {
            let base = libc::mmap(std::ptr::null_mut(), STACK + GUARD, access, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let stack = Stack(base);
            if libc::mprotect(base, GUARD, libc::PROT_NONE) == -1 {
                return Err(io::Error::last_os_error());
            }
            Ok(stack)
        }
    }

    fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the mapping, which is aligned to a page.
        unsafe { self.0.byte_add(STACK + GUARD) }
    }
}

/// Only where the child could not be made: else the mapping stays for the short life of the keeper, which would pay more
/// for taking it down.
impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, with this size, and nobody runs on it any more: the keeper
        // only goes on when the child has left this memory.
        unsafe { libc::munmap(self.0, STACK + GUARD) };
    }
}

extern "C" fn enter(plan: *mut c_void) -> libc::c_int {
    // SAFETY: `start` passes a pointer to its plan, which outlives the child's use of this memory.
    child::walk(unsafe { &*plan.cast::<Plan<'_>>() });
    // SAFETY: takes a number only and does not return; the status is never looked at.
    unsafe {
        libc::syscall(libc::SYS_exit_group, 127);
    }
    127
}

/// `struct clone_args` of clone3(2), as it was when `CLONE_INTO_CGROUP` came (Linux 5.7).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// As [`start`] without a cgroup, the child being born in the one behind a descriptor. No C library has this call: on a stack of
/// its own the child cannot return from a function, so it goes on inside the assembly.
fn start_in_cgroup(plan: &Plan<'_>, cgroup: RawFd) -> io::Result<Pid> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let stack = Stack::new()?;
    let argument = std::ptr::from_ref(plan).cast_mut().cast::<c_void>();
    let args = CloneArgs {
        flags: (libc::CLONE_VM | libc::CLONE_VFORK) as u64 | CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.0 as u64 + GUARD as u64,
        stack_size: STACK as u64,
        cgroup: u64::try_from(cgroup).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?,
        ..CloneArgs::default()
    };
    // SAFETY: as in `start`; `args` describes that stack and lives through the call.
    let ret = unsafe { clone3(&args, argument) };
    if ret < 0 {
        return Err(io::Error::from_raw_os_error(-ret as i32));
    }
    std::mem::forget(stack);
    Ok(ret as Pid)
}

/// clone3(2) of a child that calls [`enter`] and never comes back.
///
/// # Safety
/// `args` must give the child a stack that nobody else uses, and `argument` must be what `enter` expects.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(args: &CloneArgs, argument: *mut c_void) -> isize {
    let mut ret = libc::SYS_clone3 as isize;
    // SAFETY: the kernel clobbers rcx, r11 and rax. In the child rax is 0 and the stack pointer is the top of the
    // new stack, aligned to 16 as a call wants it; nothing of the caller's frame is touched there.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {argument}",
            "call {enter}",
            "ud2",
            "2:",
            argument = in(reg) argument,
            enter = in(reg) enter as extern "C" fn(*mut c_void) -> libc::c_int,
            inout("rax") ret,
            in("rdi") args,
            in("rsi") size_of::<CloneArgs>(),
            out("rcx") _,
            out("r11") _,
        );
    }
    ret
}

/// See the other one.
///
/// # Safety
/// As there.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(args: &CloneArgs, argument: *mut c_void) -> isize {
    let mut ret = std::ptr::from_ref(args) as isize;
    // SAFETY: the kernel clobbers x0 alone. In the child it is 0 and the stack pointer is the top of the new stack;
    // nothing of the caller's frame is touched there.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {argument}",
            "blr {enter}",
            "brk 1",
            "2:",
            argument = in(reg) argument,
            enter = in(reg) enter as extern "C" fn(*mut c_void) -> libc::c_int,
            inout("x0") ret,
            in("x1") size_of::<CloneArgs>(),
            in("x8") libc::SYS_clone3,
        );
    }
    ret
}

/// Elsewhere there are no cgroups for runs.
///
/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3(_: &CloneArgs, _: *mut c_void) -> isize {
    -(libc::ENOSYS as isize)
}

/// Starts the child and returns when it has executed the program or given up ([`Plan::failure`] then says where).
/// All signals must be blocked. With a `cgroup` it is born there.
pub fn start(plan: &Plan<'_>, cgroup: Option<RawFd>) -> io::Result<Pid> {
    if let Some(cgroup) = cgroup {
        return start_in_cgroup(plan, cgroup);
    }
    let stack = Stack::new()?;
    let argument = std::ptr::from_ref(plan).cast_mut().cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `enter` runs on a stack of its own and only reads the plan (its failure cells are atomics); the
    // keeper has one thread, which the kernel lets sleep until the child execs or exits.
    let pid = unsafe { libc::clone(enter, stack.top(), flags, argument) };
    if pid == -1 {
        return Err(io::Error::last_os_error());
    }
    std::mem::forget(stack);
    Ok(pid)
}
