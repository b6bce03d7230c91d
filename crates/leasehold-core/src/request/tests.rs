//! The properties of every action that stores need, in one place.

use super::*;
use crate::holder::ClientId;

const TTL: Duration = Duration::from_secs(30);

const ID: HolderId = HolderId { client: ClientId(1), attempt: 2 };

fn request() -> Request {
    Request::new(ID, Mode::Exclusive, HolderInfo::default())
}

/// Every action, with its name, whether its caller names its own attempt, and whether it has a ttl.
fn actions() -> Vec<(Action, &'static str, bool, bool)> {
    vec![
        (Action::End(End::new(request())), "end", true, false),
        (Action::Keep(Keep::new(request(), TTL)), "keep", true, true),
        (Action::Look { limit: 1 }, "look", false, false),
        (Action::Revoke { id: ID, force: true }, "revoke", false, false),
        (Action::Take(Take::new(request(), TTL)), "take", true, true),
    ]
}

#[test]
fn of_every_action_it_is_known_whose_it_is_and_what_it_asks_for() {
    for (action, name, is_of_caller, has_ttl) in actions() {
        assert_eq!(action.as_str(), name);
        assert_eq!(action.holder(), is_of_caller.then_some(ID), "{name}");
        assert_eq!(action.ttl(), has_ttl.then_some(TTL), "{name}");
    }
}

#[test]
fn listings_and_looks_change_nothing_and_all_else_may() {
    let (prefix, name) = (String::new(), LockName::new("a").unwrap());
    let list = Operation::List { prefix, after: None, keys: 1 };
    let keep = Operation::Keep(vec![(name.clone(), Keep::new(request(), TTL))]);
    assert!(list.is_read_only() && !keep.is_read_only());
    assert_eq!([list, keep].map(|it| it.as_str()), ["list", "keep"]);
    for (action, word, ..) in actions() {
        let operation = Operation::On { name: name.clone(), action };
        assert_eq!((operation.as_str(), operation.is_read_only()), (word, word == "look"));
    }
}
