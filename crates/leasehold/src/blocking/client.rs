//! The client without async: the entry point of the blocking API.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::time::Duration;

use leasehold_core::{
    ClientId, Clock, Deadlock, FencingToken, Lease, LeaseOptions, LockName, Page, Result, Status,
};

use super::forward::forward;
use super::{Driver, Election, Guard, Lock, RwLock, Semaphore};
use crate::event::Observer;
use crate::store::Store;

/// A connection to a store, for making locks, like [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    driver: Driver,
}

impl Client {
    /// Like [`crate::Client::connect`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Client::connect`].
    pub fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::builder().url(url.as_ref()).build()
    }

    /// Like [`crate::Client::memory`].
    pub fn memory() -> Self {
        Self { inner: crate::Client::memory(), driver: Driver::default() }
    }

    /// Like [`crate::Client::builder`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder { inner: crate::Client::builder(), driver: Driver::default() }
    }

    forward!("crate::Client" {
        make mutex(name: impl AsRef<str>) -> Lock;
        make rwlock(name: impl AsRef<str>) -> RwLock;
        make semaphore(name: impl AsRef<str>, capacity: u32) -> Semaphore;
        make multi(names: impl IntoIterator<Item = impl AsRef<str>>) -> Lock;
        make election(name: impl AsRef<str>) -> Election;
        make admin() -> Admin;
        hold adopt(lease: Lease) -> Guard;
    });

    /// Like [`crate::Client::lifeline`].
    #[cfg(unix)]
    pub fn lifeline(&self) -> Option<OwnedFd> {
        self.inner.lifeline()
    }

    /// Like [`crate::Client::close`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::Client::close`].
    pub fn close(self) -> Result<()> {
        self.driver.wait(self.inner.close())
    }
}

/// Builds a [`Client`], like [`crate::ClientBuilder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    inner: crate::ClientBuilder,
    driver: Driver,
}

impl ClientBuilder {
    forward!("crate::ClientBuilder" {
        set url(url: impl Into<String>);
        set store(store: impl Into<Box<dyn Store>>);
        set defaults(options: LeaseOptions);
        set drift(ratio: f64);
        set clock(clock: impl Clock);
        set slice(slice: Duration);
        set on_behalf_of(clients: impl IntoIterator<Item = ClientId>);
        set observer(observer: impl Observer);
    });

    /// Like [`crate::ClientBuilder::build`].
    ///
    /// # Errors
    ///
    /// The same as [`crate::ClientBuilder::build`].
    pub fn build(self) -> Result<Client> {
        let inner = self.driver.wait(self.inner.build())?;
        Ok(Client { inner, driver: self.driver })
    }
}

/// The methods for operators, like [`crate::admin::Admin`].
#[derive(Clone, Debug)]
pub struct Admin {
    inner: crate::admin::Admin,
    driver: Driver,
}

impl Admin {
    fn new(inner: crate::admin::Admin, driver: &Driver) -> Self {
        Self { inner, driver: driver.clone() }
    }

    forward!("crate::admin::Admin" {
        wait list(prefix: &str, limit: u32) -> Result<Vec<LockName>>;
        wait list_all(prefix: &str, limit: u32) -> Result<Vec<LockName>>;
        wait page(prefix: &str, after: Option<&str>, keys: u32) -> Result<Page>;
        wait deadlocks() -> Result<Vec<Deadlock>>;
        wait inspect(name: impl AsRef<str>) -> Result<Status>;
        wait revoke(name: impl AsRef<str>, token: FencingToken) -> Result<bool>;
        wait revoke_now(name: impl AsRef<str>, token: FencingToken) -> Result<bool>;
        wait set_capacity(name: impl AsRef<str>, capacity: u32) -> Result<Option<u32>>;
        wait end_quarantine() -> Result<bool>;
    });
}
