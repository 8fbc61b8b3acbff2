//! The command's memory: an arena in the program itself, for a process that lives a millisecond.
//!
//! A run allocates a few thousand small things and is gone. musl's allocator maps and unmaps pages for them, and every new
//! page is a fault; here they lie side by side in zeroed static memory. Freed blocks are used again, by size, so
//! that long verbs (verifying an audit file) do not grow; what does not fit goes to the system's allocator. So does what
//! any thread but the first asks for: then nothing has to be locked.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes in the arena. Untouched pages cost nothing.
const SIZE: usize = 4 << 20;
const SMALLEST: usize = 16;
/// Blocks are kept for reuse by size: every 16 bytes up to 128, then four steps to each doubling, up to 4096.
const CLASSES: usize = 8 + 5 * 4;
/// Up to here each class is of one size.
const SMALL: usize = 128;
/// What is larger than this never comes from the arena: it would use it up. A run needs no more (the longest is the buffer
/// that output passes through), so it never wakes the system's allocator.
const LARGEST: usize = 128 << 10;

/// Set by [`leave_alone`].
static LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// To be said before the process forks: from then on its pages are copied when they are written, and a block given back
/// is written only for the next one who may want it. All that a process that was about to end gives back would cost it a
/// fault a page. What this loses is bounded by the arena's size; behind it the system's allocator is in use.
pub fn leave_alone() {
    LEFT_ALONE.store(true, Ordering::Relaxed);
}

/// The values of `told`.
const FOLLOWS: usize = 0;
#[cfg(test)]
const DEAF: usize = 1;
const TOLD: usize = 2;

#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; SIZE]>);

struct State {
    used: usize,
    /// The highest that `used` was before it went down: what lies above it and `used` is still zero.
    touched: usize,
    free: [usize; CLASSES],
}

impl State {
    /// A block of this class that was given back.
    fn again(&mut self, class: usize) -> Option<*mut u8> {
        let block = self.free[class];
        if block == 0 {
            return None;
        }
        // SAFETY: a free block of this class holds the address of the next one in its first word.
        self.free[class] = unsafe { *(block as *const usize) };
        Some(block as *mut u8)
    }

    /// Where a new block begins, if there is room for it.
    fn fresh(&mut self, size: usize, align: usize) -> Option<usize> {
        // A power of two: no division.
        let start = (self.used + align - 1) & !(align - 1);
        if start + size > SIZE {
            return None;
        }
        self.used = start + size;
        Some(start)
    }
}

/// The allocator, to be named as `#[global_allocator]` by the command.
pub struct Arena {
    memory: Memory,
    state: UnsafeCell<State>,
    /// The [`here`] of the thread whose arena it is; 0 before the first block.
    owner: AtomicUsize,
    /// Whom it listens to: 0 to [`leave_alone`], and tests to themselves. All of the command's own is zero, so that it
    /// takes no room in the file.
    told: AtomicUsize,
}

// SAFETY: the state and the free lists are only touched by the owner; blocks are handed out once.
unsafe impl Sync for Arena {}

/// A number for the running thread that no other living thread has. The main thread, which owns the command's arena, lives
/// as long as the process, and its copy in a forked child has the same number.
fn here() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

