//! The data parts without async.

use std::time::Duration;

use leasehold::__forward as forward;
use leasehold::blocking::Driver;
use leasehold::fence::Fence;
use leasehold::{Error, Result};

use crate::cell::Versioned;
use crate::model::Id;
use crate::model::queue::{Entry, MAX_BATCH};
use crate::numbers::Number;
use crate::queue::Progress;
use crate::stock::StockOutcome;
use crate::store::DataStore;

/// A type that forwards to the type of the same name in this crate's root.
macro_rules! forwarding {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Clone, Debug)]
        pub struct $name {
            inner: crate::$name,
            driver: Driver,
        }

        impl $name {
            fn new(inner: crate::$name, driver: &Driver) -> Self {
                Self { inner, driver: driver.clone() }
            }
        }
    };
}

/// Makes the data parts of one store, like [`crate::Data`].
#[derive(Clone, Debug)]
pub struct Data {
    inner: crate::Data,
    driver: Driver,
}

impl Data {
    /// Like [`crate::Data::connect`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Data::connect`].
    pub fn connect(url: impl AsRef<str>) -> Result<Self> {
        let driver = Driver::default();
        let inner = driver.wait(crate::Data::connect(url))?;
        Ok(Self { inner, driver })
    }

    /// Like [`crate::Data::memory`].
    pub fn memory() -> Self {
        Self { inner: crate::Data::memory(), driver: Driver::default() }
    }

    /// Like [`crate::Data::new`].
    pub fn new(store: impl DataStore) -> Self {
        Self { inner: crate::Data::new(store), driver: Driver::default() }
    }

    forward!("crate::Data" {
        make cell(name: impl AsRef<str>) -> Cell;
        make numbers(name: impl AsRef<str>) -> Numbers;
        make queue(name: impl AsRef<str>) -> Queue;
        make stock(name: impl AsRef<str>) -> Stock;
    });
}

forwarding! {
    /// A value that only the newest holder may change, like [`crate::Cell`].
    Cell
}

impl Cell {
    forward!("crate::Cell" {
        hold open(fence: impl Into<Fence>) -> Opened;
        wait read() -> Result<Versioned>;
        wait replace(version: u64, value: impl Into<Vec<u8>>) -> Result<Option<u64>>;
        wait write(value: impl Into<Vec<u8>>) -> Result<u64>;
    });
}

forwarding! {
    /// A cell that a holder has opened, like [`crate::Opened`].
    Opened
}

impl Opened {
    forward!("crate::Opened" {
        get value() -> &[u8];
        get version() -> u64;
        wait write(value: impl Into<Vec<u8>>) -> Result<u64>;
    });
}

forwarding! {
    /// Order numbers, like [`crate::Numbers`].
    Numbers
}

impl Numbers {
    forward!("crate::Numbers" {
        set block(count: u64);
        set strictly_increasing();
        set dated(minutes_east: i32);
        set per_second(count: u64);
        set short();
        set width(digits: usize);
        wait next() -> Result<Number>;
    });
}

forwarding! {
    /// A queue that producers on all machines share, like [`crate::Queue`].
    Queue
}

impl Queue {
    forward!("crate::Queue" {
        set remember(span: Duration);
        wait push(id: impl AsRef<str>, payload: impl Into<Vec<u8>>) -> Result<Progress>;
        wait progress(id: impl AsRef<str>) -> Result<Option<Progress>>;
        wait result(id: impl AsRef<str>) -> Result<Vec<u8>>;
        make open(fence: impl Into<Fence>) -> Drain;
    });
}

forwarding! {
    /// The consumer's end of a queue, like [`crate::Drain`].
    Drain
}

impl Drain {
    forward!("crate::Drain" {
        wait take(limit: usize) -> Result<Vec<Entry>>;
        wait finish(results: impl IntoIterator<Item = (Id, impl Into<Vec<u8>>)>) -> Result<u64>;
    });

    /// Like [`crate::Drain::drain`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Drain::drain`].
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

forwarding! {
    /// A stock of items, like [`crate::Stock`].
    Stock
}

impl Stock {
    forward!("crate::Stock" {
        set guarded(fence: impl Into<Fence>);
        set note(note: impl Into<String>);
        set remember(span: Duration);
        wait deduct(order: impl AsRef<str>, lines: impl IntoIterator<Item = (impl AsRef<str>, u64)>)
            -> Result<StockOutcome>;
        wait reserve(
            order: impl AsRef<str>,
            lines: impl IntoIterator<Item = (impl AsRef<str>, u64)>,
            span: Duration
        ) -> Result<StockOutcome>;
        wait confirm(order: impl AsRef<str>) -> Result<StockOutcome>;
        wait cancel(order: impl AsRef<str>) -> Result<StockOutcome>;
        wait restock(
            delivery: impl AsRef<str>,
            lines: impl IntoIterator<Item = (impl AsRef<str>, u64)>
        ) -> Result<()>;
        wait level(item: impl AsRef<str>) -> Result<u64>;
        wait levels(items: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<u64>>;
    });
}
