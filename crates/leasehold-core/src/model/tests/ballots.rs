//! Ballots, commits and reclaims: the answers of a node of a quorum, and which holders may take
//! forgotten holds back.

use super::*;

const LEAD_US: u64 = BALLOT_LEAD.as_micros() as u64;

impl Bench {
    /// The clock from which tokens are minted.
    fn clock_us(&self) -> u64 {
        self.now().token_us
    }

    fn propose(&mut self, id: HolderId, ballot_us: u64) -> Reply {
        let request = self.request(id, Mode::Exclusive);
        let request = Acquire { wait: false, ballot_us: Some(ballot_us), ..request };
        self.act(&Action::Acquire(request))
    }

    fn commit(&mut self, id: HolderId, token_us: u64) -> Reply {
        self.act(&Action::Commit { id, token: FencingToken::from_micros(token_us), ttl: TTL })
    }

    fn asked_back(&self, id: HolderId, mode: Mode, token: FencingToken) -> Reclaim {
        Reclaim::new(token, self.request(id, mode))
    }

    fn reclaim(&mut self, id: HolderId, mode: Mode, token: FencingToken) -> Reply {
        let request = self.asked_back(id, mode, token);
        self.act(&Action::Reclaim(request))
    }

    /// Makes the store lose all its data.
    fn forget(&mut self) {
        self.record = Record::default();
    }

    fn not_held(&self) -> Reply {
        Reply::NotHeld { newest: Some(FencingToken::from_micros(self.record.last_token_us)) }
    }
}

#[test]
fn a_ballot_is_the_token_unless_a_newer_one_was_granted() {
    let mut bench = Bench::new();
    let ballot_us = bench.clock_us() - 5_000_000;
    assert_eq!(granted(bench.propose(id(1, 1), ballot_us)).token.micros(), ballot_us);
    bench.release(id(1, 1));
    assert_eq!(granted(bench.propose(id(2, 1), ballot_us)).token.micros(), ballot_us + 1);
}

#[test]
fn a_ballot_far_behind_the_clock_is_raised() {
    let mut bench = Bench::new();
    let raised_us = bench.clock_us() - LEAD_US;
    assert_eq!(granted(bench.propose(id(1, 1), 1)).token.micros(), raised_us);
}

#[test]
fn a_ballot_far_ahead_of_the_clock_is_refused_unless_the_last_token_is_ahead_as_well() {
    let mut bench = Bench::new();
    let most_us = bench.clock_us() + LEAD_US;
    assert_eq!(bench.propose(id(1, 1), most_us + 1), Reply::Refused(Refusal::Ballot));
    assert_eq!(bench.record, Record::default());
    assert_eq!(granted(bench.propose(id(1, 1), most_us)).token.micros(), most_us);
    bench.release(id(1, 1));
    let next_us = most_us + LEAD_US;
    assert_eq!(bench.propose(id(2, 1), next_us + 1), Reply::Refused(Refusal::Ballot));
    assert_eq!(granted(bench.propose(id(2, 1), next_us)).token.micros(), next_us);
}

/// Compares the highest token of a node whose clock is ahead with the lowest token of a node that
/// has forgotten the name.
#[test]
fn a_forgotten_token_is_exceeded_once_the_retention_is_over() {
    for (passed, is_exceeded) in [(RETENTION, true), (seconds(1), false)] {
        let (mut ahead, mut behind) = (Bench::new(), Bench::new());
        ahead.pass(seconds(9));
        let token = granted(ahead.propose(id(1, 1), ahead.clock_us() + LEAD_US)).token;
        behind.pass(passed);
        let next = granted(behind.propose(id(2, 1), 1)).token;
        assert_eq!(next > token, is_exceeded, "{passed:?}");
    }
}

#[test]
fn a_copy_of_a_ballot_gives_the_same_token_again_even_after_a_commit() {
    let mut bench = Bench::new();
    let ballot_us = bench.clock_us();
    bench.propose(id(1, 1), ballot_us);
    bench.commit(id(1, 1), ballot_us + 7);
    assert_eq!(granted(bench.propose(id(1, 1), ballot_us)).token.micros(), ballot_us + 7);
}

#[test]
fn a_commit_raises_the_token_the_last_token_and_the_deadline() {
    let mut bench = Bench::held();
    bench.pass(seconds(10));
    let token_us = bench.record.last_token_us + 9;
    let grant = granted(bench.commit(id(1, 1), token_us));
    assert_eq!((grant.token.micros(), grant.deadline_us), (token_us, bench.now_us + micros(TTL)));
    bench.release(id(1, 1));
    assert_eq!(bench.record.last_token_us, token_us, "also when it was let go");
    assert!(granted(bench.propose(id(2, 1), token_us - 1)).token.micros() > token_us);
}

#[test]
fn a_commit_never_lowers_a_token() {
    let mut bench = Bench::held();
    let token_us = bench.record.last_token_us;
    assert_eq!(granted(bench.commit(id(1, 1), token_us - 1)).token.micros(), token_us);
}

#[test]
fn a_commit_after_the_end_of_the_hold_raises_nothing() {
    let mut bench = Bench::held();
    let before_us = bench.record.last_token_us;
    bench.pass(TTL);
    let refused = bench.commit(id(1, 1), before_us + 9);
    assert_eq!(refused, bench.not_held());
    assert_eq!(bench.record.last_token_us, before_us);
    let grant = bench.take(id(2, 1), Mode::Exclusive);
    bench.revoke(id(2, 1), grant.token, false);
    assert_eq!(bench.commit(id(2, 1), before_us + 9), Reply::Revoked(true));
}

