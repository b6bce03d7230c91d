//! Several requests of one attempt: the answer "not replicated" to one takes nothing away from the
//! answer "yours" to another.

use leasehold::admin::{ClientId, HolderId};
use leasehold::error::StoreErrorKind;
use leasehold::store::{Redis, Store};
use leasehold::{Client, LockName};
use leasehold_core::{Action, Operation, Reply};
use leasehold_testkit::{Replicated, must, options_of};

use super::{TTL, connect, request, soon, until};

const ID: HolderId = HolderId { client: ClientId(7), attempt: 1 };

/// A primary with a replica, and stores that wait for the replica: one for a short time, and one
/// until a test continues the replica.
struct Pair {
    servers: Replicated,
    hasty: Redis,
    patient: Redis,
    /// This client waits for no replica.
    careless: Client,
    name: LockName,
}

impl Pair {
    async fn start(layout: &str) -> Self {
        let servers = must(Replicated::start(1));
        let url = format!("{}?layout={layout}", servers[0].url());
        let store = async |timeout| {
            must(Redis::open(options_of(&format!("{url}&replicas=1&timeout={timeout}"))).await)
        };
        let (hasty, patient) = (store("500ms").await, store("60s").await);
        let (careless, name) = (connect(&url).await, must(LockName::new("a")));
        Self { servers, hasty, patient, careless, name }
    }

    fn on(&self, action: Action) -> Operation {
        Operation::On { name: self.name.clone(), action }
    }

    /// Another client holds the lock and the attempt waits for it. Then the attempt is handed the
    /// lock while the replica hangs.
    async fn hand_over(&self) {
        let held = must(self.careless.mutex(&self.name).ttl(TTL).acquire().await);
        let joined = must(self.patient.execute(self.on(acquire())).await);
        assert!(matches!(joined.reply, Reply::Queued(_)), "{:?}", joined.reply);
        must(self.servers[1].stop());
        must(held.release().await);
    }

    /// Sends two requests of the attempt while the replica hangs. The first is answered before the
    /// replica goes on, and the second after it. A lease that was answered "yours" must hold.
    async fn ask_twice(self, [first, second]: [Action; 2]) {
        let (first, second) = (self.on(first), self.on(second));
        let patient = self.patient;
        let answer = tokio::spawn(async move { must(patient.execute(second).await) });
        until("it waits for the replica", async || {
            let clients = self.servers[0].info("clients");
            clients.is_ok_and(|clients| clients.contains("blocked_clients:1"))
        })
        .await;
        // A busy machine may delay the answer.
        let mut error = self.hasty.execute(first.clone()).await.unwrap_err();
        while error.kind() == StoreErrorKind::Timeout {
            error = self.hasty.execute(first.clone()).await.unwrap_err();
        }
        assert_eq!(error.kind(), StoreErrorKind::NotReplicated, "{error}");
        must(self.servers[1].cont());
        let answer = must(soon(answer).await);
        assert!(matches!(answer.reply, Reply::Granted(_)), "{:?}", answer.reply);
        let status = must(self.careless.admin().inspect(&self.name).await);
        let holders: Vec<_> = status.holders.iter().map(|holder| holder.id).collect();
        assert_eq!(holders, [ID], "what was answered \"yours\" is taken away");
        assert!(error.may_have_executed(), "it is for the caller to take back: {error}");
    }
}

fn acquire() -> Action {
    Action::Take(request(ID).with_ttl(TTL).with_waits(true))
}

fn poll() -> Action {
    Action::Take(request(ID).with_ttl(TTL).with_waits(true).with_place(Some(1)))
}

#[tokio::test]
async fn a_claim_that_is_not_acknowledged_takes_nothing_from_one_that_is() {
    let pair = Pair::start("native").await;
    pair.hand_over().await;
    pair.ask_twice([poll(), poll()]).await;
}

#[tokio::test]
async fn an_acquire_that_is_not_acknowledged_takes_nothing_from_a_copy_that_is() {
    for layout in ["native", "plain", "redisson"] {
        let pair = Pair::start(layout).await;
        must(pair.servers[1].stop());
        pair.ask_twice([acquire(), acquire()]).await;
    }
}

#[tokio::test]
async fn an_acquire_and_a_claim_of_one_attempt_take_nothing_from_each_other() {
    for questions in [[acquire(), poll()], [poll(), acquire()]] {
        let pair = Pair::start("native").await;
        pair.hand_over().await;
        pair.ask_twice(questions).await;
    }
}
