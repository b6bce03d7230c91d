//! The scripts of the layout `plain` mean what the Redis documentation says of such a lock, and
//! what stands in a value of ours: random histories of ours and of programs in other languages are
//! played to a model and to a real server, and after every action of ours the reply, the messages
//! and all keys are compared. Besides, nobody believes to hold beside somebody else, and no action
//! of ours touches what somebody else holds.

mod history;
mod lock;
mod strategies;

use super::compare_actions;

/// Where histories that failed are kept, to be played first ever after.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/plain/kept.txt");

#[test]
fn an_action_of_ours_leaves_of_a_plain_lock_what_the_model_leaves() {
    compare_actions(KEPT, &strategies::history(), |place, steps| {
        let played = history::play(steps)?;
        place.compare(&played, history::expected)?;
        Ok(played.len())
    });
}
