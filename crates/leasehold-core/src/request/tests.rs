//! The properties of every action that stores need, in one place.

use super::*;
use crate::holder::ClientId;

const TTL: Duration = Duration::from_secs(30);

const ID: HolderId = HolderId { client: ClientId(1), attempt: 2 };

/// Every action, with its name, whether its caller names its own attempt, whether it has a ttl, and
/// its effect.
fn actions() -> Vec<(Action, &'static str, bool, bool, Option<Effect>)> {
    let acquire = Acquire::new(ID, Mode::Exclusive, TTL);
    let token = FencingToken::from_micros(1_800_000_000_000_000);
    let adopt = Adopt::new(HolderId::MIN, None, acquire.clone());
    let reclaim = Reclaim::new(token, acquire.clone());
    let (id, ttl, unanswered) = (ID, TTL, false);
    let info = HolderInfo::default();
    vec![
        (Action::Acquire(acquire), "acquire", true, true, Some(Effect::Grant)),
        (Action::Adopt(adopt), "adopt", true, true, Some(Effect::Adoption)),
        (Action::Cancel { id, unanswered }, "cancel", true, false, None),
        (Action::Commit { id, token, ttl }, "commit", true, true, Some(Effect::Renewal)),
        (Action::Describe { id, info }, "describe", true, false, None),
        (Action::Inspect { limit: 1 }, "inspect", false, false, None),
        (Action::Poll { id, ttl }, "poll", true, true, Some(Effect::HandOver)),
        (Action::Reclaim(reclaim), "reclaim", true, true, Some(Effect::Reclaim)),
        (Action::Release { id, cooldown: TTL, unanswered }, "release", true, false, None),
        (Action::Renew { id, ttl }, "renew", true, true, Some(Effect::Renewal)),
        (Action::Revoke { id, token, force: true }, "revoke", false, false, None),
    ]
}

#[test]
fn of_every_action_it_is_known_whose_it_is_what_it_asks_for_and_what_it_may_give() {
    for (action, name, is_of_caller, has_ttl, effect) in actions() {
        assert_eq!(action.as_str(), name);
        assert_eq!(action.holder(), is_of_caller.then_some(ID), "{name}");
        assert_eq!(action.ttl(), has_ttl.then_some(TTL), "{name}");
        assert_eq!(action.effect(), effect, "{name}");
    }
}

#[test]
fn a_request_may_be_executed_until_the_last_time_that_scripts_tell_from_the_one_before() {
    let request = Acquire::new(ID, Mode::Shared, TTL);
    assert_eq!(request.not_after_us, 9_007_199_254_740_991);
}

#[test]
fn what_goes_on_is_nothing_new() {
    let new = [Effect::Adoption, Effect::Grant, Effect::HandOver];
    assert!(new.into_iter().all(Effect::is_new));
    assert!(!Effect::Reclaim.is_new() && !Effect::Renewal.is_new());
}

#[test]
fn listings_and_inspections_change_nothing_and_all_else_may() {
    let (prefix, name) = (String::new(), LockName::new("a").unwrap());
    let list = Operation::List { prefix: prefix.clone(), limit: 1 };
    let page = Operation::ListPage { prefix, after: None, keys: 1 };
    let renew = Operation::Renew(vec![RenewLease::new(name.clone(), ID, TTL)]);
    assert!(list.is_read_only() && page.is_read_only() && !renew.is_read_only());
    assert_eq!([list, page, renew].map(|it| it.as_str()), ["list", "list", "renew"]);
    for (action, word, ..) in actions() {
        let operation = Operation::On { name: name.clone(), action };
        assert_eq!((operation.as_str(), operation.is_read_only()), (word, word == "inspect"));
    }
}