#[test]
fn a_commit_far_ahead_of_the_clock_is_refused_and_the_hold_stays_as_it_is() {
    let mut bench = Bench::held();
    let before = bench.record.clone();
    let refused = bench.commit(id(1, 1), bench.clock_us() + LEAD_US + 1);
    assert_eq!(refused, Reply::Refused(Refusal::Ballot));
    assert_eq!(bench.record, before);
}

#[test]
fn a_holder_takes_back_what_the_store_has_forgotten() {
    let mut bench = Bench::new();
    let token = bench.take(id(1, 1), Mode::Exclusive).token;
    bench.forget();
    let grant = granted(bench.reclaim(id(1, 1), Mode::Exclusive, token));
    assert_eq!((grant.token, grant.deadline_us), (token, bench.now_us + micros(TTL)));
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.release(id(1, 1));
    assert!(bench.hold(id(2, 1)).unwrap().token_us > token.micros());
}

#[test]
fn a_holder_takes_back_what_has_run_out_as_long_as_nobody_has_noticed() {
    let mut bench = Bench::held();
    let token = FencingToken::from_micros(bench.record.last_token_us);
    bench.pass(TTL * 2);
    assert_eq!(granted(bench.reclaim(id(1, 1), Mode::Exclusive, token)).token, token);
    bench.pass(TTL * 2);
    bench.renew(id(1, 1), TTL);
    let refused = bench.reclaim(id(1, 1), Mode::Exclusive, token);
    assert_eq!(refused, bench.not_held(), "its end has been noticed");
}

#[test]
fn nobody_takes_back_what_was_granted_again_since() {
    let mut bench = Bench::new();
    let token = bench.take(id(1, 1), Mode::Exclusive).token;
    bench.forget();
    bench.pass(seconds(1));
    bench.take(id(2, 1), Mode::Exclusive);
    let refused = bench.reclaim(id(1, 1), Mode::Exclusive, token);
    assert_eq!(refused, bench.not_held());
    bench.release(id(2, 1));
    let refused = bench.reclaim(id(1, 1), Mode::Exclusive, token);
    assert_eq!(refused, bench.not_held(), "not even when it is free again");
}

#[test]
fn nobody_takes_back_what_conflicts_with_who_holds_or_waits() {
    let mut bench = Bench::new();
    let token = bench.take(id(1, 1), Mode::Exclusive).token;
    bench.forget();
    bench.take(id(2, 1), Mode::Shared);
    let higher = FencingToken::from_micros(bench.record.last_token_us + 5);
    let refused = bench.reclaim(id(1, 1), Mode::Exclusive, higher);
    assert_eq!(refused, bench.not_held(), "a reader");
    bench.wait(id(3, 1), Mode::Exclusive);
    let refused = bench.reclaim(id(4, 1), Mode::Shared, token);
    assert_eq!(refused, bench.not_held(), "a writer waits");
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: LOCK_CAPACITY });
    assert_eq!(bench.reclaim(id(4, 1), permits(1, 3), token), mismatch);
}

#[test]
fn readers_come_back_in_any_order() {
    let mut bench = Bench::new();
    let tokens = [1, 2, 3].map(|client| bench.take(id(client, 1), Mode::Shared).token);
    bench.forget();
    for client in [3, 1, 2] {
        let token = tokens[client as usize - 1];
        let grant = granted(bench.reclaim(id(client, 1), Mode::Shared, token));
        assert_eq!(grant.token, token);
    }
    assert_eq!(bench.record.last_token_us, tokens[2].micros());
}

#[test]
fn nobody_takes_back_what_was_let_go() {
    let mut bench = Bench::new();
    let token = bench.take(id(1, 1), Mode::Exclusive).token;
    let copy = bench.asked_back(id(1, 1), Mode::Exclusive, token);
    bench.release(id(1, 1));
    assert_eq!(bench.act(&Action::Reclaim(copy.clone())), bench.not_held());
    bench.forget();
    bench.act(&Action::Release { id: id(1, 1), cooldown: Duration::ZERO, unanswered: true });
    let refused = bench.act(&Action::Reclaim(copy.clone()));
    assert_eq!(refused, Reply::NotHeld { newest: None }, "its release expected a copy");
    bench.forget();
    bench.pass(NOT_AFTER + seconds(1));
    assert_eq!(bench.act(&Action::Reclaim(copy)), Reply::Late);
    assert_eq!(bench.record, Record::default());
}

#[test]
fn nobody_takes_back_what_an_operator_has_ended() {
    for force in [false, true] {
        let mut bench = Bench::new();
        let token = bench.take(id(1, 1), Mode::Exclusive).token;
        bench.revoke(id(1, 1), token, force);
        let refused = if force { bench.not_held() } else { Reply::Revoked(true) };
        assert_eq!(bench.reclaim(id(1, 1), Mode::Exclusive, token), refused);
    }
}

#[test]
fn a_claimed_token_far_ahead_of_the_clock_is_refused() {
    let mut bench = Bench::new();
    let token = FencingToken::from_micros(bench.clock_us() + LEAD_US + 1);
    let refused = bench.reclaim(id(1, 1), Mode::Exclusive, token);
    assert_eq!(refused, Reply::Refused(Refusal::Ballot));
    assert_eq!(bench.record, Record::default());
}
