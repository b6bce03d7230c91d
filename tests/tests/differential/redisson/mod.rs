//! The scripts of the layout `redisson` mean what Redisson's own verbs mean: random histories of
//! both languages are played to models and to a real server, and after every action of ours the
//! reply, the messages and all keys are compared. Besides, nobody believes to hold beside somebody
//! whom that excludes, and no action of ours cuts a hold of Java's short.

mod history;
mod java;
mod keys;
mod ours;
mod record;
mod strategies;

use super::compare_actions;

/// Where histories that failed are kept, to be played first ever after.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/redisson/kept.txt");

#[test]
fn an_action_of_ours_leaves_of_a_lock_of_redissons_what_redisson_would_have_left() {
    compare_actions(KEPT, &strategies::history(), |place, history| {
        let played = history::play(history)?;
        place.compare(&played, |played| keys::expected(history, played))?;
        Ok(played.len())
    });
}
