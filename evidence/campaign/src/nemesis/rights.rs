//! Faults of the rights of the clients' user.

use std::thread;
use std::time::Duration;

use crate::place::{Place, command, rights};
use crate::random::Random;

/// The rights are gone for less than this.
const GONE: Duration = Duration::from_millis(500);

/// Takes away all rights, or the right to run scripts, or to publish; then gives them back.
pub(super) fn take_away(place: &mut Place, random: &mut Random) {
    let taken = random.one_of(&["nocommands", "-evalsha -eval", "resetchannels", "resetkeys"]);
    let span = random.up_to(GONE);
    let victims = place.victims(random);
    for server in &victims {
        command(server, &format!("ACL SETUSER holder {taken}"));
    }
    thread::sleep(span);
    for server in &victims {
        command(server, &format!("ACL SETUSER holder {}", rights()));
    }
}
