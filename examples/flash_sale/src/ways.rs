//! The five ways to sell. Each way decides an order only once, even if it is asked again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::store::{Redis, RedisOptions};
use leasehold::{Client, Guard};
use leasehold_data::{BatchLimits, Batcher, Data, Numbers, Stock, StockOutcome};

use crate::outcome::Outcome;
use crate::sale::{Decision, Order, Way};
use crate::shelf::{Place, Shelf};

/// How long a killed process may delay the others on Redis: 2 s.
const TTL: Duration = Duration::from_secs(2);

/// How long the stock remembers orders: longer than a sale lasts.
const REMEMBER: Duration = Duration::from_secs(3600);

/// One process's access to one sale.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    client: Client,
    redis: Arc<Redis>,
    data: Data,
    sale: String,
    units: u64,
    numbers: Numbers,
    batchers: Arc<Mutex<HashMap<u64, Arc<ProductBatcher>>>>,
}

/// Errors are text, because the error of a batch is copied to each of its orders.
type ProductBatcher = Batcher<Order, Result<Decision, String>>;

impl Counter {
    /// Connects to a store; `sale` is the name of the sale.
    pub(crate) async fn connect(store: &str, sale: String, units: u64) -> Outcome<Self> {
        let client = Client::connect(store).await?;
        let data = Data::connect(store).await?;
        let redis = Arc::new(Redis::open(RedisOptions::from_url(store)?).await?);
        let numbers = data.numbers(&sale);
        Ok(Self { client, redis, data, sale, units, numbers, batchers: Arc::default() })
    }

    /// Decides one order. After an error, ask again.
    pub(crate) async fn decide(&self, way: Way, order: Order) -> Outcome<Decision> {
        match way {
            Way::Batch => self.in_batches(order).await,
            Way::Lock => self.locked(order).await,
            Way::Naive => self.naively(order).await,
            Way::Stock => self.atomically(order).await,
            Way::Version => self.by_version(order).await,
        }
    }

    /// The stock of the atomic way.
    pub(crate) fn stock(&self) -> Stock {
        self.data.stock(&self.sale).remember(REMEMBER)
    }

    /// The shelf of a product, for the other ways.
    pub(crate) async fn shelf(&self, product: u64) -> Outcome<Shelf> {
        Ok(self.place(product).read(self.units).await?.0)
    }

    fn name(&self, product: u64) -> String {
        format!("{}/{product}", self.sale)
    }

    fn place(&self, product: u64) -> Place<'_> {
        Place::new(&self.redis, &self.name(product))
    }

    /// Decides one order under the lock of its product: acquire, read, write, release.
    async fn locked(&self, order: Order) -> Outcome<Decision> {
        let guard = self.client.mutex(self.name(order.product)).ttl(TTL).acquire().await?;
        let decisions = self.under_lock(&guard, &[order]).await?;
        guard.release().await?;
        Ok(decisions[0])
    }

    /// Decides all orders that have come in, under one lock.
    async fn in_batches(&self, order: Order) -> Outcome<Decision> {
        let batcher = self.batcher(order.product)?;
        Ok(batcher.submit(order).await??)
    }

    fn batcher(&self, product: u64) -> Outcome<Arc<ProductBatcher>> {
        let mut batchers = self.batchers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batcher) = batchers.get(&product) {
            return Ok(Arc::clone(batcher));
        }
        let lock = self.client.mutex(self.name(product)).ttl(TTL);
        // The batcher gets a counter without batchers, so that the two do not keep each other
        // alive.
        let counter = Self { batchers: Arc::default(), ..self.clone() };
        let work = move |guard: Guard, orders: Vec<Order>| {
            let counter = counter.clone();
            async move {
                match counter.under_lock(&guard, &orders).await {
                    Ok(decisions) => decisions.into_iter().map(Ok).collect(),
                    Err(error) => orders.iter().map(|_| Err(error.to_string())).collect(),
                }
            }
        };
        let batcher = Arc::new(Batcher::start(lock, BatchLimits::default(), work)?);
        batchers.insert(product, Arc::clone(&batcher));
        Ok(batcher)
    }

    /// Installs the token, reads, decides, and writes under the token: an overtaken holder gets an
    /// error, and has sold nothing.
    async fn under_lock(&self, guard: &Guard, orders: &[Order]) -> Outcome<Vec<Decision>> {
        let place = self.place(orders[0].product).guarded(guard);
        let (mut shelf, _) = place.read(self.units).await?;
        let before = shelf.left;
        let mut decisions = Vec::with_capacity(orders.len());
        for order in orders {
            decisions.push(match shelf.decided(*order) {
                Some(decision) => decision,
                None => shelf.sell(*order, self.numbers.next().await?.value()),
            });
        }
        if shelf.left != before && !place.write(None, &shelf).await? {
            return Err("another holder has taken over".into());
        }
        Ok(decisions)
    }

    /// Reads, decides, and writes if nobody has written meanwhile. Otherwise starts again.
    async fn by_version(&self, order: Order) -> Outcome<Decision> {
        let place = self.place(order.product);
        loop {
            let (mut shelf, version) = place.read(self.units).await?;
            if let Some(decision) = shelf.decided(order) {
                return Ok(decision);
            }
            let decision = shelf.sell(order, self.numbers.next().await?.value());
            if place.write(Some(version), &shelf).await? {
                return Ok(decision);
            }
        }
    }

    /// Decides an order with one command. All requests of a user for a product are one order. The
    /// first worker that asks gets it, and the note says which worker that was, and under which
    /// number.
    async fn atomically(&self, order: Order) -> Outcome<Decision> {
        let Order { number, user, product } = order;
        let own = self.numbers.next().await?.value();
        let stock = self.stock().note(format!("{number} {own}"));
        let outcome = stock.deduct(format!("{user}/{product}"), [(product.to_string(), 1)]).await?;
        match outcome {
            StockOutcome::Deducted { note, .. } => {
                let (first, given) = note.split_once(' ').ok_or("a note of somebody else")?;
                let is_own = first.parse::<u64>()? == number;
                Ok(if is_own { Decision::Accepted(given.parse()?) } else { Decision::Second })
            }
            StockOutcome::Short { .. } => Ok(Decision::SoldOut),
            other => Err(format!("an order that nobody cancelled is {other:?}").into()),
        }
    }

    /// Decides without a lock, which goes wrong: others read and write at the same time.
    async fn naively(&self, order: Order) -> Outcome<Decision> {
        let place = self.place(order.product);
        let (mut shelf, _) = place.read(self.units).await?;
        if let Some(decision) = shelf.decided(order) {
            return Ok(decision);
        }
        let decision = shelf.sell(order, self.numbers.next().await?.value());
        place.write(None, &shelf).await?;
        Ok(decision)
    }
}
