//! What is remembered of holds that have ended.

use super::*;
use crate::holder::PastHolder;

impl Bench {
    /// Who held before and how that ended, as an operator sees it.
    fn past(&mut self) -> Vec<(HolderId, Ending)> {
        self.past_holders().iter().map(|past| (past.id, past.ending)).collect()
    }

    fn past_holders(&mut self) -> Vec<PastHolder> {
        match self.act(&Action::Inspect { limit: 100 }) {
            Reply::Status(status) => status.past_holders,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nothing_is_remembered_unless_the_store_keeps_a_history() {
    let mut bench = Bench::new();
    for attempt in 1..4 {
        bench.take(id(1, attempt), Mode::Exclusive);
        bench.release(id(1, attempt));
    }
    assert_eq!((bench.past(), bench.record.past.len()), (vec![], 0));
}

#[test]
fn who_held_when_for_how_long_and_as_what_is_remembered() {
    let mut bench = Bench::with_history(2);
    let info = HolderInfo::new("db-7", 42).with_label(Some("nightly".into()));
    let request = Acquire { info: info.clone(), ..bench.request(id(1, 1), permits(2, 5)) };
    let token = granted(bench.act(&Action::Acquire(request))).token;
    bench.pass(seconds(7));
    bench.release(id(1, 1));
    bench.pass(seconds(60));
    let expected = PastHolder::new(id(1, 1), permits(2, 5), token, Ending::Released)
        .with_info(info)
        .with_held_for(seconds(7))
        .with_ended_ago(seconds(60));
    assert_eq!(bench.past_holders(), [expected]);
}

#[test]
fn each_way_to_end_a_hold_is_told_from_the_others() {
    let mut bench = Bench::with_history(MAX_HISTORY);
    let alone = Mode::Exclusive;
    bench.take(id(1, 1), alone);
    bench.wait(id(2, 1), alone);
    bench.release(id(1, 1));
    // Handed on, and taken up by nobody.
    bench.pass(CLAIM_WINDOW);
    bench.take(id(3, 1), alone);
    bench.pass(TTL);
    let revoked = bench.take(id(4, 1), alone).token;
    bench.revoke(id(4, 1), revoked, true);
    let asked = bench.take(id(5, 1), alone).token;
    bench.revoke(id(5, 1), asked, false);
    bench.release(id(5, 1));
    bench.take(id(6, 1), alone);
    bench.act(&Action::Adopt(bench.adoption(id(7, 1), id(6, 1))));
    bench.reap(7);
    bench.take(id(8, 1), alone);
    bench.cancel(id(8, 1));
    let expected = [
        (id(8, 1), Ending::Released),
        (id(7, 1), Ending::Died),
        (id(6, 1), Ending::Adopted),
        (id(5, 1), Ending::Revoked),
        (id(4, 1), Ending::Revoked),
        (id(3, 1), Ending::Expired),
        (id(2, 1), Ending::Unclaimed),
        (id(1, 1), Ending::Released),
    ];
    assert_eq!(bench.past(), expected);
}

#[test]
fn the_newest_are_kept_and_come_first() {
    let mut bench = Bench::with_history(3);
    for attempt in 1..8 {
        bench.take(id(1, attempt), Mode::Exclusive);
        bench.pass(seconds(1));
        bench.release(id(1, attempt));
    }
    let ids: Vec<_> = bench.past().iter().map(|(id, _)| id.attempt).collect();
    assert_eq!(ids, [7, 6, 5]);
    assert_eq!(bench.record.past.len(), 3);
}

#[test]
fn a_holder_that_died_is_seen_before_anybody_else_has_come_by() {
    let mut bench = Bench::with_history(1);
    bench.take(id(1, 1), Mode::Exclusive);
    bench.release(id(1, 1));
    bench.take(id(2, 1), Mode::Exclusive);
    bench.pass(TTL + seconds(5));
    let [last] = &bench.past_holders()[..] else { panic!() };
    assert_eq!((last.id, last.ending), (id(2, 1), Ending::Expired));
    assert_eq!((last.held_for, last.ended_ago), (TTL, seconds(5)));
    // Noticed later, it is told as before.
    bench.pass(seconds(1));
    bench.take(id(3, 1), Mode::Exclusive);
    let [last] = &bench.past_holders()[..] else { panic!() };
    assert_eq!((last.id, last.held_for, last.ended_ago), (id(2, 1), TTL, seconds(6)));
}

#[test]
fn a_hold_ends_where_its_cooldown_begins_and_nowhere_else() {
    let mut bench = Bench::with_history(4);
    let token = bench.take(id(1, 1), Mode::Exclusive).token;
    let release = Action::Release { id: id(1, 1), cooldown: seconds(10), unanswered: false };
    bench.pass(seconds(1));
    bench.act(&release);
    bench.pass(seconds(1));
    bench.act(&release);
    assert_eq!(bench.past(), [(id(1, 1), Ending::Released)]);
    bench.pass(seconds(9));
    assert_eq!(bench.past(), [(id(1, 1), Ending::Released)], "nor where its cooldown ends");
    bench.now_us -= 5_000_000;
    bench.revoke(id(1, 1), token, true);
    let [past] = &bench.past_holders()[..] else { panic!() };
    assert_eq!((past.ending, past.held_for), (Ending::Released, seconds(1)));
}

#[test]
fn an_upgrade_and_a_downgrade_end_no_hold_and_the_last_mode_and_token_are_told() {
    let mut bench = Bench::with_history(4);
    bench.take(id(1, 1), Mode::Shared);
    let token = granted(bench.change(id(1, 1), Mode::Exclusive)).token;
    assert_eq!(bench.past(), []);
    bench.release(id(1, 1));
    let [past] = &bench.past_holders()[..] else { panic!() };
    assert_eq!((past.mode, past.token), (Mode::Exclusive, token));
}

#[test]
fn who_keeps_no_history_leaves_and_shows_what_others_keep() {
    let mut bench = Bench::with_history(2);
    bench.take(id(1, 1), Mode::Exclusive);
    bench.release(id(1, 1));
    bench.rules.history = 0;
    bench.take(id(2, 1), Mode::Exclusive);
    bench.release(id(2, 1));
    assert_eq!(bench.past(), [(id(1, 1), Ending::Released)]);
}

#[test]
fn an_inspection_shows_no_more_past_holders_than_it_is_asked_for() {
    let mut bench = Bench::with_history(4);
    for attempt in 1..4 {
        bench.take(id(1, attempt), Mode::Exclusive);
        bench.release(id(1, attempt));
    }
    for limit in 0..3 {
        let Reply::Status(status) = bench.act(&Action::Inspect { limit }) else { panic!() };
        assert_eq!(status.past_holders.len(), limit as usize);
    }
}
