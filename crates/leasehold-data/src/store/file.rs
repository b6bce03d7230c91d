//! The data parts in the file of a lock store. One transaction reads the part of a record that a
//! step can touch, does the step of the model, and writes the changes.
//!
//! As with locks, a crash of any process loses nothing, and a power cut may lose the last moments
//! before it. Even then no number is given out twice, because blocks begin above a floor that grows
//! with time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use leasehold::FencingToken;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::fence::{Fence, Fences};
use leasehold::store::FileTransaction;
use rusqlite::{Params, Row};

use super::data_store::DataStore;
use crate::model::numbers::{self, Sequence};
use crate::model::stock::{self, Line, Order, OrderState, Stock, StockAction};
use crate::model::{Action, Answer, COLLECT_BOUND, Id, MAX_NUMBER, Reply, Request};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS data_fence (part TEXT, name TEXT, lock TEXT, token INTEGER NOT NULL,
        PRIMARY KEY (part, name, lock)) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS data_sequence (name TEXT PRIMARY KEY, last INTEGER NOT NULL,
        day INTEGER) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS data_level (name TEXT, item TEXT, level INTEGER NOT NULL,
        PRIMARY KEY (name, item)) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS data_order (name TEXT, id TEXT, until_us INTEGER NOT NULL,
        state TEXT NOT NULL, lines TEXT NOT NULL, note TEXT NOT NULL, remember_us INTEGER NOT NULL,
        PRIMARY KEY (name, id)) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS data_order_due ON data_order (name, until_us, id);
";

/// The most due records to read: two more than a step collects. One may be the record that the
/// request names, which is collected in addition; one shows that more are due.
const LOOK_BOUND: i64 = COLLECT_BOUND as i64 + 2;

/// Data in separate tables, in the file of a lock store.
///
/// Clones share one connection.
#[derive(Clone, Debug)]
pub struct File {
    store: leasehold::store::File,
    has_tables: Arc<AtomicBool>,
}

impl From<leasehold::store::File> for File {
    fn from(store: leasehold::store::File) -> Self {
        Self { store, has_tables: Arc::default() }
    }
}

impl DataStore for File {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        let has_tables = Arc::clone(&self.has_tables);
        Box::pin(async move {
            let step = move |transaction: &FileTransaction<'_>| {
                if !has_tables.load(Ordering::Relaxed) {
                    transaction.sql(|transaction| transaction.execute_batch(TABLES))?;
                }
                let now_us = transaction.now_us();
                Ok(Answer { now_us, reply: apply(transaction, now_us, &request)? })
            };
            let answer = self.store.transact(step).await?;
            self.has_tables.store(true, Ordering::Relaxed);
            Ok(answer)
        })
    }
}

/// Does one step.
fn apply(
    transaction: &FileTransaction<'_>,
    now_us: u64,
    request: &Request,
) -> Result<Reply, StoreError> {
    let tables = Tables { transaction, name: request.name.as_str() };
    let fence = request.fence.as_ref();
    match &request.action {
        Action::Numbers { count, plan } => {
            let before = tables.sequence()?;
            let mut sequence = before;
            let reply = numbers::step(&mut sequence, now_us, *count, *plan);
            if let Some(Sequence { last, day }) = sequence.filter(|_| sequence != before) {
                let sql = "INSERT OR REPLACE INTO data_sequence VALUES (?1, ?2, ?3)";
                tables.write(sql, (tables.name, last as i64, day.map(|day| day as i64)))?;
            }
            Ok(Reply::Numbers(reply))
        }
        Action::Stock(action) => {
            let before = tables.stock(now_us, fence, action)?;
            let mut stock = before.clone();
            let reply = stock::step(&mut stock, now_us, fence, action)
                .map_or_else(Reply::Fenced, Reply::Stock);
            tables.save_stock(&before, &stock)?;
            tables.save_fence(fence, &stock.fences)?;
            Ok(reply)
        }
    }
}

/// The rows of one name.
struct Tables<'a> {
    transaction: &'a FileTransaction<'a>,
    name: &'a str,
}

impl Tables<'_> {
    fn write(&self, sql: &str, parameters: impl Params) -> Result<(), StoreError> {
        self.transaction.sql(|transaction| transaction.prepare_cached(sql)?.execute(parameters))?;
        Ok(())
    }

    fn rows<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.transaction.sql(|transaction| {
            transaction.prepare_cached(sql)?.query_map(parameters, read)?.collect()
        })
    }

    fn damaged(&self, what: &str) -> StoreError {
        let text = format!("{}: {what} in the file is damaged: look at its row", self.name);
        StoreError::new(StoreErrorKind::Corrupt, text)
    }

    /// A stored number as the unsigned number of the model.
    fn number(&self, number: i64) -> Result<u64, StoreError> {
        let number = u64::try_from(number).ok().filter(|number| *number <= MAX_NUMBER);
        number.ok_or_else(|| self.damaged("a number"))
    }

    fn id(&self, text: String) -> Result<Id, StoreError> {
        Id::new("id", text).map_err(|_| self.damaged("an id"))
    }

    fn fences(&self, fence: Option<&Fence>) -> Result<Fences, StoreError> {
        let mut fences = Fences::default();
        let Some(Fence { lock, .. }) = fence else { return Ok(fences) };
        let sql = "SELECT token FROM data_fence WHERE part = 'stock' AND name = ?1 AND lock = ?2";
        let read = |row: &Row<'_>| row.get::<_, i64>(0);
        if let Some(token) = self.rows(sql, (self.name, lock.as_str()), read)?.pop() {
            let token = FencingToken::from_number(token as u64);
            fences.0.insert(lock.clone(), token.ok_or_else(|| self.damaged("a token"))?);
        }
        Ok(fences)
    }

    fn save_fence(&self, fence: Option<&Fence>, fences: &Fences) -> Result<(), StoreError> {
        let newest = fence.and_then(|fence| fences.0.get_key_value(&fence.lock));
        let Some((lock, token)) = newest else { return Ok(()) };
        let sql = "INSERT INTO data_fence VALUES ('stock', ?1, ?2, ?3)
            ON CONFLICT DO UPDATE SET token = ?3 WHERE token <> ?3";
        self.write(sql, (self.name, lock.as_str(), token.get() as i64))
    }

    fn sequence(&self) -> Result<Option<Sequence>, StoreError> {
        let sql = "SELECT last, day FROM data_sequence WHERE name = ?1";
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?));
        let Some((last, day)) = self.rows(sql, [self.name], read)?.pop() else { return Ok(None) };
        let day = day.map(|day| self.number(day)).transpose()?;
        Ok(Some(Sequence { last: self.number(last)?, day }))
    }
}

