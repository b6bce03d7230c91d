//! The faults of a teller, or of the servers.

use std::fmt;

use leasehold_testkit::{PostgresPair, must};

use super::{TTL, Teller};
use crate::random::Random;

/// The number of faults so far.
#[derive(Debug, Default)]
pub(super) struct Count {
    stopped: u64,
    killed: u64,
    sessions_ended: u64,
    taken_over: u64,
}

/// The state of the teller afterwards.
pub(super) enum Left {
    Alive,
    Dead,
}

/// Strikes once. Mostly, a teller is stopped past its lease, if all others of its level run and can
/// overtake it.
pub(super) fn strike(
    servers: &mut PostgresPair,
    tellers: &mut [Teller],
    chosen: usize,
    random: &mut Random,
    count: &mut Count,
) -> Left {
    let level = tellers[chosen].level;
    let all_go_on =
        tellers.iter().all(|teller| teller.level != level || teller.stopped_until.is_none());
    let teller = &mut tellers[chosen];
    match random.below(200) {
        0 => {
            count.taken_over += 1;
            must(servers.fail_over());
            must(servers.heal());
        }
        1..3 => {
            count.sessions_ended += 1;
            let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
            must(servers.primary().query(all));
        }
        3..7 => {
            count.killed += 1;
            teller.process.kill9();
            return Left::Dead;
        }
        _ if all_go_on => {
            count.stopped += 1;
            teller.stop_for(TTL + random.up_to(TTL));
        }
        _ => {}
    }
    Left::Alive
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stopped, killed, sessions_ended, taken_over } = self;
        write!(
            f,
            "{stopped} tellers stopped, {killed} killed, all sessions ended {sessions_ended} \
             times, {taken_over} takeovers"
        )
    }
}
