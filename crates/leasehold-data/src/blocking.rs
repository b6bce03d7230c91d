//! The data parts without async.

use std::time::Duration;

use leasehold::blocking::Driver;
use leasehold::fence::Fence;
use leasehold::{Error, Result};

use crate::cell::Versioned;
use crate::model::Id;
use crate::model::queue::{Entry, MAX_BATCH};
use crate::numbers::Number;
use crate::queue::Progress;
use crate::stock::Outcome;
use crate::store::DataStore;

/// Gives the data parts of one store, as [`crate::Data`].
#[derive(Clone, Debug)]
pub struct Data {
    inner: crate::Data,
    driver: Driver,
}

impl Data {
    /// As [`crate::Data::connect`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn connect(url: impl AsRef<str>) -> Result<Self> {
        let driver = Driver::default();
        let inner = driver.wait(crate::Data::connect(url))?;
        Ok(Self { inner, driver })
    }

    /// As [`crate::Data::memory`].
    pub fn memory() -> Self {
        Self { inner: crate::Data::memory(), driver: Driver::default() }
    }

    /// As [`crate::Data::new`].
    pub fn new(store: impl DataStore) -> Self {
        Self { inner: crate::Data::new(store), driver: Driver::default() }
    }

    /// As [`crate::Data::cell`].
    pub fn cell(&self, name: impl AsRef<str>) -> Cell {
        Cell { inner: self.inner.cell(name), driver: self.driver.clone() }
    }

    /// As [`crate::Data::numbers`].
    pub fn numbers(&self, name: impl AsRef<str>) -> Numbers {
        Numbers { inner: self.inner.numbers(name), driver: self.driver.clone() }
    }

    /// As [`crate::Data::queue`].
    pub fn queue(&self, name: impl AsRef<str>) -> Queue {
        Queue { inner: self.inner.queue(name), driver: self.driver.clone() }
    }

    /// As [`crate::Data::stock`].
    pub fn stock(&self, name: impl AsRef<str>) -> Stock {
        Stock { inner: self.inner.stock(name), driver: self.driver.clone() }
    }
}

/// A value that only the newest holder may change, as [`crate::Cell`].
#[derive(Clone, Debug)]
pub struct Cell {
    inner: crate::Cell,
    driver: Driver,
}

impl Cell {
    /// As [`crate::Cell::open`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn open(&self, fence: impl Into<Fence>) -> Result<Opened> {
        let inner = self.driver.wait(self.inner.open(fence))?;
        Ok(Opened { inner, driver: self.driver.clone() })
    }

    /// As [`crate::Cell::read`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn read(&self) -> Result<Versioned> {
        self.driver.wait(self.inner.read())
    }

    /// As [`crate::Cell::replace`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn replace(&self, version: u64, value: impl Into<Vec<u8>>) -> Result<Option<u64>> {
        self.driver.wait(self.inner.replace(version, value))
    }

    /// As [`crate::Cell::write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn write(&self, value: impl Into<Vec<u8>>) -> Result<u64> {
        self.driver.wait(self.inner.write(value))
    }
}

/// A cell that a holder has opened, as [`crate::Opened`].
#[derive(Clone, Debug)]
pub struct Opened {
    inner: crate::Opened,
    driver: Driver,
}

impl Opened {
    /// As [`crate::Opened::value`].
    pub fn value(&self) -> &[u8] {
        self.inner.value()
    }

    /// As [`crate::Opened::version`].
    pub fn version(&self) -> u64 {
        self.inner.version()
    }

    /// As [`crate::Opened::write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn write(&self, value: impl Into<Vec<u8>>) -> Result<u64> {
        self.driver.wait(self.inner.write(value))
    }
}

/// Order numbers, as [`crate::Numbers`].
#[derive(Clone, Debug)]
pub struct Numbers {
    inner: crate::Numbers,
    driver: Driver,
}

impl Numbers {
    /// As [`crate::Numbers::block`].
    pub fn block(self, count: u64) -> Self {
        Self { inner: self.inner.block(count), ..self }
    }

    /// As [`crate::Numbers::strictly_increasing`].
    pub fn strictly_increasing(self) -> Self {
        Self { inner: self.inner.strictly_increasing(), ..self }
    }

    /// As [`crate::Numbers::dated`].
    pub fn dated(self, minutes_east: i32) -> Self {
        Self { inner: self.inner.dated(minutes_east), ..self }
    }

    /// As [`crate::Numbers::per_second`].
    pub fn per_second(self, count: u64) -> Self {
        Self { inner: self.inner.per_second(count), ..self }
    }

    /// As [`crate::Numbers::short`].
    pub fn short(self) -> Self {
        Self { inner: self.inner.short(), ..self }
    }

    /// As [`crate::Numbers::width`].
    pub fn width(self, digits: usize) -> Self {
        Self { inner: self.inner.width(digits), ..self }
    }

