//! Named bugs: mistakes that a distributed lock must not make, each of which can be switched on to
//! see that a test finds it. `cargo xtask bugs` does that for all of them.
//!
//! `--cfg leasehold_test_bugs` compiles the switches in, and `LEASEHOLD_BUG=name` turns one on.
//! Only `xtask/rustc-for-tests.sh` sets it; otherwise [`is_on`] is a constant. It is no feature,
//! because any package in a build could turn on a feature for all others.

/// The table of bugs: a line of Rust each, with what is broken.
macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $name:literal,)*) => {
        /// A mistake that can be switched on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $bug,)*
        }

        impl Bug {
            /// Every bug there is.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$bug),*];

            /// What `LEASEHOLD_BUG` calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)*
                }
            }
        }
    };
}

bugs! {
    /// The boot record of another run of a server, or of another server, counts (Lua).
    BootOfAnotherRun = "boot-of-another-run",
    /// A lease is timed by a clock that stands still while the machine is suspended.
    ClockStopsAsleep = "clock-stops-asleep",
    /// A client uses its own wall clock as the bound until which the store may queue or grant for
    /// it.
    ClientClockInQueue = "client-clock-in-queue",
    /// A token is the one before plus one, without regard to time.
    CountedToken = "counted-token",
    /// A wait that is dropped stays in the queue.
    DropWithoutCancel = "drop-without-cancel",
    /// A renewal that fails ends the lease at once.
    FailedRenewalEnds = "failed-renewal-ends",
    /// The message of a grant is believed without the attempt's secret.
    GrantMatchedByName = "grant-matched-by-name",
    /// The keeper lives on the runtime of the first caller, and dies with it.
    KeeperOnCallersRuntime = "keeper-on-callers-runtime",
    /// A name without holders forgets its last token.
    LastTokenForgotten = "last-token-forgotten",
    /// A renewal revives a hold whose time has come.
    LateRenewalRevives = "late-renewal-revives",
    /// A lease is passed on inside of a process when too little of it is left.
    LocalHandOffTooLate = "local-hand-off-too-late",
    /// A new caller is granted a free lock although others wait.
    NewcomerBarges = "newcomer-barges",
    /// A grant counts although too little of it is left when the reply arrives.
    NoCheckAfterReply = "no-check-after-reply",
    /// A quorum takes the highest token of its nodes, and does not tell the others.
    NoCommit = "no-commit",
    /// Nobody asks again when messages may have been lost.
    NoPollAfterGap = "no-poll-after-gap",
    /// An attempt that has ended is not remembered.
    NoTombstone = "no-tombstone",
    /// A client asks only for waiters that are the first in the queue.
    OnlyHeadIsPolled = "only-head-is-polled",
    /// A script fails when its message is refused (Lua).
    PublishMayFail = "publish-may-fail",
    /// A release ends any present hold, also that of another holder (Lua).
    ReleaseWithoutOwnerCheck = "release-without-owner-check",
    /// The numbers of waiters begin again while somebody waits.
    SequenceWraps = "sequence-wraps",
    /// Keys of several slots go in one call of a script.
    SlotsInOneCall = "slots-in-one-call",
    /// The inbox is opened after joining the queue, and the client does not ask for earlier
    /// messages.
    SubscribesAfterJoining = "subscribes-after-joining",
    /// A token becomes text in between, and keeps only 14 of its digits (Lua).
    TokenAsText = "token-as-text",
    /// Validity counts from when the reply arrived, and not from when the request left.
    ValidityFromReply = "validity-from-reply",
    /// One replica that has a grant stands for all that must have it.
    WaitsForOneReplica = "waits-for-one-replica",
}

/// The bugs in scripts: a line of Lua, without what indents it, and what stands there instead.
pub const PATCHES: [(Bug, &str, &str); 4] = [
    (
        Bug::BootOfAnotherRun,
        "if boot[1] ~= run or was_replica or not (since and since <= now) then",
        "if was_replica or not (since and since <= now) then",
    ),
    (
        Bug::PublishMayFail,
        "redis.pcall('PUBLISH', ARGV[1] .. string.format(HEX, \
         struct.unpack('>I4I4I4I4', id)), payload)",
        "redis.call('PUBLISH', ARGV[1] .. string.format(HEX, \
         struct.unpack('>I4I4I4I4', id)), payload)",
    ),
    (
        Bug::ReleaseWithoutOwnerCheck,
        "and string.sub(state, HOLDER_AT, HOLDER_AT + 23) == id then",
        "then",
    ),
    (
        Bug::TokenAsText,
        "if token <= TOKEN_EPOCH then token = TOKEN_EPOCH + 1 end",
        "token = tonumber('' .. math.max(token, TOKEN_EPOCH + 1))",
    ),
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
        let bug = Bug::ALL.into_iter().find(|bug| bug.name() == name);
        assert!(bug.is_some(), "LEASEHOLD_BUG={name} is no bug that there is");
        bug
    });
    *chosen == Some(bug)
}

/// A line of a script, changed if a bug in it is switched on.
pub fn patched(line: &str) -> &str {
    let is_it = |(bug, right, _): &&(Bug, &str, &str)| is_on(*bug) && line.trim_start() == *right;
    PATCHES.iter().find(is_it).map_or(line, |(_, _, wrong)| wrong)
}
