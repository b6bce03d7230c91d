//! Readers, writers and permits.

use super::*;

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
