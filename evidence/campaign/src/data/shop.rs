//! Stock that is sold on the servers of the locks: orders of a few pieces, and deliveries. A
//! request is repeated while its result is open, and sometimes also afterwards. At the end an audit
//! compares deliveries, orders and stock.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use leasehold::Result;
use leasehold_data::{Data, Stock, StockOutcome};
use tokio::time::sleep;

use super::{AT_ONCE, LAST_TRIES, TRIES};
use crate::promise::{Log, read_logs};
use crate::random::Random;

const ITEMS: [&str; 3] = ["chair", "lamp", "table"];

/// The longest reservation of pieces.
const APART: Duration = Duration::from_millis(400);

/// An order or a delivery: pieces of each item.
type Pieces = Vec<(&'static str, u64)>;

/// The stock of one round.
#[derive(Clone)]
pub(crate) struct Shop {
    stock: Stock,
    log: Arc<Log>,
}

impl Shop {
    pub(super) fn new(data: &Data, name: &str, log: Arc<Log>) -> Self {
        Self { stock: data.stock(name), log }
    }

    /// Sends a delivery or an order.
    pub(crate) async fn trade(&self, random: &mut Random) {
        let id = self.log.fresh(0).to_string();
        if random.chance(20) {
            let pieces = draw(random, 12);
            self.log.traded("delivery", &id, &text(&pieces));
            let restock = || self.stock.restock(&id, pieces.clone());
            let is_known = self.answer(TRIES, restock).await.is_some();
            if is_known && random.chance(20) {
                self.answer(TRIES, restock).await;
            }
            return;
        }
        let pieces = draw(random, 3);
        self.log.traded("order", &id, &text(&pieces));
        let is_final = random.chance(60);
        let span = Duration::from_millis(10) + random.up_to(APART);
        let take = || async {
            match is_final {
                true => self.stock.deduct(&id, pieces.clone()).await,
                false => self.stock.reserve(&id, pieces.clone(), span).await,
            }
        };
        let Some(first) = self.answer(TRIES, take).await else { return };
        if is_final && random.chance(20) {
            let again = self.answer(TRIES, take).await;
            self.expect(&id, first.is_taken(), again.as_ref());
        }
        match first {
            StockOutcome::Deducted { .. } => self.log.traded("taken", &id, &text(&pieces)),
            StockOutcome::Reserved { .. } => self.settle(&id, &pieces, span, random).await,
            StockOutcome::Short { .. } => self.log.event("short"),
            // The reservation has ended before the repeated request.
            StockOutcome::Returned if !is_final => {}
            other => self.wrong(&format!("order {id} was new and is {other:?}")),
        }
    }

    /// Confirms a reservation, cancels it, or lets it end.
    async fn settle(&self, id: &str, pieces: &Pieces, span: Duration, random: &mut Random) {
        sleep(random.up_to(span * 2)).await;
        let settled = match random.below(10) {
            0 => return,
            1 | 2 => self.answer(TRIES, || self.stock.cancel(id)).await,
            _ => self.answer(TRIES, || self.stock.confirm(id)).await,
        };
        match settled {
            Some(StockOutcome::Deducted { .. }) => self.log.traded("taken", id, &text(pieces)),
            Some(StockOutcome::Returned) | None => {}
            Some(other) => self.wrong(&format!("order {id} was reserved and is {other:?}")),
        }
    }

    /// If an order had its pieces, the repeated request must answer that it has them.
    fn expect(&self, id: &str, had: bool, again: Option<&StockOutcome>) {
        match again {
            None => {}
            Some(StockOutcome::Deducted { again: true, .. }) if had => {}
            // There may be enough pieces now.
            Some(StockOutcome::Short { .. }) if !had => {}
            // Another request came in between. The order does not count: the auditing process
            // cancels it.
            Some(StockOutcome::Deducted { .. }) if !had => self.log.event("asked-again-and-taken"),
            Some(other) => self.wrong(&format!("order {id} had {had} and is {other:?} again")),
        }
    }

    /// Audits the stock when all trade is over, with the records of all processes.
    pub(super) async fn audit(&self, directory: &Path) {
        let books = Books::read(directory);
        let deliveries = stream::iter(&books.deliveries);
        let restock = async |(id, pieces): (&String, &BTreeMap<String, u64>)| {
            self.answer(LAST_TRIES, || self.stock.restock(id, lines(pieces))).await;
        };
        deliveries.for_each_concurrent(AT_ONCE, restock).await;
        let orders = stream::iter(&books.orders);
        let ask = async |(id, pieces): (&String, &BTreeMap<String, u64>)| {
            let state = match books.taken.contains(id) {
                true => self.answer(LAST_TRIES, || self.stock.deduct(id, lines(pieces))).await,
                false => self.answer(LAST_TRIES, || self.stock.cancel(id)).await,
            };
            match state {
                Some(StockOutcome::Deducted { again: true, .. }) if books.taken.contains(id) => {}
                Some(StockOutcome::Returned) if !books.taken.contains(id) => {}
                other => self.wrong(&format!("order {id} is {other:?} in the end")),
            }
        };
        orders.for_each_concurrent(AT_ONCE, ask).await;
        let Some(levels) = self.answer(LAST_TRIES, || self.stock.levels(ITEMS)).await else {
            return self.wrong("nobody says what is there");
        };
        for (item, level) in ITEMS.into_iter().zip(levels) {
            let (came, went) = (books.delivered(item), books.sold(item));
            if came.checked_sub(went) != Some(level) {
                self.wrong(&format!("{item}: {came} came, {went} were taken, {level} are there"));
            }
        }
    }

    /// Asks until there is an answer, or too often.
    async fn answer<T, F>(&self, tries: u32, ask: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T>>,
    {
        super::ask(&self.log, "stock", tries, ask).await
    }

    fn wrong(&self, what: &str) {
        self.log.violation(&format!("stock {what}"));
    }
}

fn draw(random: &mut Random, most: usize) -> Pieces {
    let count = 1 + random.below(2);
    let first = random.below(ITEMS.len());
    let items = (0..count).map(|at| ITEMS[(first + at) % ITEMS.len()]);
    items.map(|item| (item, 1 + random.below(most) as u64)).collect()
}

fn text(pieces: &Pieces) -> String {
    let pieces = pieces.iter().map(|(item, count)| format!("{item}:{count}"));
    pieces.collect::<Vec<_>>().join(",")
}

/// The records in the logs of all processes.
#[derive(Default)]
struct Books {
    deliveries: BTreeMap<String, BTreeMap<String, u64>>,
    orders: BTreeMap<String, BTreeMap<String, u64>>,
    taken: BTreeSet<String>,
}

impl Books {
    fn read(directory: &Path) -> Self {
        let mut books = Self::default();
        for (_, lines) in read_logs(directory) {
            for line in lines.lines() {
                // The other lines are about other data.
                let _ = books.add(line);
            }
        }
        books
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let mut words = line.strip_prefix("k ")?.split(' ');
        let (kind, id) = (words.next()?, words.next()?.to_owned());
        let pieces = words.next()?.split(',').map(|line| {
            let (item, count) = line.split_once(':')?;
            Some((item.to_owned(), count.parse().ok()?))
        });
        let pieces = pieces.collect::<Option<BTreeMap<_, _>>>()?;
        match kind {
            "delivery" => drop(self.deliveries.insert(id, pieces)),
            "order" => drop(self.orders.insert(id, pieces)),
            _ => drop(self.taken.insert(id)),
        }
        Some(())
    }

    fn delivered(&self, item: &str) -> u64 {
        self.deliveries.values().filter_map(|pieces| pieces.get(item)).sum()
    }

    fn sold(&self, item: &str) -> u64 {
        let sold = self.orders.iter().filter(|(id, _)| self.taken.contains(*id));
        sold.filter_map(|(_, pieces)| pieces.get(item)).sum()
    }
}

fn lines(pieces: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    pieces.iter().map(|(item, count)| (item.as_str(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use leasehold_testkit::must;

    use super::*;

    /// The errors of an audit after these lines; of ten lamps that were delivered, `order-1` has
    /// two.
    async fn wrong_after(lines: &str) -> String {
        let directory = must(tempfile::tempdir());
        let log = Arc::new(Log::create(directory.path(), 1));
        let shop = Shop::new(&Data::memory(), "shop", log);
        must(shop.stock.restock("delivery-1", [("lamp", 10)]).await);
        must(shop.stock.deduct("order-1", [("lamp", 2)]).await);
        let delivery = "k delivery delivery-1 lamp:10\n";
        must(std::fs::write(directory.path().join("2.log"), format!("{delivery}{lines}")));
        shop.audit(directory.path()).await;
        must(std::fs::read_to_string(directory.path().join("1.log")))
    }

    #[tokio::test]
    async fn what_came_less_what_was_taken_is_there_or_it_is_found() {
        let taken = "k order order-1 lamp:2\nk taken order-1 lamp:2\n";
        assert_eq!(wrong_after(taken).await, "");
        assert_eq!(wrong_after("k order order-1 lamp:2\n").await, "", "nobody had it, it seems");
        let never = format!("{taken}k order order-2 lamp:1\nk taken order-2 lamp:1\n");
        assert!(wrong_after(&never).await.contains("v stock order order-2 is"));
        let missing = wrong_after("").await;
        assert!(missing.contains("v stock lamp: 10 came, 0 were taken, 8 are there"), "{missing}");
    }
}
