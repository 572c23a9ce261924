//! Makes random numbers from a seed. The same seed gives the same numbers in every version of the
//! harness. The algorithm is SplitMix64.

/// A generator of random numbers.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // The generator adds a constant to its state at each step. So without this mixing, two
        // seeds could produce the same sequence, shifted by a few numbers.
        let mixed = Self { state: seed }.number();
        Self { state: mixed ^ seed.rotate_left(32) }
    }

    /// Creates a generator from a seed and a text. With a different text for each decision, the
    /// decisions do not depend on their order.
    #[must_use]
    pub fn of(seed: u64, text: &str) -> Self {
        let mixed = text.bytes().fold(seed ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Self::new(mixed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number that is less than `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// Returns a number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Returns true with a probability of `percent` percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a random item, or `None` if the list is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        items.get(index)
    }
}
