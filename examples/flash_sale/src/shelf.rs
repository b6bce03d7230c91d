//! The state of one product, for the ways that read, decide and write: how many pieces are left,
//! and who has one.

use crate::outcome::Outcome;
use crate::sale::{Decision, Order};

/// One product's shelf, as a cell stores it: the number left on the first line, then the sold
/// pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shelf {
    pub(crate) left: u64,
    pub(crate) sold: Vec<Sold>,
}

/// One piece that was sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sold {
    pub(crate) order: u64,
    pub(crate) user: u64,
    pub(crate) number: u64,
}

impl Shelf {
    /// An empty cell is a full shelf.
    pub(crate) fn read(value: &[u8], units: u64) -> Outcome<Self> {
        if value.is_empty() {
            return Ok(Self { left: units, sold: Vec::new() });
        }
        let mut lines = std::str::from_utf8(value)?.lines();
        let left = lines.next().ok_or("a shelf without a first line")?.parse()?;
        let sold = lines.map(|line| {
            let mut numbers = line.split(' ').map(str::parse);
            let mut next = || -> Outcome<u64> { Ok(numbers.next().ok_or("a short line")??) };
            Ok(Sold { order: next()?, user: next()?, number: next()? })
        });
        Ok(Self { left, sold: sold.collect::<Outcome<_>>()? })
    }

    pub(crate) fn write(&self) -> String {
        let mut text = format!("{}\n", self.left);
        for Sold { order, user, number } in &self.sold {
            text.push_str(&format!("{order} {user} {number}\n"));
        }
        text
    }

    /// The decision on an order that needs no change: nothing is left, or the order was decided
    /// before its process died.
    pub(crate) fn decided(&self, order: Order) -> Option<Decision> {
        match self.sold.iter().find(|sold| sold.user == order.user) {
            Some(sold) if sold.order == order.number => Some(Decision::Accepted(sold.number)),
            Some(_) => Some(Decision::Second),
            None => (self.left == 0).then_some(Decision::SoldOut),
        }
    }

    /// Sells one piece.
    pub(crate) fn sell(&mut self, order: Order, number: u64) -> Decision {
        self.left -= 1;
        self.sold.push(Sold { order: order.number, user: order.user, number });
        Decision::Accepted(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_comes_back_from_its_text_and_knows_who_has_one() {
        let mut shelf = Shelf::read(b"", 2).unwrap();
        let order = Order::new(7);
        assert_eq!(shelf.decided(order), None);
        shelf.sell(order, 42);
        let shelf = Shelf::read(shelf.write().as_bytes(), 9).unwrap();
        assert_eq!((shelf.left, shelf.sold.len()), (1, 1));
        assert_eq!(shelf.decided(order), Some(Decision::Accepted(42)));
        let second = Order { number: 8, ..order };
        assert_eq!(shelf.decided(second), Some(Decision::Second));
    }
}
