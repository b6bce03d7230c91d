//! Another server becomes the primary, planned or not, and users of the library notice a pause.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::blocking::wait;
use leasehold::store::{Redis, Store as _};
use leasehold::{Client, FencingToken, LockName};
use leasehold_core::{Action, ClientId, HolderId, Operation, Reply};
use leasehold_testkit::history::{History, Violation};
use leasehold_testkit::{Contenders, Data, SentinelFleet, Work, must, options_of};
use tokio::task::JoinSet;

use crate::{LONG, SHORT, connect, queued, request, retry, soon, until_so};

/// How long nobody may hold while somebody waits: a failover and the lease of a lost holder, on a
/// busy machine.
const LONGEST_GAP: Duration = Duration::from_secs(45);

/// Three tasks of each of two clients, which take turns at one lock.
async fn crowd(fleet: &SentinelFleet) -> Contenders {
    let clients = [connect(fleet.url()).await, connect(fleet.url()).await];
    Contenders::crowd(Work::Brief, &clients, 3, SHORT)
}

/// Two servers that both were the primary for a while may have granted one lock at the same time.
/// Two holders write in any order. Nothing else may have happened.
fn assert_only_overlaps(history: &History) {
    let mut violations = history.violations_if_forgotten(LONGEST_GAP);
    violations.retain(|what| !matches!(what, Violation::Overlap | Violation::WriteOrder));
    assert!(violations.is_empty(), "{violations:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d7_a_planned_hand_over_costs_no_lease_and_no_waiter() {
    let fleet = SentinelFleet::start().unwrap();
    let (client, other) = (connect(fleet.url()).await, connect(fleet.url()).await);
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.mutex("a").acquire().await });
    queued(&client, "a", 1).await;
    fleet.servers().hand_over(1).unwrap();
    retry(async || guard.renew().await).await;
    assert!(guard.is_held() && !waiting.is_finished());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    assert_eq!(fleet.wait_for_another_primary(0).unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d7_planned_hand_overs_under_contention_break_nothing() {
    let fleet = SentinelFleet::start().unwrap();
    let crowd = crowd(&fleet).await;
    for (from, to) in [(0, 1), (1, 0)] {
        crowd.go_round().await;
        fleet.servers().hand_over(to).unwrap();
        fleet.wait_for_another_primary(from).unwrap();
        crowd.go_round().await;
        fleet.servers().wait_in_sync().unwrap();
        fleet.wait_acquainted().unwrap();
    }
    crowd.history().await.check(LONGEST_GAP);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_replaced_and_nobody_is_left_behind() {
    let mut fleet = SentinelFleet::start().unwrap();
    let crowd = crowd(&fleet).await;
    for from in [0, 1] {
        crowd.go_round().await;
        fleet.servers_mut()[from].kill9().unwrap();
        fleet.wait_for_another_primary(from).unwrap();
        crowd.go_round().await;
        fleet.servers_mut()[from].restart(Data::Kept).unwrap();
        fleet.servers().wait_in_sync().unwrap();
        fleet.wait_acquainted().unwrap();
    }
    assert_only_overlaps(&crowd.history().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_a_thousand_names_have_one_holder_each_if_the_replica_has_their_grants() {
    let mut fleet = SentinelFleet::start().unwrap();
    let contenders = Contenders::walk(&format!("{}?replicas=1", fleet.url()), "", SHORT).await;
    contenders.take_all().await;
    fleet.servers_mut()[0].kill9().unwrap();
    fleet.wait_for_another_primary(0).unwrap();
    fleet.servers_mut()[0].restart(Data::Kept).unwrap();
    contenders.take_all().await;
    contenders.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_a_stopped_primary_that_comes_back_is_used_as_a_replica() {
    let fleet = SentinelFleet::start().unwrap();
    let crowd = crowd(&fleet).await;
    crowd.go_round().await;
    fleet.servers()[0].stop().unwrap();
    fleet.wait_for_another_primary(0).unwrap();
    crowd.go_round().await;
    fleet.servers()[0].cont().unwrap();
    fleet.servers().wait_in_sync().unwrap();
    assert_eq!(fleet.primary(), Some(1));
    crowd.go_round().await;
    assert_only_overlaps(&crowd.history().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d8_a_call_that_a_demoted_server_refuses_goes_on_at_the_new_primary() {
    let fleet = SentinelFleet::start().unwrap();
    // The sentinels take the time of another election if their first one has no winner.
    let store = Redis::open(options_of(&(fleet.url() + "?timeout=60s"))).await.unwrap();
    let take = |name| {
        let id = HolderId { client: ClientId(1), attempt: 1 };
        Operation::On { name: LockName::new(name).unwrap(), action: Action::Take(request(id)) }
    };
    store.execute(take("a")).await.unwrap();
    fleet.servers().hand_over(1).unwrap();
    // The connection leads to a server that is a replica now, which the sentinels do not know yet.
    // The store asks once for each call, so the call must see no refusal.
    let answer = store.execute(take("b")).await.unwrap();
    assert!(matches!(answer.reply, Reply::Granted(_)), "{answer:?}");
    let errors = fleet.servers()[0].info("errorstats").unwrap();
    let refused = errors.lines().find(|line| line.starts_with("errorstat_READONLY:"));
    // A SET and its number are refused together.
    assert!(refused.is_none_or(|line| line.ends_with(":count=2")), "{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d12_a_replica_is_not_asked_who_holds() {
    let fleet = SentinelFleet::start().unwrap();
    let client = connect(fleet.url()).await;
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    fleet.servers().hand_over(1).unwrap();
    fleet.wait_for_another_primary(0).unwrap();
    fleet.servers()[0].command::<()>("CONFIG RESETSTAT").unwrap();
    let status = client.admin().inspect(guard.name()).await.unwrap();
    assert_eq!(status.holders[0].id, guard.holder());
    assert_eq!(client.admin().list("", 10).await.unwrap(), [guard.name().clone()]);
    for command in ["evalsha", "get", "scan"] {
        assert_eq!(fleet.servers()[0].command_stats(command).unwrap().0, 0, "{command}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d13_two_hundred_waiters_are_each_served_once_after_a_failover() {
    const CLIENTS: u32 = 10;
    const WAITERS_EACH: u32 = 20;
    let mut fleet = SentinelFleet::start().unwrap();
    let first = connect(fleet.url()).await;
    let guard = first.mutex("a").ttl(SHORT).acquire().await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..CLIENTS {
        // Each waiter stands in the queue of the store.
        let builder = Client::builder().url(fleet.url()).slice(Duration::ZERO);
        let client = builder.build().await.unwrap();
        for _ in 0..WAITERS_EACH {
            let lock = client.mutex("a").ttl(SHORT);
            waiting.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                let token = guard.token();
                // The result of the release does not matter: the lease is short.
                drop(guard.release().await);
                token
            });
        }
    }
    queued(&first, "a", CLIENTS * WAITERS_EACH).await;
    fleet.servers_mut()[0].kill9().unwrap();
    fleet.wait_for_another_primary(0).unwrap();
    drop(guard.release().await);
    let mut tokens = BTreeSet::<FencingToken>::new();
    while let Some(token) = soon(waiting.join_next()).await {
        assert!(tokens.insert(token.unwrap()), "one token was granted twice");
    }
    assert_eq!(tokens.len(), (CLIENTS * WAITERS_EACH) as usize);
    let name = LockName::new("a").unwrap();
    assert_eq!(first.admin().inspect(&name).await.unwrap().waiting, 0, "nobody joined twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d15_a_switch_message_that_is_missed_is_no_matter() {
    let mut fleet = SentinelFleet::start().unwrap();
    let client = connect(fleet.url()).await;
    let guard = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    fleet.servers().wait_in_sync().unwrap();
    // A listener is back after the pause between two tries, while the primary is dead.
    fleet.servers_mut()[0].kill9().unwrap();
    while fleet.servers().primary() != Some(1) {
        for sentinel in fleet.sentinels() {
            sentinel.command::<u32>("CLIENT KILL TYPE pubsub").unwrap();
        }
    }
    retry(async || guard.renew().await).await;
    guard.release().await.unwrap();
}

/// From now on, the sentinels leave an old primary as it is for four times the period here.
fn leave_old_primaries(fleet: &SentinelFleet) {
    for sentinel in fleet.sentinels() {
        must(sentinel.command::<()>("SENTINEL DEBUG publish-period 60000"));
    }
}

/// The runtime of a blocking client runs only while a verb waits.
#[test]
fn the_keeper_of_a_blocking_client_leaves_a_replaced_primary_while_its_caller_works() {
    let fleet = must(SentinelFleet::start());
    let url = fleet.url() + "?timeout=20s";
    let client = must(wait(Client::connect(url)));
    let guard = must(wait(client.mutex("a").ttl(LONG).acquire()));
    must(fleet.servers().wait_in_sync());
    leave_old_primaries(&fleet);
    assert_eq!(must(fleet.fail_over()), 1);
    // No replica has run a script before. The keeper asks because its inbox has moved.
    let scripts = || must(fleet.servers()[1].command_stats("evalsha")).0;
    until_so("the keeper asks the new primary", || scripts() > 0);
    assert!(guard.is_held());
    assert_eq!(fleet.servers()[0].role().as_deref(), Some("master"), "it would refuse by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_is_left_before_it_knows_that() {
    let fleet = SentinelFleet::start().unwrap();
    let client = connect(fleet.url()).await;
    client.mutex("a").acquire().await.unwrap().release().await.unwrap();
    leave_old_primaries(&fleet);
    assert_eq!(fleet.fail_over().unwrap(), 1);
    retry(async || {
        let guard = client.mutex("b").acquire().await.unwrap();
        let at_new: bool = fleet.servers()[1].command("EXISTS lh:{b}").unwrap();
        drop(guard.release().await);
        if at_new { Ok(()) } else { Err("the old primary is still asked") }
    })
    .await;
    assert_eq!(fleet.servers()[0].role().as_deref(), Some("master"), "it would refuse by itself");
}
