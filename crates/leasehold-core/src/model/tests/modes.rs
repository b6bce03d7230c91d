//! Readers, writers and permits.

use super::*;

#[test]
fn a_reader_does_not_overtake_a_waiting_writer() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), Mode::Shared);
    bench.wait(id(2, 1), Mode::Exclusive);
    bench.wait(id(3, 1), Mode::Shared);
    bench.release(id(1, 1));
    assert_eq!(bench.told(), [id(2, 1)]);
}

#[test]
fn no_more_readers_are_granted_in_one_step_than_the_bound_and_the_rest_in_the_next() {
    let mut bench = Bench::held();
    for client in 2..42 {
        bench.wait(id(client, 1), Mode::Shared);
    }
    bench.release(id(1, 1));
    assert_eq!((bench.told().len(), bench.more), (GRANT_BOUND as usize, true));
    bench.poll(id(2, 1));
    assert_eq!((bench.told().len(), bench.more), (GRANT_BOUND as usize, true));
    bench.poll(id(2, 1));
    assert_eq!((bench.told().len(), bench.more), (8, false));
    assert_eq!(bench.record.holds.len(), 40);
}

#[test]
fn permits_that_are_left_over_wait_with_the_head() {
    let mut bench = Bench::new();
    bench.take(id(1, 1), permits(3, 5));
    bench.wait(id(2, 1), permits(4, 5));
    bench.wait(id(3, 1), permits(1, 5));
    bench.release(id(1, 1));
    assert_eq!(bench.told(), [id(2, 1), id(3, 1)]);
}
