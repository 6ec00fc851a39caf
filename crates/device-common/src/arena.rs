//! Places the slots of a step in one arena; guard bytes show in tests whether a kernel wrote outside its slot.

/// The byte that fills slots and guards in tests; four of it are an f32 NaN.
pub const POISON: u8 = 0xff;

/// Guard bytes behind each slot in tests.
pub const GUARD: usize = 256;

/// Where slots lie in one arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Offset and size of each slot, in bytes.
    pub at: Vec<(u64, u64)>,
    /// Bytes of the whole arena, guards included.
    pub bytes: u64,
}

impl Slots {
    /// Places slots of these sizes one behind the other, each at a multiple of `align` and with `guard` bytes behind it. Sums
    /// saturate instead of wrapping around.
    pub fn place(sizes: impl IntoIterator<Item = u64>, align: u64, guard: u64) -> Slots {
        let (mut at, mut end) = (vec![], 0u64);
        for bytes in sizes {
            at.push((end, bytes));
            end = end.saturating_add(bytes).saturating_add(guard).saturating_add(align - 1) / align * align;
        }
        Slots { at, bytes: end }
    }

    /// Where a slot begins in an arena that this process sees.
    pub fn start(&self, slot: usize) -> usize {
        self.at[slot].0 as usize
    }

    /// A slot of an arena that this process sees.
    pub fn of<'a>(&self, arena: &'a [u8], slot: usize) -> &'a [u8] {
        let (at, bytes) = self.at[slot];
        &arena[at as usize..(at + bytes) as usize]
    }

    /// Whether the `guard` bytes behind every slot still are the poison byte.
    pub fn are_guarded(&self, arena: &[u8], guard: usize) -> bool {
        let ends = self.at.iter().map(|(at, bytes)| (at + bytes) as usize);
        ends.into_iter().all(|end| is_intact(&arena[end..end + guard]))
    }
}

/// Whether all guard bytes still are the poison byte.
pub fn is_intact(guard: &[u8]) -> bool {
    guard.iter().all(|b| *b == POISON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_begin_at_multiples_and_leave_room_for_their_guards() {
        assert_eq!(
            Slots::place([100, 64, 0, 1], 64, 0),
            Slots { at: vec![(0, 100), (128, 64), (192, 0), (192, 1)], bytes: 256 }
        );
        let guarded = Slots::place([64, 1], 64, GUARD as u64);
        assert_eq!(guarded, Slots { at: vec![(0, 64), (320, 1)], bytes: 640 });
        assert_eq!((guarded.start(1), guarded.of(&[7; 640], 1)), (320, &[7u8][..]));
        assert!(Slots::place([u64::MAX, 9], 64, 0).bytes > u64::MAX - 64, "no size wraps around");
    }

    #[test]
    fn a_byte_behind_a_slot_is_seen_and_one_inside_is_not() {
        let slots = Slots::place([64, 10], 64, GUARD as u64);
        let mut arena = vec![POISON; slots.bytes as usize];
        arena[slots.start(1)..][..10].fill(0);
        assert!(slots.are_guarded(&arena, GUARD));
        for at in [64, 319, 330] {
            let mut wrong = arena.clone();
            wrong[at] = 0;
            assert!(!slots.are_guarded(&wrong, GUARD), "byte {at}");
            assert!(slots.are_guarded(&wrong, 0));
        }
    }
}
