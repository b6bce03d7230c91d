//! The scripts of the layout `redisson` mean what Redisson's own verbs mean. The test plays random
//! histories of both languages to models and to a real server. After every action of leasehold it
//! compares the reply, the messages and all keys. Besides, no two clients believe in holds that
//! exclude each other, and no action of leasehold cuts a hold of Java short.

mod history;
mod java;
mod keys;
mod ours;
mod record;
mod strategies;

use super::compare_actions;

/// The directory of histories that failed. Later runs play them first.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/redisson/kept.txt");

#[test]
fn an_action_of_ours_leaves_of_a_lock_of_redissons_what_redisson_would_have_left() {
    compare_actions(KEPT, &strategies::history(), |place, history| {
        let played = history::play(history)?;
        place.compare(&played, |played| keys::expected(history, played))?;
        Ok(played.len())
    });
}
