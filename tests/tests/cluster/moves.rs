//! Slots that move to another node while their names are held and awaited.

use leasehold::lease::Renewal;
use leasehold::{Client, Error, LockName};
use leasehold_testkit::harness::until;
use leasehold_testkit::{Cluster, Contenders, must};

use super::{LONG, TTL, assert_nothing_denied, client, queued, refusals, soon, three_alone, url};

/// How often the slot moves while its names are taken.
const MOVES: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_renew_release_and_acquire_follow_a_slot_that_was_moved() {
    let cluster = three_alone();
    let (name, slot) = cluster.fresh_name(0);
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    // Once a client listens, it renews what it has: only this test may renew here.
    let guard = one.mutex(&name).ttl(LONG).renewal(Renewal::Off).acquire().await.unwrap();
    let token = guard.token();
    // Nothing is left to be told in the background.
    let is_told = async || one.admin().inspect(&name).await.unwrap().holders[0].token.is_some();
    until("the server knows the token", is_told).await;

    cluster.move_slot(slot, 1).unwrap();
    guard.renew().await.unwrap();
    assert_eq!(refusals(&cluster, 0, "MOVED"), 1, "the renewal was sent to the old node");
    assert!(guard.is_held() && guard.token() == token);

    cluster.move_slot(slot, 2).unwrap();
    guard.release().await.unwrap();
    assert_eq!(refusals(&cluster, 1, "MOVED"), 1, "the release was sent to the old node");

    let next = two.mutex(&name).try_acquire().await.unwrap().expect("it was released");
    // A SET and its number are refused together.
    assert_eq!(refusals(&cluster, 0, "MOVED"), 3, "the other client had its first map");
    assert!(next.token() > token);
    assert_nothing_denied(&cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_a_thousand_names_have_one_holder_each_while_their_slot_goes_round() {
    let cluster = three_alone();
    let (tag, slot) = cluster.fresh_name(0);
    let contenders = Contenders::walk(&url(&cluster), &format!("{{{tag}}}"), TTL).await;
    contenders.take_all().await;
    for turn in 1..=MOVES {
        cluster.move_slot(slot, turn % 3).unwrap();
        contenders.go_round().await;
    }
    contenders.take_all().await;
    contenders.stop().await;
    assert_nothing_denied(&cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_while_a_slot_moves_its_locks_are_found_where_they_are() {
    let cluster = three_alone();
    let (tag, slot) = cluster.fresh_name(0);
    let name = |what: &str| LockName::new(format!("{{{tag}}}/{what}")).unwrap();
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    let old = one.mutex(name("old")).ttl(LONG).acquire().await.unwrap();

    let moving = cluster.begin_move(slot, 1).unwrap();
    old.renew().await.unwrap();
    assert_eq!(refusals(&cluster, 0, "ASK"), 0);
    let new = one.mutex(name("new")).ttl(LONG).acquire().await.unwrap();
    assert!(refusals(&cluster, 0, "ASK") > 0, "what is not there is asked for at the other node");
    // The counter of the slot is still at the first node, too.
    assert_eq!((cluster.keys_in(0, slot), cluster.keys_in(1, slot)), (2, 1));
    let brief = one.mutex(name("brief")).ttl(LONG).acquire().await.unwrap();
    assert!(brief.token() > new.token());
    brief.release().await.unwrap();

    // Who waits is served once its keys have moved.
    moving.move_keys().unwrap();
    assert_eq!((cluster.keys_in(0, slot), cluster.keys_in(1, slot)), (0, 3));
    for held in ["old", "new"] {
        assert!(two.mutex(name(held)).try_acquire().await.unwrap().is_none(), "{held}");
    }
    let waiter = two.clone();
    let waiting = tokio::spawn({
        let name = name("old");
        async move { waiter.mutex(name).ttl(LONG).acquire().await }
    });
    queued(&one, &name("old"), 1).await;
    old.renew().await.unwrap();
    let token = old.token();
    old.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > token);

    moving.finish().unwrap();
    new.renew().await.unwrap();
    for guard in [new, next] {
        guard.release().await.unwrap();
    }
    assert_nothing_denied(&cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_a_reader_is_renewed_while_its_slot_moves_and_not_lost_with_half_of_its_keys() {
    let cluster = three_alone();
    let (name, slot) = cluster.fresh_name(0);
    let client = client(&cluster).await;
    let reader = client.rwlock(&name).read().ttl(LONG).acquire().await.unwrap();
    let moving = cluster.begin_move(slot, 1).unwrap();
    reader.renew().await.unwrap();
    let port = cluster.node(1).port();
    let migrate = format!("MIGRATE 127.0.0.1 {port} lh:{{{name}}} 0 5000");
    must(cluster.node(0).command::<()>(&migrate));
    let half_moved = reader.renew().await.unwrap_err();
    assert!(matches!(half_moved, Error::Store(_)) && reader.is_held(), "{half_moved:?}");
    moving.move_keys().unwrap();
    reader.renew().await.unwrap();
    moving.finish().unwrap();
    reader.release().await.unwrap();
    assert_nothing_denied(&cluster);
}

/// The options of a URL change nothing about where a name is found. A free name is taken by one
/// command while its slot moves, if a grant needs no more than that.
async fn a_slot_moves_while_its_locks_are_held(options: &str, is_taken: bool) {
    let cluster = must(Cluster::start(1));
    let (tag, slot) = cluster.fresh_name(0);
    let name = |what: &str| LockName::new(format!("{{{tag}}}/{what}")).unwrap();
    let client = Client::connect(format!("{}?{options}", cluster.url())).await.unwrap();
    let old = client.mutex(name("old")).ttl(LONG).acquire().await.unwrap();
    let moving = cluster.begin_move(slot, 1).unwrap();
    let lock = client.mutex(name("new")).ttl(LONG);
    let taken = if is_taken { Some(lock.acquire().await.unwrap()) } else { None };
    old.renew().await.unwrap();
    moving.move_keys().unwrap();
    old.renew().await.unwrap();
    assert!(refusals(&cluster, 0, "ASK") > 0);
    moving.finish().unwrap();
    let new = match taken {
        Some(new) => new,
        None => lock.acquire().await.unwrap(),
    };
    for guard in [old, new] {
        guard.renew().await.unwrap();
        assert!(client.mutex(guard.name()).try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
    }
    assert_eq!(cluster.keys_in(0, slot), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_the_same_holds_with_the_plain_layout() {
    a_slot_moves_while_its_locks_are_held("layout=plain&prefix=lh:", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_the_same_holds_where_replicas_acknowledge() {
    a_slot_moves_while_its_locks_are_held("replicas=1", false).await;
}
