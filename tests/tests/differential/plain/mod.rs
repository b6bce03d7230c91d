//! The scripts of the layout `plain` mean what the Redis documentation says of such a lock, and
//! what leasehold's values say. The test plays random histories of leasehold and of programs in
//! other languages to a model and to a real server. After every action of leasehold it compares the
//! reply, the messages and all keys. Besides, no two clients believe that they hold at the same
//! time, and no action of leasehold touches another program's hold.

mod history;
mod lock;
mod strategies;

use super::compare_actions;

/// The directory of histories that failed. Later runs play them first.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/plain/kept.txt");

#[test]
fn an_action_of_ours_leaves_of_a_plain_lock_what_the_model_leaves() {
    compare_actions(KEPT, &strategies::history(), |place, steps| {
        let played = history::play(steps)?;
        place.compare(&played, history::expected)?;
        Ok(played.len())
    });
}
