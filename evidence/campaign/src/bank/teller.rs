//! A process that makes transfers: it reads balances, thinks, and writes the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::fence::postgres::{FENCE, is_overtaken};
use leasehold::{Client, Error, Guard};
use leasehold_testkit::harness::{connect, retry};
use leasehold_testkit::{must, worker};
use tokio::runtime::Builder;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, NoTls};

use super::books::branch;
use super::{ACCOUNTS, BRANCHES, TTL, Transfers};
use crate::random::Random;

/// How long it waits for a lock, and thinks about a transfer.
const WAIT: Duration = Duration::from_secs(3);
const THOUGHT: Duration = Duration::from_millis(200);

/// The greatest amount of a transfer.
const MOST: usize = 100;

/// The job of a teller. Its arguments are the URL of the locks, the isolation level, whether it
/// calls the fence, and a seed. When told to stop, it prints how many transfers were refused.
pub(crate) fn work(arguments: &[String]) {
    let [url, level, transfers, seed] = arguments else { panic!("{arguments:?}") };
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    thread::spawn(move || {
        worker::listen();
        over.store(true, Ordering::Relaxed);
    });
    let runtime = must(Builder::new_multi_thread().worker_threads(1).enable_all().build());
    let refused = runtime.block_on(async {
        let mut teller = Teller {
            locks: connect(url).await,
            database: database(url),
            level,
            is_fenced: *transfers == Transfers::Fenced.word(),
            random: Random::new(must(seed.parse())),
            session: None,
        };
        let mut refused = 0;
        while !is_over.load(Ordering::Relaxed) {
            refused += u64::from(teller.turn().await);
        }
        refused
    });
    worker::say(&refused.to_string());
}

struct Teller<'a> {
    locks: Client,
    database: Config,
    level: &'a str,
    is_fenced: bool,
    random: Random,
    /// The application's session with the database.
    session: Option<tokio_postgres::Client>,
}

/// An amount that goes from one account of a branch to another.
struct Transfer {
    payer: i32,
    payee: i32,
    amount: i64,
}

impl Teller<'_> {
    /// Makes one transfer under the lock of a branch. Returns whether it was refused as overtaken.
    async fn turn(&mut self) -> bool {
        let branch = branch(self.level, self.random.below(BRANCHES as usize) as u32);
        let lock = self.locks.mutex(&branch).ttl(TTL);
        let guard = match lock.acquire_within(WAIT).await {
            Ok(guard) => guard,
            Err(error @ Error::Invalid(_)) => panic!("{error}"),
            // A fault of the servers makes it fail.
            Err(_) => return false,
        };
        let payer = self.random.below(ACCOUNTS as usize) as i32;
        let payee = (payer + 1 + self.random.below(ACCOUNTS as usize - 1) as i32) % ACCOUNTS as i32;
        let transfer = Transfer { payer, payee, amount: 1 + self.random.below(MOST) as i64 };
        let session = match self.session.take() {
            Some(session) => session,
            None => self.open_session().await,
        };
        let thought = self.random.up_to(THOUGHT);
        let made = self.make(&session, &guard, &transfer, thought).await;
        let code = made.as_ref().err().and_then(|error| error.code()).map(SqlState::code);
        if made.is_ok() {
            self.session = Some(session);
        }
        // If the lease is over, there is nothing to release, and a server may be away.
        drop(guard.release().await);
        code.is_some_and(is_overtaken)
    }

    /// Reads, thinks and writes, as applications do: only the lock protects the steps.
    async fn make(
        &self,
        session: &tokio_postgres::Client,
        guard: &Guard,
        transfer: &Transfer,
        thought: Duration,
    ) -> Result<(), tokio_postgres::Error> {
        let branch = guard.name().as_str();
        let token = must(i64::try_from(guard.token().get()));
        let Transfer { payer, payee, amount } = transfer;
        let select = "SELECT balance FROM bank.account WHERE branch = $1 AND number = $2";
        let payers: i64 = session.query_one(select, &[&branch, payer]).await?.get(0);
        let payees: i64 = session.query_one(select, &[&branch, payee]).await?.get(0);
        tokio::time::sleep(thought).await;
        session.batch_execute(&format!("BEGIN ISOLATION LEVEL {}", self.level)).await?;
        if self.is_fenced {
            session.execute(FENCE, &[&branch, &token]).await?;
        }
        let update = "UPDATE bank.account SET balance = $3 WHERE branch = $1 AND number = $2";
        for (account, balance) in [(payer, payers - amount), (payee, payees + amount)] {
            session.execute(update, &[&branch, account, &balance]).await?;
        }
        let book = "INSERT INTO bank.booking (branch, token, payer, payee, amount) \
                    VALUES ($1, $2, $3, $4, $5)";
        session.execute(book, &[&branch, &token, payer, payee, amount]).await?;
        session.batch_execute("COMMIT").await
    }

    async fn open_session(&self) -> tokio_postgres::Client {
        let (session, connection) = retry(async || self.database.connect(NoTls).await).await;
        tokio::spawn(connection);
        session
    }
}

/// The database with the locks of this URL, as an application finds its primary.
fn database(url: &str) -> Config {
    let (database, _) = url.split_once('?').unwrap_or((url, ""));
    let mut config: Config = must(database.parse());
    config.target_session_attrs(TargetSessionAttrs::ReadWrite).connect_timeout(WAIT);
    config
}