impl Arena {
    /// An empty arena.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Arena {
        Arena::made(FOLLOWS)
    }

    const fn made(told: usize) -> Arena {
        Arena {
            told: AtomicUsize::new(told),
            memory: Memory(UnsafeCell::new([0; SIZE])),
            state: UnsafeCell::new(State { used: 0, touched: 0, free: [0; CLASSES] }),
            owner: AtomicUsize::new(0),
        }
    }

    fn base(&self) -> usize {
        self.memory.0.get() as usize
    }

    fn holds(&self, block: *mut u8) -> bool {
        (self.base()..self.base() + SIZE).contains(&(block as usize))
    }

    /// The state, if this thread is the owner. The first to ask becomes it.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    fn state(&self) -> Option<&mut State> {
        let here = here();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != here && !(owner == 0 && self.claim(here)) {
            return None;
        }
        // SAFETY: only this thread comes here, and nobody keeps the reference beyond one call or allocates meanwhile, so
        // there is one at a time.
        Some(unsafe { &mut *self.state.get() })
    }

    #[cold]
    fn claim(&self, here: usize) -> bool {
        self.owner.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// A block of the arena and how many of its first bytes may not be zero; `None` where there is none that large.
    fn take(&self, layout: Layout) -> Option<(*mut u8, usize)> {
        if layout.size() > LARGEST || layout.align() > 4096 {
            return None;
        }
        let class = class_of(layout);
        let state = self.state()?;
        if let Some(block) = class.and_then(|class| state.again(class)) {
            return Some((block, layout.size()));
        }
        let (size, align) = shape(layout, class);
        let start = state.fresh(size, align)?;
        let old = state.touched.saturating_sub(start).min(layout.size());
        Some(((self.base() + start) as *mut u8, old))
    }

    /// [`Arena::take`] for the sizes that nearly all blocks have.
    #[inline]
    fn take_small(&self, layout: Layout) -> Option<*mut u8> {
        let Some(class) = small_class_of(layout) else {
            return self.take(layout).map(|(block, _)| block);
        };
        let state = self.state()?;
        if let Some(block) = state.again(class) {
            return Some(block);
        }
        state.fresh((class + 1) * SMALLEST, SMALLEST).map(|start| (self.base() + start) as *mut u8)
    }

    /// What another thread gives back stays lost, and so does a large block in the middle: there are few, and the arena
    /// ends with the process.
    fn give_back(&self, block: *mut u8, layout: Layout) {
        let told = self.told.load(Ordering::Relaxed);
        if told == TOLD || (told == FOLLOWS && LEFT_ALONE.load(Ordering::Relaxed)) {
            return;
        }
        let Some(state) = self.state() else { return };
        let (class, size) = match small_class_of(layout) {
            Some(class) => (Some(class), (class + 1) * SMALLEST),
            None => (class_of(layout), shape(layout, class_of(layout)).0),
        };
        let start = block as usize - self.base();
        if start + size == state.used {
            state.touched = state.touched.max(state.used);
            state.used = start;
        } else if let Some(class) = class {
            // SAFETY: the block is at least 16 bytes, aligned to 16, and nobody's any more.
            unsafe { *block.cast::<usize>() = state.free[class] };
            state.free[class] = block as usize;
        }
    }

    /// Whether a block has, or can be given, another size where it is: the last one can grow, and any can lose up to half of
    /// what it has.
    fn resize(&self, block: *mut u8, layout: Layout, wanted: Layout) -> bool {
        let ((old, _), (new, _)) = (shape(layout, class_of(layout)), shape(wanted, class_of(wanted)));
        let Some(state) = self.state() else { return false };
        let start = block as usize - self.base();
        let last = start + old == state.used && start + new <= SIZE && new <= LARGEST;
        if last {
            state.touched = state.touched.max(state.used);
            state.used = start + new;
        }
        last || new <= old && old <= 2 * new
    }
}

/// The same as [`class_of`] for the sizes that nearly all blocks have; `None` for all others.
#[inline]
fn small_class_of(layout: Layout) -> Option<usize> {
    (layout.size() <= SMALL && layout.align() <= SMALLEST).then(|| layout.size().saturating_sub(1) / SMALLEST)
}

/// Which list a block belongs to; `None` for large or strangely aligned ones.
fn class_of(layout: Layout) -> Option<usize> {
    let units = layout.size().div_ceil(SMALLEST).max(1);
    let class = if units <= SMALL / SMALLEST {
        units - 1
    } else {
        // Two bits below the highest one of what is the last to fit: four steps a doubling.
        let last = units - 1;
        let shift = last.ilog2() as usize - 2;
        8 + (shift - 1) * 4 + ((last >> shift) & 3)
    };
    (class < CLASSES && layout.align() <= SMALLEST).then_some(class)
}

/// The bytes of a class's blocks.
fn size_of_class(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * SMALLEST;
    }
    let (shift, step) = ((class - 8) / 4 + 1, (class - 8) % 4);
    ((4 + step + 1) << shift) * SMALLEST
}

/// What a block of this class, or of none, really takes: any block of a class fits any request of it.
fn shape(layout: Layout, class: Option<usize>) -> (usize, usize) {
    match class {
        Some(class) => (size_of_class(class), SMALLEST),
        None => (layout.size().next_multiple_of(SMALLEST), layout.align().max(SMALLEST)),
    }
}

// SAFETY: blocks come from the arena, disjoint and aligned as asked, or from the system's allocator; which of the two
// a block came from is told by its address.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take_small(layout) {
            Some(block) => block,
            // SAFETY: passed on as it came.
            None => unsafe { System.alloc(layout) },
        }
    }

    /// Memory that was never handed out is zero already, and not touching it saves a fault a page.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some((block, old)) => {
                // SAFETY: the block is ours and at least that long.
                unsafe { std::ptr::write_bytes(block, 0, old) };
                block
            }
            // SAFETY: passed on as it came.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.holds(block) {
            self.give_back(block, layout);
        } else {
            // SAFETY: it came from the system's allocator, with this layout.
            unsafe { System.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller vouches for the size and alignment together.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !self.holds(block) {
            // SAFETY: it came from the system's allocator, with this layout.
            return unsafe { System.realloc(block, layout, size) };
        }
        if self.resize(block, layout, wanted) {
            return block;
        }
        // SAFETY: the old block is live and at least `layout.size()` long; the new one is checked and disjoint.
        unsafe {
            let fresh = self.alloc(wanted);
            if !fresh.is_null() {
                std::ptr::copy_nonoverlapping(block, fresh, layout.size().min(size));
                self.dealloc(block, layout);
            }
            fresh
        }
    }
}

#[cfg(test)]
mod tests;
