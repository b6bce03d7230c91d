//! Named bugs: mistakes that a distributed lock must not make. Each bug can be switched on, to
//! check that a test finds it. `cargo xtask bugs` does so for all of them.
//!
//! `--cfg leasehold_test_bugs` compiles the switches in, and `LEASEHOLD_BUG=name` turns one on.
//! Only `xtask/rustc-for-tests.sh` sets it; otherwise [`is_on`] is a constant, and no wrong line is
//! in the program. The switch is not a feature, because any package in a build could turn on a
//! feature for all others.

/// The table of bugs: a line of Rust for each, with a description of the mistake.
macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $name:literal,)*) => {
        /// A mistake that can be switched on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $bug,)*
        }

        /// All bugs, with their names in `LEASEHOLD_BUG`.
        #[cfg(leasehold_test_bugs)]
        const ALL: [(Bug, &str); [$($name),*].len()] = [$((Bug::$bug, $name)),*];
    };
}

bugs! {
    /// A boot record counts even if it is of another run of the server, or of another server (Lua).
    BootOfAnotherRun = "boot-of-another-run",
    /// A lease is timed by a clock that stands still while the machine is suspended.
    ClockStopsAsleep = "clock-stops-asleep",
    /// A token is the previous token plus one, without regard to time.
    CountedToken = "counted-token",
    /// A dropped wait stays in the queue.
    DropWithoutCancel = "drop-without-cancel",
    /// A renewal that fails ends the lease at once.
    FailedRenewalEnds = "failed-renewal-ends",
    /// The keeper lives on the runtime of the first caller, and dies with it.
    KeeperOnCallersRuntime = "keeper-on-callers-runtime",
    /// A renewal revives a hold whose time is over.
    LateRenewalRevives = "late-renewal-revives",
    /// A lease is passed on inside a process although too little of its validity is left.
    LocalHandOffTooLate = "local-hand-off-too-late",
    /// A new caller is granted a free lock although others wait.
    NewcomerBarges = "newcomer-barges",
    /// The time to claim a grant is counted from the arrival of its message.
    MessageFromArrival = "message-from-arrival",
    /// A grant counts although too little of its validity is left when the reply arrives.
    NoCheckAfterReply = "no-check-after-reply",
    /// A quorum uses the highest token of its nodes, and does not tell the other nodes.
    NoCommit = "no-commit",
    /// The client does not ask again when messages may have been lost.
    NoPollAfterGap = "no-poll-after-gap",
    /// An attempt that has ended is not remembered.
    NoTombstone = "no-tombstone",
    /// A client asks only for waiters that are the first in the queue.
    OnlyHeadIsPolled = "only-head-is-polled",
    /// A script fails when its message is refused (Lua).
    PublishMayFail = "publish-may-fail",
    /// A release ends any present hold, even another holder's (Lua).
    ReleaseWithoutOwnerCheck = "release-without-owner-check",
    /// One call of a script has keys of several slots.
    SlotsInOneCall = "slots-in-one-call",
    /// The inbox is opened after joining the queue, and the client does not ask for earlier
    /// messages.
    SubscribesAfterJoining = "subscribes-after-joining",
    /// A token is converted to text and back, and keeps only 14 of its digits (Lua).
    TokenAsText = "token-as-text",
    /// Validity counts from the arrival of the reply, and not from the sending of the request.
    ValidityFromReply = "validity-from-reply",
    /// A grant counts if one replica has it, although several must have it.
    WaitsForOneReplica = "waits-for-one-replica",
}

/// The bugs in scripts: a piece of a line of Lua, and the piece that replaces it.
#[cfg(leasehold_test_bugs)]
pub const PATCHES: [(Bug, &str, &str); 4] = [
    (Bug::BootOfAnotherRun, "boot[1] ~= run or ", ""),
    (Bug::PublishMayFail, "redis.pcall('PUBLISH', prefix", "redis.call('PUBLISH', prefix"),
    (Bug::ReleaseWithoutOwnerCheck, "held = holder == attempt", "held = not not holder"),
    (Bug::TokenAsText, "return format('%.0f', number)", "return '' .. number"),
];

/// Whether a bug is switched on: never in a published build.
#[cfg(not(leasehold_test_bugs))]
pub const fn is_on(_: Bug) -> bool {
    false
}

/// Whether a bug is switched on.
#[cfg(leasehold_test_bugs)]
pub fn is_on(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("LEASEHOLD_BUG").ok()?;
        let bug = ALL.into_iter().find_map(|(bug, it)| (it == name).then_some(bug));
        assert!(bug.is_some(), "LEASEHOLD_BUG={name} is no bug that there is");
        bug
    });
    *chosen == Some(bug)
}

/// A line of a script: without a bug in a published build.
#[cfg(not(leasehold_test_bugs))]
pub const fn patched(line: &str) -> &str {
    line
}

/// A line of a script, changed if a bug in it is switched on.
#[cfg(leasehold_test_bugs)]
pub fn patched(line: &str) -> String {
    let on = PATCHES.iter().filter(|(bug, ..)| is_on(*bug));
    on.fold(line.to_owned(), |line, (_, right, wrong)| line.replace(right, wrong))
}
