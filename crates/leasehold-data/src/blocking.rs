//! The data parts without async.

use std::time::Duration;

use leasehold::__forward as forward;
use leasehold::Result;
use leasehold::blocking::Driver;
use leasehold::fence::Fence;

use crate::numbers::Number;
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
        make numbers(name: impl AsRef<str>) -> Numbers;
        make stock(name: impl AsRef<str>) -> Stock;
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
