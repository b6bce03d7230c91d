//! Finds the primary of a service: its sentinels name a server, and that server must confirm it.

use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::backoff::Jitter;
use leasehold_core::{BoxFuture, StoreError, StoreErrorKind};
use redis::{FromRedisValue, Value};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::switches::SwitchListener;
use crate::mutex::Mutex;
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::pushes::PushSender;
use crate::store::redis::connection::{Connection, error};
use crate::store::redis::durability::{Server, ServerDialer};
use crate::store::redis::options::Address;
use crate::store::redis::topology::pool::Open;
use crate::store::redis::topology::role::{expect_primary, field};

/// How long to wait for a majority of the sentinels once one has answered: 100 ms, far above a
/// round trip and far below a failover. The whole time passes only if half of the sentinels hang.
/// Once there is a majority, the others have as much time again as the majority took.
const GRACE: Duration = Duration::from_millis(100);

/// The shortest and the longest pause before the sentinels are asked again, if the server that they
/// named is not usable: 300 to 500 ms. A failover takes seconds, all clients ask at the same time,
/// and clients with two runtimes ask twice.
const PAUSE: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(500));

/// The part of the time for opening a connection that one server gets: a third. So if a primary
/// hangs, there is time to ask the sentinels again for its successor.
const SHARE: u32 = 3;

/// Opens connections to the primary of a service.
#[derive(Debug)]
pub(crate) struct Discovery {
    to_servers: ServerDialer,
    /// Listens to the sentinels, which are also asked.
    switches: Arc<SwitchListener>,
    jitter: Mutex<Jitter>,
}

/// The answer of one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Opinion {
    primary: Address,
    /// The number of the failover that made the server the primary; zero if it is not known.
    epoch: u64,
}

impl Discovery {
    pub(crate) fn new(
        to_servers: ServerDialer,
        to_sentinels: Dialer,
        sentinels: &[Address],
        service: &str,
    ) -> Self {
        let jitter = Mutex::new(Jitter::new(RandomState::new().hash_one(service)));
        let switches = SwitchListener::new(service, sentinels, to_sentinels);
        Self { to_servers, switches, jitter }
    }

    /// Opens a connection for messages to a server that confirms that it is a primary.
    pub(super) async fn dial_for_messages(
        &self,
        address: &Address,
        pushes: PushSender,
    ) -> Result<Connection, StoreError> {
        let dialling = self.to_servers.dialer.dial(address, Some(pushes));
        self.to_primary(address, dialling, |it| it).await
    }

    /// Opens something at a server, and checks that the server confirms that it is a primary.
    async fn to_primary<C>(
        &self,
        address: &Address,
        dialling: impl Future<Output = Result<C, StoreError>>,
        connection: fn(&C) -> &Connection,
    ) -> Result<C, StoreError> {
        let limit = self.to_servers.dialer.connect_timeout / SHARE;
        let opening = async {
            let opened = dialling.await?;
            expect_primary(connection(&opened)).await?;
            self.switches.watch(connection(&opened));
            Ok(opened)
        };
        let outcome = timeout(limit, opening).await.unwrap_or_else(|_| {
            let why = format!("{address}: the server does not answer");
            Err(StoreError::new(StoreErrorKind::Timeout, why))
        });
        outcome.map_err(|error: StoreError| {
            let why = format!("the primary of {:?} at {error}", self.switches.service);
            StoreError::new(error.kind(), why).with_source(error)
        })
    }