    /// As [`crate::Numbers::next`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next(&self) -> Result<Number> {
        self.driver.wait(self.inner.next())
    }
}

/// A queue that producers on all machines share, as [`crate::Queue`].
#[derive(Clone, Debug)]
pub struct Queue {
    inner: crate::Queue,
    driver: Driver,
}

impl Queue {
    /// As [`crate::Queue::remember`].
    pub fn remember(self, span: Duration) -> Self {
        Self { inner: self.inner.remember(span), ..self }
    }

    /// As [`crate::Queue::push`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn push(&self, id: impl AsRef<str>, payload: impl Into<Vec<u8>>) -> Result<Progress> {
        self.driver.wait(self.inner.push(id, payload))
    }

    /// As [`crate::Queue::progress`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn progress(&self, id: impl AsRef<str>) -> Result<Option<Progress>> {
        self.driver.wait(self.inner.progress(id))
    }

    /// As [`crate::Queue::result`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn result(&self, id: impl AsRef<str>) -> Result<Vec<u8>> {
        self.driver.wait(self.inner.result(id))
    }

    /// As [`crate::Queue::open`].
    pub fn open(&self, fence: impl Into<Fence>) -> Drain {
        Drain { inner: self.inner.open(fence), driver: self.driver.clone() }
    }
}

/// The end of a queue at which a holder works, as [`crate::Drain`].
#[derive(Clone, Debug)]
pub struct Drain {
    inner: crate::Drain,
    driver: Driver,
}

impl Drain {
    /// As [`crate::Drain::take`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn take(&self, limit: usize) -> Result<Vec<Entry>> {
        self.driver.wait(self.inner.take(limit))
    }

    /// As [`crate::Drain::finish`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn finish<R: Into<Vec<u8>>>(
        &self,
        results: impl IntoIterator<Item = (Id, R)>,
    ) -> Result<u64> {
        self.driver.wait(self.inner.finish(results))
    }

    /// As [`crate::Drain::drain`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn drain<R: Into<Vec<u8>>, E: From<Error>>(
        &self,
        mut work: impl FnMut(&Entry) -> std::result::Result<R, E>,
    ) -> std::result::Result<u64, E> {
        let mut done = 0;
        loop {
            let entries = self.take(MAX_BATCH)?;
            if entries.is_empty() {
                return Ok(done);
            }
            for entry in entries {
                let result = work(&entry)?;
                done += self.finish([(entry.id, result)])?;
            }
        }
    }
}

/// A stock of items, as [`crate::Stock`].
#[derive(Clone, Debug)]
pub struct Stock {
    inner: crate::Stock,
    driver: Driver,
}

impl Stock {
    /// As [`crate::Stock::guarded`].
    pub fn guarded(self, fence: impl Into<Fence>) -> Self {
        Self { inner: self.inner.guarded(fence), ..self }
    }

    /// As [`crate::Stock::note`].
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { inner: self.inner.note(note), ..self }
    }

    /// As [`crate::Stock::remember`].
    pub fn remember(self, span: Duration) -> Self {
        Self { inner: self.inner.remember(span), ..self }
    }

    /// As [`crate::Stock::deduct`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn deduct<I: AsRef<str>>(
        &self,
        order: impl AsRef<str>,
        lines: impl IntoIterator<Item = (I, u64)>,
    ) -> Result<Outcome> {
        self.driver.wait(self.inner.deduct(order, lines))
    }

    /// As [`crate::Stock::reserve`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve<I: AsRef<str>>(
        &self,
        order: impl AsRef<str>,
        lines: impl IntoIterator<Item = (I, u64)>,
        span: Duration,
    ) -> Result<Outcome> {
        self.driver.wait(self.inner.reserve(order, lines, span))
    }

    /// As [`crate::Stock::confirm`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn confirm(&self, order: impl AsRef<str>) -> Result<Outcome> {
        self.driver.wait(self.inner.confirm(order))
    }

    /// As [`crate::Stock::cancel`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn cancel(&self, order: impl AsRef<str>) -> Result<Outcome> {
        self.driver.wait(self.inner.cancel(order))
    }

    /// As [`crate::Stock::restock`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn restock<I: AsRef<str>>(
        &self,
        delivery: impl AsRef<str>,
        lines: impl IntoIterator<Item = (I, u64)>,
    ) -> Result<()> {
        self.driver.wait(self.inner.restock(delivery, lines))
    }

    /// As [`crate::Stock::level`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn level(&self, item: impl AsRef<str>) -> Result<u64> {
        self.driver.wait(self.inner.level(item))
    }

    /// As [`crate::Stock::levels`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn levels<I: AsRef<str>>(&self, items: impl IntoIterator<Item = I>) -> Result<Vec<u64>> {
        self.driver.wait(self.inner.levels(items))
    }
}
