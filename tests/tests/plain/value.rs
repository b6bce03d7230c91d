//! The content of the value: the grant, its state, and the holder's information.

use leasehold::Client;
use leasehold::store::{Redis, Store};
use leasehold_core::{Action, Operation, Reply};
use leasehold_testkit::{RedisServer, must, options_of};

use super::{Shared, TTL, describe, id, plain, request};

#[tokio::test]
async fn without_a_prefix_only_our_own_locks_are_listed_and_with_one_all_that_are_there() {
    let mut shared = Shared::start().await;
    shared.take("app:ours", id(1)).await;
    assert!(shared.they_take("app:theirs", "x", TTL));
    must(redis::cmd("HSET").arg("app:data").arg("f").arg("v").exec(&mut shared.theirs));
    let names = async |url: &str| {
        let client = must(Client::connect(url).await);
        let mut names = must(client.admin().list("", 9).await);
        names.sort();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names(&plain(&shared.server)).await, ["app:ours"]);
    let url = format!("{}&layout=plain&prefix=app:", shared.server.patient_url());
    assert_eq!(names(&url).await, ["data", "ours", "theirs"]);
}

#[tokio::test]
async fn a_url_that_does_not_say_what_keys_begin_with_is_remarked_on() {
    let server = must(RedisServer::start());
    let remarks = async |options: &str| {
        let store =
            must(Redis::open(options_of(&format!("{}&{options}", server.patient_url()))).await);
        store.warnings().iter().any(|words| words.contains("prefix="))
    };
    assert!(remarks("layout=plain").await);
    for said in ["layout=plain&prefix=", "layout=plain&prefix=lh:", "layout=native", ""] {
        assert!(!remarks(said).await, "{said}");
    }
}

#[tokio::test]
async fn what_was_changed_after_the_grant_is_let_go_all_the_same_and_what_is_not_ours_stays() {
    let mut shared = Shared::start().await;
    let info = (*request(id(1)).request.info).clone().with_label(Some("later".to_owned()));
    let token = shared.take("a", id(1)).await.token;
    must(shared.act("a", describe(id(1), token, info, TTL)).await);
    assert_eq!(shared.release("a", id(1)).await, Reply::Ended(true));
    shared.take("a", id(1)).await;
    let other = must(Redis::open(options_of(&plain(&shared.server))).await);
    let name = must(leasehold::LockName::new("a"));
    let action = Action::Revoke { id: id(1), force: false };
    must(other.execute(Operation::On { name, action }).await);
    assert_eq!(shared.release("a", id(1)).await, Reply::Ended(true), "the value has changed");
    shared.take("a", id(1)).await;
    must(redis::cmd("SET").arg("a").arg("theirs").exec(&mut shared.theirs));
    assert_eq!(shared.release("a", id(1)).await, Reply::Ended(false));
    assert_eq!(shared.get("a").as_deref(), Some("theirs"));
}
