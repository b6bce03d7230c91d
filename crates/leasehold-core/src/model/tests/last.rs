//! The last holder of a name.

use super::*;
use crate::holder::LastHolder;

impl Bench {
    /// The last holder, as an operator sees it.
    fn last_holder(&mut self) -> Option<LastHolder> {
        match self.act(&Action::Inspect { limit: 100 }) {
            Reply::Status(status) => status.last_holder,
            other => panic!("{other:?}"),
        }
    }

    /// The last holder, and how its hold ended.
    fn last(&mut self) -> Option<(HolderId, Ending)> {
        self.last_holder().map(|last| (last.id, last.ending))
    }
}

#[test]
fn who_held_when_for_how_long_and_as_what_is_remembered() {
    let mut bench = Bench::new();
    assert_eq!(bench.last(), None);
    let info = HolderInfo::new("db-7", 42).with_label(Some("nightly".into()));
    let request = Acquire { info: info.clone(), ..bench.request(id(1, 1), permits(2, 5)) };
    let token = granted(bench.act(&Action::Acquire(request))).token;
    assert_eq!(bench.last(), None, "it holds");
    bench.pass(seconds(7));
    bench.release(id(1, 1));
    bench.pass(seconds(60));
    let expected = LastHolder::new(id(1, 1), permits(2, 5), token, Ending::Released)
        .with_info(info)
        .with_held_for(seconds(7))
        .with_ended_ago(seconds(60));
    assert_eq!(bench.last_holder(), Some(expected.clone()));
    bench.take(id(2, 1), permits(1, 5));
    assert_eq!(bench.last_holder(), Some(expected), "also while the next one holds");
}

#[test]
fn the_last_holder_is_remembered_for_as_long_as_it_asked_for() {
    for (remember, kept) in [(seconds(0), RETENTION), (seconds(7200), seconds(7200))] {
        let mut bench = Bench::new();
        let asked_us = bench.now_us;
        let request = bench.request(id(1, 1), Mode::Exclusive).with_remember(remember);
        granted(bench.act(&Action::Acquire(request)));
        bench.pass(seconds(5));
        bench.release(id(1, 1));
        // A later request without `remember` does not shorten the time.
        bench.take(id(2, 1), Mode::Exclusive);
        bench.release(id(2, 1));
        let until_us = asked_us + micros(TTL + kept);
        assert!(bench.record.collect_at_us >= until_us, "{remember:?}");
        assert!(bench.record.collect_at_us <= until_us + micros(kept), "{remember:?}");
        assert_eq!(bench.last(), Some((id(2, 1), Ending::Released)));
    }
}

#[test]
fn each_way_to_end_a_hold_is_told_from_the_others() {
    let mut bench = Bench::new();
    let alone = Mode::Exclusive;
    bench.take(id(1, 1), alone);
    bench.wait(id(2, 1), alone);
    bench.release(id(1, 1));
    assert_eq!(bench.last(), Some((id(1, 1), Ending::Released)));
    // The lock was handed on, and nobody claimed it.
    bench.pass(CLAIM_WINDOW);
    bench.take(id(3, 1), alone);
    assert_eq!(bench.last(), Some((id(2, 1), Ending::Unclaimed)));
    bench.pass(TTL);
    let revoked = bench.take(id(4, 1), alone).token;
    assert_eq!(bench.last(), Some((id(3, 1), Ending::Expired)));
    bench.revoke(id(4, 1), revoked, true);
    assert_eq!(bench.last(), Some((id(4, 1), Ending::Revoked)));
    let asked = bench.take(id(5, 1), alone).token;
    bench.revoke(id(5, 1), asked, false);
    bench.release(id(5, 1));
    assert_eq!(bench.last(), Some((id(5, 1), Ending::Revoked)));
    bench.take(id(6, 1), alone);
    bench.act(&Action::Adopt(bench.adoption(id(7, 1), id(6, 1))));
    assert_eq!(bench.last(), Some((id(6, 1), Ending::Adopted)));
    bench.reap(7);
    assert_eq!(bench.last(), Some((id(7, 1), Ending::Died)));
    bench.take(id(8, 1), alone);
    bench.cancel(id(8, 1));
    assert_eq!(bench.last(), Some((id(7, 1), Ending::Died)), "8 did not know that it held");
}

#[test]
fn a_holder_that_died_is_seen_before_anybody_else_has_come_by() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Exclusive);
    bench.release(id(1, 1));
    bench.take(id(2, 1), Mode::Exclusive);
    bench.pass(TTL + seconds(5));
    let last = bench.last_holder().unwrap();
    assert_eq!((last.id, last.ending), (id(2, 1), Ending::Expired));
    assert_eq!((last.held_for, last.ended_ago), (TTL, seconds(5)));
    // If it is noticed later, the report is the same.
    bench.pass(seconds(1));
    bench.take(id(3, 1), Mode::Exclusive);
    let last = bench.last_holder().unwrap();
    assert_eq!((last.id, last.held_for, last.ended_ago), (id(2, 1), TTL, seconds(6)));
}

#[test]
fn of_several_that_have_run_out_the_latest_is_the_last_noticed_or_not() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.pass(seconds(1));
    bench.take(id(2, 1), Mode::Shared);
    bench.take(id(3, 1), Mode::Shared);
    bench.release(id(3, 1));
    bench.act(&Action::Renew {
        id: id(1, 1),
        ttl: TTL + seconds(3),
        mode: Mode::Shared,
        change: 0,
    });
    bench.pass(TTL + seconds(9));
    assert_eq!(bench.last(), Some((id(1, 1), Ending::Expired)));
    bench.take(id(4, 1), Mode::Shared);
    assert_eq!(bench.last(), Some((id(1, 1), Ending::Expired)));
    // If the clock went back, a hold that ended in its future does not stay the last one for ever.
    bench.now_us -= 60_000_000;
    bench.release(id(4, 1));
    assert_eq!(bench.last(), Some((id(4, 1), Ending::Released)));
}

#[test]
fn a_hold_ends_where_its_cooldown_begins_and_nowhere_else() {
    let mut bench = Bench::new();
    let token = bench.take(id(1, 1), Mode::Exclusive).token;
    let release = Action::Release { id: id(1, 1), cooldown: seconds(10), unanswered: false };
    bench.pass(seconds(1));
    bench.act(&release);
    let ended = bench.record.last.clone();
    assert_eq!(bench.last(), Some((id(1, 1), Ending::Released)));
    bench.pass(seconds(1));
    bench.act(&release);
    bench.pass(seconds(4));
    bench.revoke(id(1, 1), token, true);
    assert_eq!(bench.record.last, ended);
}

#[test]
fn an_upgrade_and_a_downgrade_end_no_hold_and_the_last_mode_and_token_are_told() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    let token = granted(bench.change(id(1, 1), Mode::Exclusive)).token;
    assert_eq!(bench.last(), None);
    bench.release(id(1, 1));
    let last = bench.last_holder().unwrap();
    assert_eq!((last.mode, last.token), (Mode::Exclusive, token));
}
