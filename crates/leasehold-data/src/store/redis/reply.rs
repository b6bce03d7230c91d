//! Parses the reply of a script.

use std::vec::IntoIter;

use leasehold::FencingToken;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::RedisItem;

use crate::model::numbers::NumbersReply;
use crate::model::stock::{OrderState, StockReply};
use crate::model::{Answer, Id, Reply};

/// Parses the reply of a script.
///
/// # Errors
///
/// [`Corrupt`](StoreErrorKind::Corrupt) if no script of this crate replies like that.
pub(super) fn answer(items: Vec<RedisItem>) -> Result<Answer, StoreError> {
    parse(items).ok_or_else(|| {
        let what = "the server's reply is not one of leasehold's: does a proxy change it?";
        StoreError::new(StoreErrorKind::Corrupt, what).maybe_executed()
    })
}

/// A reply is the server's time, a word, and the values that belong to the word.
fn parse(items: Vec<RedisItem>) -> Option<Answer> {
    let mut items = Items(items.into_iter());
    let now_us = items.number()?;
    let reply = match items.bytes()?.as_slice() {
        b"block" => Reply::Numbers(NumbersReply::Block {
            first: items.number()?,
            day: items.day()?,
            day_left_us: items.number()?,
        }),
        b"due" => Reply::Stock(StockReply::Due),
        b"early" => Reply::Numbers(NumbersReply::Early { retry_after_us: items.number()? }),
        b"fenced" => Reply::Fenced(items.token()?),
        b"levels" => Reply::Stock(StockReply::Levels(items.numbers()?)),
        b"mismatch" => Reply::Stock(StockReply::Mismatch),
        b"other_plan" => Reply::Numbers(NumbersReply::Mismatch),
        b"overflow" => Reply::Stock(StockReply::Overflow),
        b"settled" => Reply::Stock(items.settled()?),
        b"short" => Reply::Stock(StockReply::Short {
            item: Id::new("item", items.text()?).ok()?,
            available: items.number()?,
        }),
        b"unknown" => Reply::Stock(StockReply::Unknown),
        b"used_up" => Reply::Numbers(NumbersReply::UsedUp),
        _ => return None,
    };
    (items.0.len() == 0).then_some(Answer { now_us, reply })
}

/// The elements of an array, taken one by one.
struct Items(IntoIter<RedisItem>);

impl Items {
    fn integer(&mut self) -> Option<i64> {
        match self.0.next()? {
            RedisItem::Number(number) => Some(number),
            RedisItem::Bytes(_) => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        self.integer()?.try_into().ok()
    }

    fn numbers(&mut self) -> Option<Vec<u64>> {
        (0..self.0.len()).map(|_| self.number()).collect()
    }

    /// −1 means no day.
    fn day(&mut self) -> Option<Option<u64>> {
        match self.integer()? {
            -1 => Some(None),
            day => Some(Some(day.try_into().ok()?)),
        }
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        match self.0.next()? {
            RedisItem::Bytes(bytes) => Some(bytes),
            RedisItem::Number(_) => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn token(&mut self) -> Option<FencingToken> {
        FencingToken::from_number(u64::from_be_bytes(self.bytes()?.try_into().ok()?))
    }

    fn settled(&mut self) -> Option<StockReply> {
        let state = match self.bytes()?.as_slice() {
            b"D" => OrderState::Deducted,
            b"R" => OrderState::Reserved,
            b"S" => OrderState::Restocked,
            b"B" => OrderState::Returned,
            _ => return None,
        };
        let (note, left_us) = (self.text()?, self.number()?);
        Some(StockReply::Settled { state, note, left_us, again: self.number()? == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_reply_is_no_answer() {
        let word = |text: &str| RedisItem::Bytes(text.as_bytes().to_vec());
        for reply in [
            vec![],
            vec![RedisItem::Number(1)],
            vec![RedisItem::Number(1), word("hello")],
            vec![RedisItem::Number(1), word("unknown"), RedisItem::Number(1)],
            vec![RedisItem::Number(1), word("levels"), RedisItem::Number(-1)],
            vec![RedisItem::Number(1), word("fenced"), word("12345")],
        ] {
            assert_eq!(parse(reply.clone()), None, "{reply:?}");
        }
    }
}
