//! The sale: the orders, and the ways to run it.

use crate::outcome::Outcome;

/// Products on sale.
pub(crate) const PRODUCTS: u64 = 200;

/// Users who order.
pub(crate) const USERS: u64 = 20_000;

/// Processes that take orders.
pub(crate) const PROCESSES: u64 = 8;

/// The ways to keep the stock correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Batch,
    Lock,
    Naive,
    Stock,
    Version,
}

impl Way {
    /// All ways, in the order in which they are run.
    pub(crate) const ALL: [Self; 5] =
        [Self::Lock, Self::Batch, Self::Version, Self::Stock, Self::Naive];

    pub(crate) fn parse(word: &str) -> Outcome<Self> {
        let way = Self::ALL.into_iter().find(|way| way.word() == word);
        way.ok_or_else(|| {
            format!("no way {word:?}: there are lock, batch, stock, version and naive").into()
        })
    }

    /// The name on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Lock => "lock",
            Self::Naive => "naive",
            Self::Stock => "stock",
            Self::Version => "version",
        }
    }

    /// The name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Batch => "lock, batches",
            Self::Lock => "lock per product",
            Self::Naive => "naive, no lock",
            Self::Stock => "atomic stock",
            Self::Version => "compare-and-set",
        }
    }
}

/// One order. Its user and product follow from its number, so every process knows its orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) user: u64,
    pub(crate) product: u64,
}

impl Order {
    pub(crate) fn new(number: u64) -> Self {
        let drawn = mix(number);
        Self { number, user: drawn % USERS, product: (drawn >> 32) % PRODUCTS }
    }

    /// The orders that one process takes.
    pub(crate) fn of_process(process: u64, orders: u64) -> impl Iterator<Item = Self> {
        (process..orders).step_by(PROCESSES as usize).map(Self::new)
    }
}

/// Units of each product: 50 for 100 000 orders, so that one order in ten gets something.
pub(crate) fn units(orders: u64) -> u64 {
    (orders * 50 / 100_000).max(1)
}

/// Spreads a number over 64 bits (the finalizer of splitmix64, Steele et al. 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The decision on an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The user gets a piece, under this number.
    Accepted(u64),
    /// The user has a piece already.
    Second,
    /// No piece is left.
    SoldOut,
}

/// Bytes of one line of a journal: fixed, so that the size of the file tells how many there are.
pub(crate) const LINE_BYTES: usize = 32;

impl Decision {
    /// A line of a process's journal.
    pub(crate) fn line(self, order: Order) -> String {
        let (word, number) = match self {
            Self::Accepted(number) => ('A', number),
            Self::Second => ('U', 0),
            Self::SoldOut => ('S', 0),
        };
        format!("{:>10} {word} {number:>18}\n", order.number)
    }

    /// The order and the decision of a line.
    pub(crate) fn parse(line: &str) -> Option<(Order, Self)> {
        let mut words = line.split_ascii_whitespace();
        let order = Order::new(words.next()?.parse().ok()?);
        let (word, number) = (words.next()?, words.next()?.parse().ok()?);
        let decision = match word {
            "A" => Self::Accepted(number),
            "S" => Self::SoldOut,
            "U" => Self::Second,
            _ => return None,
        };
        Some((order, decision))
    }
}
