//! The entry point without async.

use std::os::fd::OwnedFd;
use std::time::Duration;

use leasehold_core::{
    ClientId, Clock, Deadlock, FencingToken, Lease, LeaseOptions, LockName, Page, Result, Status,
};

use super::{Driver, Election, Guard, Job, Lock, RwLock, Semaphore};
use crate::event::Observer;
use crate::store::Store;

/// Gives locks, as [`crate::Client`] does.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    driver: Driver,
}

impl Client {
    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::builder().url(url.as_ref()).build()
    }

    /// As [`crate::Client::memory`].
    pub fn memory() -> Self {
        Self { inner: crate::Client::memory(), driver: Driver::default() }
    }

    /// As [`crate::Client::builder`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder(crate::Client::builder())
    }

    /// As [`crate::Client::mutex`].
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.inner.mutex(name), self.driver.clone())
    }

    /// As [`crate::Client::rwlock`].
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.inner.rwlock(name), self.driver.clone())
    }

    /// As [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>, capacity: u32) -> Semaphore {
        Semaphore::new(self.inner.semaphore(name, capacity), self.driver.clone())
    }

    /// As [`crate::Client::multi`].
    pub fn multi<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Lock {
        Lock::new(self.inner.multi(names), self.driver.clone())
    }

    /// As [`crate::Client::election`].
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.inner.election(name), self.driver.clone())
    }

    /// As [`crate::Client::job`].
    pub fn job(&self, name: impl AsRef<str>) -> Job {
        Job::new(self.inner.job(name), self.driver.clone())
    }

    /// As [`crate::Client::admin`].
    pub fn admin(&self) -> Admin {
        Admin { inner: self.inner.admin(), driver: self.driver.clone() }
    }

    /// As [`crate::Client::adopt`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn adopt(&self, lease: Lease) -> Result<Guard> {
        let guard = self.driver.wait(self.inner.adopt(lease))?;
        Ok(Guard::new(guard, self.driver.clone()))
    }

    /// As [`crate::Client::lifeline`].
    pub fn lifeline(&self) -> Option<OwnedFd> {
        self.inner.lifeline()
    }

    /// As [`crate::Client::close`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn close(self) -> Result<()> {
        self.driver.wait(self.inner.close())
    }
}

/// Makes a [`Client`], as [`crate::ClientBuilder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder(crate::ClientBuilder);

impl ClientBuilder {
    /// As [`crate::ClientBuilder::url`].
    pub fn url(self, url: impl Into<String>) -> Self {
        Self(self.0.url(url))
    }

    /// As [`crate::ClientBuilder::store`].
    pub fn store(self, store: impl Store) -> Self {
        Self(self.0.store(store))
    }

    /// As [`crate::ClientBuilder::defaults`].
    pub fn defaults(self, options: LeaseOptions) -> Self {
        Self(self.0.defaults(options))
    }

    /// As [`crate::ClientBuilder::drift`].
    pub fn drift(self, ratio: f64) -> Self {
        Self(self.0.drift(ratio))
    }

    /// As [`crate::ClientBuilder::clock`].
    pub fn clock(self, clock: impl Clock) -> Self {
        Self(self.0.clock(clock))
    }

    /// As [`crate::ClientBuilder::slice`].
    pub fn slice(self, slice: Duration) -> Self {
        Self(self.0.slice(slice))
    }

    /// As [`crate::ClientBuilder::on_behalf_of`].
    pub fn on_behalf_of(self, clients: impl IntoIterator<Item = ClientId>) -> Self {
        Self(self.0.on_behalf_of(clients))
    }

    /// As [`crate::ClientBuilder::observer`].
    pub fn observer(self, observer: impl Observer) -> Self {
        Self(self.0.observer(observer))
    }

    /// As [`crate::ClientBuilder::build`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn build(self) -> Result<Client> {
        let driver = Driver::default();
        let inner = driver.wait(self.0.build())?;
        Ok(Client { inner, driver })
    }
}

/// What an operator looks at and does, as [`crate::admin::Admin`].
#[derive(Clone, Debug)]
pub struct Admin {
    inner: crate::admin::Admin,
    driver: Driver,
}

impl Admin {
    /// As [`crate::admin::Admin::list`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn list(&self, prefix: &str, limit: u32) -> Result<Vec<LockName>> {
        self.driver.wait(self.inner.list(prefix, limit))
    }

    /// As [`crate::admin::Admin::list_all`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn list_all(&self, prefix: &str, limit: u32) -> Result<Vec<LockName>> {
        self.driver.wait(self.inner.list_all(prefix, limit))
    }

    /// As [`crate::admin::Admin::page`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn page(&self, prefix: &str, after: Option<&str>, keys: u32) -> Result<Page> {
        self.driver.wait(self.inner.page(prefix, after, keys))
    }

    /// As [`crate::admin::Admin::deadlocks`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn deadlocks(&self) -> Result<Vec<Deadlock>> {
        self.driver.wait(self.inner.deadlocks())
    }

    /// As [`crate::admin::Admin::inspect`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<Status> {
        self.driver.wait(self.inner.inspect(name))
    }

    /// As [`crate::admin::Admin::revoke`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn revoke(&self, name: impl AsRef<str>, token: FencingToken) -> Result<bool> {
        self.driver.wait(self.inner.revoke(name, token))
    }

    /// As [`crate::admin::Admin::revoke_now`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn revoke_now(&self, name: impl AsRef<str>, token: FencingToken) -> Result<bool> {
        self.driver.wait(self.inner.revoke_now(name, token))
    }

    /// As [`crate::admin::Admin::set_capacity`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_capacity(&self, name: impl AsRef<str>, capacity: u32) -> Result<Option<u32>> {
        self.driver.wait(self.inner.set_capacity(name, capacity))
    }

    /// As [`crate::admin::Admin::end_quarantine`].
    ///
    /// # Errors
    ///
    /// As [`crate::admin::Admin::end_quarantine`].
    pub fn end_quarantine(&self) -> Result<bool> {
        self.driver.wait(self.inner.end_quarantine())
    }
}
