//! Which tests must find which named bug. Those that find it soonest are enough.

/// Some tests of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tests {
    pub(super) package: &'static str,
    /// `lib`, or the name of the file or folder in `tests`.
    pub(super) target: &'static str,
    /// What the names of the tests contain.
    pub(super) filter: &'static str,
}

const fn core(target: &'static str, filter: &'static str) -> Tests {
    Tests { package: "leasehold-core", target, filter }
}

const fn library(target: &'static str, filter: &'static str) -> Tests {
    Tests { package: "leasehold", target, filter }
}

const fn servers(target: &'static str, filter: &'static str) -> Tests {
    Tests { package: "leasehold-tests", target, filter }
}

/// A bug, and the tests that must find it.
pub(super) type Row = (&'static str, Tests);

pub(super) const TABLE: [Row; 25] = [
    ("boot-of-another-run", servers("cluster", "a_slot_that_moves_costs_its_holder")),
    ("client-clock-in-queue", library("lib", "store::clocked")),
    ("clock-stops-asleep", library("suspend", "")),
    ("counted-token", core("lib", "model::")),
    ("drop-without-cancel", servers("dropping", "an_acquire_that_is_dropped")),
    ("failed-renewal-ends", library("waiting", "")),
    ("grant-matched-by-name", library("messages", "")),
    ("keeper-on-callers-runtime", servers("dropping", "outlives_its_runtime_is_renewed")),
    ("last-token-forgotten", core("lib", "model::")),
    ("late-renewal-revives", core("lib", "model::")),
    ("local-hand-off-too-late", library("line", "")),
    ("newcomer-barges", core("lib", "model::")),
    ("no-check-after-reply", library("messages", "")),
    ("no-commit", core("lib", "quorum::round")),
    ("no-poll-after-gap", library("messages", "")),
    ("no-tombstone", core("lib", "model::")),
    ("only-head-is-polled", library("lib", "keeper::")),
    ("publish-may-fail", servers("differential", "publish_is_denied")),
    ("release-without-owner-check", servers("differential", "scripts_mean")),
    ("sequence-wraps", core("lib", "model::")),
    ("slots-in-one-call", servers("cluster", "names_of_many_slots")),
    ("subscribes-after-joining", library("messages", "")),
    ("token-as-text", servers("differential", "scripts_mean")),
    ("validity-from-reply", library("messages", "")),
    ("waits-for-one-replica", servers("replicas", "one_replica_of_two")),
];

/// Where the bugs are.
const CATALOGUE: &str = include_str!("../../../crates/leasehold-core/src/bugs.rs");

/// The names of all bugs.
pub(super) fn catalogue() -> Vec<&'static str> {
    let name = |line: &'static str| {
        let (_, name) = line.strip_suffix("\",")?.split_once(" = \"")?;
        (!name.contains(' ')).then_some(name)
    };
    CATALOGUE.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_row() {
        let mut names = catalogue();
        names.sort_unstable();
        assert_eq!(TABLE.map(|(name, _)| name).as_slice(), names);
    }
}