    /// Opens a connection to the server that the sentinels name, once the server confirms it.
    /// During a failover, they may still name the old primary, or one that has not taken over yet.
    async fn find(&self) -> Result<Server, StoreError> {
        let until = Instant::now() + self.open_limit();
        loop {
            let mut failure = None;
            for address in rank(&self.ask_all().await?) {
                match self.to_primary(&address, self.to_servers.dial(&address), |it| it).await {
                    Ok(server) => return Ok(server),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            let pause = self.jitter.lock().between(PAUSE.0, PAUSE.1);
            match failure {
                Some(error) if !error.kind().is_transient() => return Err(error),
                Some(error) if Instant::now() + pause >= until => return Err(error),
                Some(_) | None => sleep(pause).await,
            }
        }
    }

    /// The answers of the sentinels, at least one.
    ///
    /// Just after a failover only the sentinel that led it knows the new primary. So the answers of
    /// all sentinels count, if they come about as fast as those of the majority. Sentinels that
    /// hang delay nobody.
    async fn ask_all(&self) -> Result<Vec<Opinion>, StoreError> {
        let sentinels = &self.switches.sentinels;
        let mut asking: FuturesUnordered<_> =
            sentinels.iter().map(|sentinel| self.ask(sentinel)).collect();
        let (mut opinions, mut refusals) = (Vec::new(), Vec::new());
        let began = Instant::now();
        let mut until = None;
        loop {
            let answer = match until {
                None => asking.next().await,
                Some(until) => timeout_at(until, asking.next()).await.unwrap_or(None),
            };
            match answer {
                None => break,
                Some(Err(refusal)) => refusals.push(refusal),
                Some(Ok(opinion)) => {
                    opinions.push(opinion);
                    if opinions.len() > sentinels.len() / 2 {
                        until = Some(Instant::now() + began.elapsed());
                    } else {
                        until = until.or(Some(Instant::now() + GRACE));
                    }
                }
            }
        }
        if opinions.is_empty() { Err(self.nobody(&refusals)) } else { Ok(opinions) }
    }

    async fn ask(&self, sentinel: &Address) -> Result<Opinion, StoreError> {
        let SwitchListener { service, to_sentinels, .. } = &*self.switches;
        let connection = to_sentinels.dial(sentinel, None).await?;
        let mut questions = redis::pipe();
        // The first command shows a failover earlier than the second command does, but only the
        // second replies with the epoch.
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        questions.cmd("SENTINEL").arg("MASTER").arg(service);
        let answers = connection.ask_all(&questions).await?;
        let mut answers = answers.into_iter();
        let primary = self.primary(sentinel, answers.next())?;
        let epoch = answers.next().and_then(|state| field(state, "config-epoch")?.parse().ok());
        Ok(Opinion { primary, epoch: epoch.unwrap_or(0) })
    }

    fn primary(&self, sentinel: &Address, answer: Option<Value>) -> Result<Address, StoreError> {
        let unsupported =
            |why| Err(StoreError::new(StoreErrorKind::Unsupported, format!("{sentinel}: {why}")));
        match answer {
            Some(Value::Nil) => unsupported(format!(
                "the sentinel monitors no service {:?}: is the name in the store URL right?",
                self.switches.service
            )),
            Some(Value::ServerError(refusal)) => match refusal.details() {
                Some(details) if details.starts_with("unknown command") => unsupported(
                    "the server is no sentinel: give a primary itself by redis://".to_owned(),
                ),
                _ => Err(error::refused(&sentinel.to_string(), &refusal)),
            },
            answer => {
                let named = answer.and_then(|it| <(String, u16)>::from_redis_value(it).ok());
                let named = named.map(|(host, port)| Address { host, port });
                named.ok_or_else(|| error::unexpected_reply(&sentinel.to_string(), "SENTINEL"))
            }
        }
    }

    /// The error if no sentinel has named a primary: the most informative refusal. The error is
    /// final only if no refusal can pass by itself.
    fn nobody(&self, refusals: &[StoreError]) -> StoreError {
        let mut sorted: Vec<_> = refusals.iter().collect();
        sorted.sort_by_key(|refusal| refusal.kind().is_transient());
        let (first, last) = (sorted.first(), sorted.last());
        let why = first.map(ToString::to_string).unwrap_or_default();
        let kind = last.map_or(StoreErrorKind::Unreachable, |refusal| refusal.kind());
        let service = &self.switches.service;
        StoreError::new(kind, format!("no sentinel names the primary of {service:?}: {why}"))
    }
}

impl Open for Discovery {
    type Target = ();

    fn open(self: Arc<Self>, (): ()) -> BoxFuture<'static, Result<Server, StoreError>> {
        Box::pin(async move { self.find().await })
    }

    fn open_limit(&self) -> Duration {
        self.to_servers.dialer.connect_timeout
    }
}

/// The named servers, the most credible first: the server of the latest failover, then the one that
/// most sentinels name.
fn rank(opinions: &[Opinion]) -> Vec<Address> {
    let mut named: Vec<(u64, usize, Address)> = Vec::new();
    for Opinion { primary, epoch } in opinions {
        match named.iter_mut().find(|(.., address)| address == primary) {
            Some((newest, votes, _)) => {
                *newest = (*newest).max(*epoch);
                *votes += 1;
            }
            None => named.push((*epoch, 1, primary.clone())),
        }
    }
    named.sort_by_key(|(epoch, votes, _)| Reverse((*epoch, *votes)));
    named.into_iter().map(|(.., address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_by(opinions: &[(u16, u64)]) -> Vec<u16> {
        let at = |port| Address { host: "h".into(), port };
        let opinions: Vec<_> = opinions
            .iter()
            .map(|(port, epoch)| Opinion { primary: at(*port), epoch: *epoch })
            .collect();
        rank(&opinions).into_iter().map(|address| address.port).collect()
    }

    #[test]
    fn the_latest_failover_counts_more_than_the_number_of_sentinels() {
        assert_eq!(named_by(&[(1, 3), (1, 3), (2, 4)]), [2, 1]);
        assert_eq!(named_by(&[(2, 4), (1, 3), (1, 5)]), [1, 2]);
    }

    #[test]
    fn without_epochs_the_majority_counts() {
        assert_eq!(named_by(&[(1, 0), (2, 0), (2, 0)]), [2, 1]);
        assert_eq!(named_by(&[(7, 0)]), [7]);
    }
}
