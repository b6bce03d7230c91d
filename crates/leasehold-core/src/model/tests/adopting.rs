//! Leases that are handed out and adopted.

use super::*;

#[test]
fn a_lease_that_has_ended_or_is_another_is_adopted_by_nobody() {
    let mut bench = Bench::held();
    let good = bench.adoption(id(2, 1), id(1, 1));
    let newest = good.token;
    let with = |request| Adopt::new(good.from, good.token, request);
    let wrong = [
        Adopt { from: id(1, 2), ..good.clone() },
        with(bench.request(id(2, 1), Mode::Shared)),
        with(bench.request(id(2, 1), permits(1, 1))),
        Adopt {
            token: newest.map(|token| FencingToken::from_micros(token.micros() - 1)),
            ..good.clone()
        },
    ];
    for request in wrong {
        let reply = bench.act(&Action::Adopt(request.clone()));
        assert_eq!(reply, Reply::NotHeld { newest }, "{request:?}");
    }
    let late = with(good.request.clone().with_not_after(bench.now_us - 1));
    assert_eq!(bench.act(&Action::Adopt(late)), Reply::Late);
    let last = with(good.request.clone().with_not_after(bench.now_us));
    let last = Adopt { from: id(1, 2), ..last };
    assert_eq!(bench.act(&Action::Adopt(last)), Reply::NotHeld { newest }, "it is in time");
    let ballot_us = Some(bench.now().token_us + micros(BALLOT_LEAD) + 1);
    let ahead = with(good.request.clone().with_ballot(ballot_us));
    assert_eq!(bench.act(&Action::Adopt(ahead)), Reply::Refused(Refusal::Ballot));
    assert_eq!(bench.holders(), [id(1, 1)]);
    bench.act(&Action::Release { id: id(1, 1), cooldown: seconds(1), unanswered: false });
    assert_eq!(bench.act(&Action::Adopt(good.clone())), Reply::NotHeld { newest }, "cooldown");
    bench.pass(seconds(1));
    assert_eq!(bench.act(&Action::Adopt(good)), Reply::NotHeld { newest });
    let mut bench = Bench::held();
    let late = bench.adoption(id(2, 1), id(1, 1));
    bench.pass(TTL);
    let late = Adopt::new(late.from, late.token, late.request.with_not_after(u64::MAX));
    assert!(matches!(bench.act(&Action::Adopt(late)), Reply::NotHeld { .. }));
    assert!(bench.record.is_idle());
}

#[test]
fn a_revoked_lease_is_adopted_by_nobody() {
    let mut bench = Bench::held();
    let adopt = bench.adoption(id(2, 1), id(1, 1));
    bench.revoke(id(1, 1), adopt.token.unwrap(), false);
    assert_eq!(bench.act(&Action::Adopt(adopt)), Reply::Revoked(true));
    assert_eq!(bench.holders(), [id(1, 1)], "its deadline ends it");
}

#[test]
fn a_copy_of_an_adoption_says_that_the_hold_was_revoked_meanwhile() {
    let mut bench = Bench::held();
    let adopt = bench.adoption(id(2, 1), id(1, 1));
    let token = granted(bench.act(&Action::Adopt(adopt.clone()))).token;
    bench.revoke(id(2, 1), token, false);
    assert_eq!(bench.act(&Action::Adopt(adopt)), Reply::Revoked(true));
    assert_eq!(bench.holders(), [id(2, 1)], "its deadline ends it");
}

#[test]
fn the_node_of_a_quorum_hands_over_whatever_token_it_has() {
    let mut bench = Bench::held();
    let ballot_us = bench.record.last_token_us + 5_000;
    let adopt = bench.adoption(id(2, 1), id(1, 1));
    let request = adopt.request.with_ballot(Some(ballot_us));
    let adopt = Adopt::new(adopt.from, None, request);
    assert_eq!(
        granted(bench.act(&Action::Adopt(adopt))).token,
        FencingToken::from_micros(ballot_us)
    );
}
