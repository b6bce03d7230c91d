//! The state of one product, for the ways that read, decide and write: how many pieces are left,
//! and who has one. It is a value of the shop, which checks the tokens of its lock.

use std::sync::LazyLock;

use leasehold::Guard;
use leasehold::store::{Redis, RedisItem, RedisScript};

use crate::outcome::Outcome;
use crate::sale::{Decision, Order};

/// One product's shelf. Its text has the number left on the first line, then the sold pieces.
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
    /// An empty text is a full shelf.
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

/// Installs a token, then reads: so no older holder can write after that.
///
/// KEYS 1 the shelf; ARGV 1 the token, as a text of 20 digits, or nothing. Replies with the text
/// and its version, or with nothing if a newer holder has the shelf.
static READ: LazyLock<RedisScript> = LazyLock::new(|| {
    RedisScript::new(
        "local shelf = redis.call('HMGET', KEYS[1], 'token', 'text', 'version')
        if ARGV[1] ~= '' then
          if shelf[1] and shelf[1] > ARGV[1] then return {} end
          redis.call('HSET', KEYS[1], 'token', ARGV[1])
        end
        return { shelf[2] or '', shelf[3] or '0' }",
    )
});

/// Replaces the text, unless its version or its holder is another one by now.
///
/// KEYS 1 the shelf; ARGV 1 the token, or nothing; 2 the version, or nothing; 3 the text. Replies
/// with 1 if the text was replaced.
static WRITE: LazyLock<RedisScript> = LazyLock::new(|| {
    RedisScript::new(
        "local shelf = redis.call('HMGET', KEYS[1], 'token', 'version')
        if ARGV[1] ~= '' and shelf[1] > ARGV[1] then return { 0 } end
        if ARGV[2] ~= '' and (shelf[2] or '0') ~= ARGV[2] then return { 0 } end
        redis.call('HSET', KEYS[1], 'text', ARGV[3])
        redis.call('HINCRBY', KEYS[1], 'version', 1)
        return { 1 }",
    )
});

/// The place of a shelf on the server, and the token of the holder who uses it.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    redis: &'a Redis,
    key: Vec<u8>,
    token: String,
}

impl<'a> Place<'a> {
    pub(crate) fn new(redis: &'a Redis, name: &str) -> Self {
        let key = format!("{}%shelf:{{{name}}}", redis.key_prefix()).into_bytes();
        Self { redis, key, token: String::new() }
    }

    /// The same place, used under this lock.
    pub(crate) fn guarded(self, guard: &Guard) -> Self {
        Self { token: format!("{:020}", guard.token().get()), ..self }
    }

    /// The shelf and its version.
    pub(crate) async fn read(&self, units: u64) -> Outcome<(Shelf, String)> {
        let reply = self.run(&READ, vec![]).await?;
        let [RedisItem::Bytes(text), RedisItem::Bytes(version)] = reply.as_slice() else {
            return Err("another holder has taken over".into());
        };
        Ok((Shelf::read(text, units)?, String::from_utf8(version.clone())?))
    }

    /// Writes the shelf, if it still has this version or if none is given. Returns whether it was
    /// written.
    pub(crate) async fn write(&self, version: Option<String>, shelf: &Shelf) -> Outcome<bool> {
        let version = version.unwrap_or_default().into_bytes();
        let reply = self.run(&WRITE, vec![version, shelf.write().into_bytes()]).await?;
        Ok(reply == [RedisItem::Number(1)])
    }

    async fn run(
        &self,
        script: &'static RedisScript,
        mut args: Vec<Vec<u8>>,
    ) -> Outcome<Vec<RedisItem>> {
        args.insert(0, self.token.clone().into_bytes());
        Ok(self.redis.run_script(script, vec![self.key.clone()], args).await?)
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
