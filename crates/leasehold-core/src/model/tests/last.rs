//! The last holder of a name.

use super::*;

impl Bench {
    fn last(&mut self) -> Option<HolderId> {
        match self.act(&Action::Inspect { limit: 100 }) {
            Reply::Status(status) => status.last_holder.map(|last| last.id),
            other => panic!("{other:?}"),
        }
    }
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
        assert_eq!(bench.last(), Some(id(2, 1)));
    }
}

#[test]
fn a_cooldown_is_no_second_release() {
    let mut bench = Bench::new();
    let token = bench.take(id(1, 1), Mode::Exclusive).token;
    let release = Action::Release { id: id(1, 1), cooldown: seconds(10), unanswered: false };
    bench.pass(seconds(1));
    bench.act(&release);
    let ended = bench.record.last.clone();
    assert_eq!(bench.last(), Some(id(1, 1)));
    bench.pass(seconds(1));
    bench.act(&release);
    bench.pass(seconds(4));
    bench.revoke(id(1, 1), token, true);
    assert_eq!(bench.record.last, ended);
}