/// Stock.
impl Tables<'_> {
    fn stock(
        &self,
        now_us: u64,
        fence: Option<&Fence>,
        action: &StockAction,
    ) -> Result<Stock, StoreError> {
        let mut stock = Stock { fences: self.fences(fence)?, ..Stock::default() };
        let own = action.order().map_or("", Id::as_str);
        let sql = "SELECT id, until_us, state, lines, note, remember_us FROM data_order
            WHERE name = ?1 AND id = ?2";
        let due = "SELECT id, until_us, state, lines, note, remember_us FROM data_order
            WHERE name = ?1 AND until_us <= ?2 ORDER BY until_us, id LIMIT ?3";
        let mut found = self.rows(due, (self.name, now_us as i64, LOOK_BOUND), order_row)?;
        found.extend(self.rows(sql, (self.name, own), order_row)?);
        let mut items: Vec<Id> = match action {
            StockAction::Read { items } => items.clone(),
            StockAction::Restock { lines, .. } | StockAction::Take { lines, .. } => {
                lines.iter().map(|line| line.item.clone()).collect()
            }
            StockAction::Cancel { .. } | StockAction::Confirm { .. } => Vec::new(),
        };
        for row in found {
            let (id, until_us, order) = self.order(row)?;
            items.extend(order.lines.iter().map(|line| line.item.clone()));
            stock.orders.put(id, until_us, order);
        }
        let sql = "SELECT level FROM data_level WHERE name = ?1 AND item = ?2";
        for item in items {
            let levels = self.rows(sql, (self.name, item.as_str()), |row| row.get::<_, i64>(0))?;
            for level in levels {
                stock.levels.insert(item.clone(), self.number(level)?);
            }
        }
        Ok(stock)
    }

    fn order(&self, row: OrderRow) -> Result<(Id, u64, Order), StoreError> {
        let (id, until_us, state, lines, note, remember_us) = row;
        let state = STATES.iter().find(|(_, text)| *text == state).map(|(state, _)| *state);
        let lines: Option<Vec<Line>> = lines.lines().map(read_line).collect();
        let (Some(state), Some(lines)) = (state, lines) else {
            return Err(self.damaged("an order"));
        };
        let order = Order { state, lines, note, remember_us: self.number(remember_us)? };
        Ok((self.id(id)?, self.number(until_us)?, order))
    }

    fn save_stock(&self, before: &Stock, after: &Stock) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO data_level VALUES (?1, ?2, ?3)";
        for (item, level) in &after.levels {
            if before.levels.get(item) != Some(level) {
                self.write(sql, (self.name, item.as_str(), *level as i64))?;
            }
        }
        let sql = "DELETE FROM data_order WHERE name = ?1 AND id = ?2";
        for (id, _) in before.orders.iter().filter(|(id, _)| after.orders.get(id).is_none()) {
            self.write(sql, (self.name, id.as_str()))?;
        }
        for (id, (until_us, order)) in after.orders.iter() {
            if before.orders.get(id) != after.orders.get(id) {
                self.save_order(id, *until_us, order)?;
            }
        }
        Ok(())
    }

    fn save_order(&self, id: &Id, until_us: u64, order: &Order) -> Result<(), StoreError> {
        let Order { state, lines, note, remember_us } = order;
        let state = STATES.iter().find(|(found, _)| found == state).map_or("", |(_, text)| *text);
        // An id has no control characters, so a line of text holds it.
        let lines: String =
            lines.iter().map(|line| format!("{} {}\n", line.quantity, line.item)).collect();
        let sql = "INSERT OR REPLACE INTO data_order VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let (until_us, remember_us) = (until_us as i64, *remember_us as i64);
        self.write(sql, (self.name, id.as_str(), until_us, state, lines, note, remember_us))
    }
}

/// The states as text, readable for an operator.
const STATES: [(OrderState, &str); 4] = [
    (OrderState::Deducted, "deducted"),
    (OrderState::Reserved, "reserved"),
    (OrderState::Restocked, "restocked"),
    (OrderState::Returned, "returned"),
];

fn read_line(text: &str) -> Option<Line> {
    let (quantity, item) = text.split_once(' ')?;
    let quantity = quantity.parse().ok().filter(|quantity| *quantity <= stock::MAX_QUANTITY)?;
    Some(Line { item: Id::new("item", item).ok()?, quantity })
}

/// The columns of an order.
type OrderRow = (String, i64, String, String, String, i64);

fn order_row(row: &Row<'_>) -> rusqlite::Result<OrderRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
}
