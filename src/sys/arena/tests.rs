//! Blocks are the arena's, used again by size, and safe from other threads and forks.

use super::*;

/// A process that does not fork.
fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn blocks_are_aligned_disjoint_and_used_again() {
    static ARENA: Arena = Arena::made(DEAF);
    let arena = &ARENA;
    // SAFETY: every block is written within its size and given back with its own layout.
    unsafe {
        let mut live: Vec<(*mut u8, Layout)> = Vec::new();
        for round in 0..2000_usize {
            let wanted = layout(1 + (round * 37) % 5000, 1 << (round % 8));
            let block = arena.alloc(wanted);
            assert!(!block.is_null() && (block as usize).is_multiple_of(wanted.align()));
            std::ptr::write_bytes(block, round as u8, wanted.size());
            let (from, to) = (block as usize, block as usize + wanted.size());
            assert!(live.iter().all(|(b, l)| to <= *b as usize || *b as usize + l.size() <= from), "{round}");
            live.push((block, wanted));
            if round % 3 != 0 {
                let (block, layout) = live.swap_remove(round % live.len());
                arena.dealloc(block, layout);
            }
        }
        for (block, layout) in live {
            arena.dealloc(block, layout);
        }
        let first = arena.alloc(layout(64, 8));
        let second = arena.alloc(layout(64, 8));
        arena.dealloc(first, layout(64, 8));
        assert_eq!(arena.alloc(layout(50, 8)), first, "a freed block of the class comes first");
        arena.dealloc(first, layout(50, 8));
        arena.dealloc(second, layout(64, 8));
    }
}

#[test]
fn classes_hold_what_belongs_to_them_and_little_more() {
    let mut before = None;
    for size in 1..=4096 {
        let class = class_of(layout(size, 8)).unwrap();
        let room = size_of_class(class);
        assert!(room >= size && room < size + SMALLEST + size / 4, "{size} in {room}");
        assert!(before == Some(class) || before.map_or(0, |b| b + 1) == class, "{size}");
        before = Some(class);
    }
    assert_eq!(before, Some(CLASSES - 1));
    assert_eq!(class_of(layout(4097, 8)), None);
}

#[test]
fn zeroed_blocks_are_zero_whoever_had_them_before() {
    static ARENA: Arena = Arena::made(DEAF);
    let arena = &ARENA;
    // SAFETY: every block is read and written within its size and given back with its own layout.
    unsafe {
        for size in [100, 5000, 100, 9000, 60, 5000, 200_000] {
            let block = arena.alloc_zeroed(layout(size, 8));
            assert!((0..size).all(|i| *block.add(i) == 0), "{size}");
            std::ptr::write_bytes(block, 0xff, size);
            let grown = arena.realloc(block, layout(size, 8), size + 3000);
            std::ptr::write_bytes(grown, 0xff, size + 3000);
            arena.dealloc(grown, layout(size + 3000, 8));
        }
    }
}

#[test]
fn growing_keeps_the_content_in_place_or_moved() {
    static ARENA: Arena = Arena::made(DEAF);
    let arena = &ARENA;
    // SAFETY: as above.
    unsafe {
        let mut size = 10;
        let mut block = arena.alloc(layout(size, 1));
        std::ptr::write_bytes(block, 7, size);
        let other = arena.alloc(layout(8, 8));
        for new in [20, 100, 5000, 200_000, 3_000_000, 40] {
            block = arena.realloc(block, layout(size, 1), new);
            assert!((0..10).all(|i| *block.add(i) == 7), "{new}");
            size = new;
        }
        arena.dealloc(block, layout(size, 1));
        arena.dealloc(other, layout(8, 8));
    }
}

#[test]
fn what_shrinks_a_little_stays_where_it_is_and_harms_no_other() {
    static ARENA: Arena = Arena::made(DEAF);
    let arena = &ARENA;
    // SAFETY: as above.
    unsafe {
        let block = arena.alloc(layout(60_000, 8));
        let other = arena.alloc(layout(64, 8));
        std::ptr::write_bytes(other, 7, 64);
        assert_eq!(arena.realloc(block, layout(60_000, 8), 40_000), block);
        let moved = arena.realloc(block, layout(40_000, 8), 50_000);
        assert_ne!(moved, block, "how long it once was is not known any more");
        std::ptr::write_bytes(moved, 9, 50_000);
        let last = arena.alloc(layout(64, 8));
        std::ptr::write_bytes(last, 7, 64);
        assert_ne!(arena.realloc(moved, layout(50_000, 8), 1000), moved, "most of it would be lost");
        assert!((0..64).all(|i| *last.add(i) == 7));
        assert!((0..64).all(|i| *other.add(i) == 7));
    }
}

#[test]
fn another_thread_gets_other_memory_and_may_give_back_what_is_not_its_own() {
    static ARENA: Arena = Arena::made(DEAF);
    let arena = &ARENA;
    // SAFETY: as above; a block is only touched by the thread that has its address.
    unsafe {
        let ours = arena.alloc(layout(64, 8));
        std::ptr::write_bytes(ours, 7, 64);
        assert!(arena.holds(ours));
        let address = ours as usize;
        let moved = std::thread::spawn(move || {
            let theirs = ARENA.alloc(layout(64, 8));
            assert!(!theirs.is_null() && !ARENA.holds(theirs));
            ARENA.dealloc(theirs, layout(64, 8));
            ARENA.realloc(address as *mut u8, layout(64, 8), 60) as usize
        });
        let moved = moved.join().unwrap() as *mut u8;
        assert!(!arena.holds(moved) && (0..60).all(|i| *moved.add(i) == 7));
        arena.dealloc(moved, layout(60, 8));
        let next = arena.alloc(layout(64, 8));
        assert!(arena.holds(next) && next as usize != address, "what another thread gave back stays lost");
    }
}

#[test]
fn what_is_given_back_before_a_fork_is_used_again_and_later_not_even_touched() {
    static ARENA: Arena = Arena::made(DEAF);
    let arena = &ARENA;
    // SAFETY: as above; a block that was given back is read while the arena lives, and nobody writes it.
    unsafe {
        let blocks: [*mut u8; 3] = std::array::from_fn(|_| arena.alloc(layout(32, 8)));
        arena.dealloc(blocks[0], layout(32, 8));
        arena.told.store(TOLD, Ordering::Relaxed);
        std::ptr::write_bytes(blocks[1], 7, 32);
        arena.dealloc(blocks[1], layout(32, 8));
        assert!((0..32).all(|i| *blocks[1].add(i) == 7), "written for a next one");
        assert_eq!(arena.alloc(layout(32, 8)), blocks[0], "what was there already is still used");
        assert!(!blocks.contains(&arena.alloc(layout(32, 8))));
    }
}
