//! On a real server, holders learn why their lease was not renewed.

use std::time::Duration;

use leasehold::error::{StoreError, StoreErrorKind as Kind};
use leasehold::event::Event;
use leasehold::store::File;
use leasehold::{Client, Error, LossReason};
use leasehold_testkit::harness::soon;
use leasehold_testkit::{RedisServer, must, shared_postgres};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// An event that a client gets, and its cause.
type Told = (&'static str, Option<Kind>);

async fn observed(url: &str) -> (Client, UnboundedReceiver<Told>) {
    let (sender, told) = unbounded_channel();
    let observe = move |event: &Event<'_>| {
        let what = match event {
            Event::Lost { cause, .. } => ("lost", cause.map(StoreError::kind)),
            Event::Overdue { cause, .. } => ("overdue", Some(cause.kind())),
            _ => return,
        };
        let _nobody_listens = sender.send(what);
    };
    (must(Client::builder().url(url).observer(observe).build().await), told)
}

async fn until(told: &mut UnboundedReceiver<Told>, wanted: Told) {
    soon(async { while must(told.recv().await.ok_or("nothing more")) != wanted {} }).await;
}

/// Its holder learns of the damage, and relies on the lease to the end: nobody else can get it.
async fn lost_by_damage(url: &str, damage: impl AsyncFnOnce()) {
    let (client, mut told) = observed(url).await;
    let guard = must(client.mutex("a").ttl(Duration::from_secs(4)).acquire().await);
    damage().await;
    let refused = soon(guard.renew()).await;
    let Err(Error::Store(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("a: the name's record is damaged"), "{error}");
    must(guard.ensure_held());
    until(&mut told, ("overdue", Some(Kind::Corrupt))).await;
    assert_eq!(guard.lost().await, Some(LossReason::Expired));
    until(&mut told, ("lost", Some(Kind::Corrupt))).await;
}

#[tokio::test]
async fn a_lease_whose_record_is_damaged_is_held_to_its_end_and_lost_with_the_reason() {
    let server = must(RedisServer::start());
    lost_by_damage(&server.url(), async || must(server.command::<()>("SET lh:{a} theirs"))).await;
    let place = must(tempfile::tempdir());
    let path = place.path().join("locks.db");
    let store = must(File::open(&path));
    let cut = async || {
        let cut = "UPDATE lock SET record = substr(record, 1, 20)";
        let rows = store.transact(move |writing| writing.sql(|all| all.execute(cut, [])));
        assert_eq!(must(rows.await), 1);
    };
    lost_by_damage(&format!("file:{}", path.display()), cut).await;
    let Some((server, schema)) = must(shared_postgres()) else { return };
    let odd = async || drop(must(server.query(&format!("UPDATE {schema}.lease SET hold = 'y'"))));
    lost_by_damage(&format!("{}&schema={schema}", server.url()), odd).await;
}
