//! Who may import whom. ARCHITECTURE.md shows the same tables as a picture.

/// This file, for whoever must change it.
pub(super) const TABLE: &str = "xtask/src/layers/table.rs";

/// The modules of one package from the lowest layer to the highest. Modules of one layer do not
/// import each other, modules below a name that stands here may. `store::*` stands for each module
/// directly in `store`.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) package: &'static str,
    /// The module whose own modules these are; none for those of the whole crate.
    pub(super) within: &'static [&'static str],
    pub(super) rows: &'static [&'static [&'static str]],
}

pub(super) const LAYERS: &[Layers] = &[
    Layers {
        package: "crates/leasehold-core",
        within: &[],
        rows: &[
            &["bugs", "name", "setters"],
            &["page", "text", "time", "token"],
            &["backoff", "holder"],
            &["deadlock", "lease", "options"],
            &["request"],
            &["error", "model", "renewal"],
            &["fence", "quorum"],
        ],
    },
    Layers {
        package: "crates/leasehold-core",
        within: &["model"],
        rows: &[
            &["limits"],
            &["rows"],
            &["table"],
            &["record"],
            &["sound", "step"],
            &[
                "acquire",
                "adopt",
                "apply",
                "cancel",
                "change_mode",
                "commit",
                "describe",
                "inspect",
                "poll",
                "promote",
                "reap",
                "reclaim",
                "release",
                "renew",
                "revoke",
                "set_capacity",
            ],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &[],
        rows: &[
            &["sync"],
            &["mutex", "process"],
            &["background", "clock", "event", "failures", "lost", "own_process", "refusal"],
            &["store"],
            &["keeper", "poll_queue"],
            &["engine"],
            &["admin", "calling", "guard", "wait"],
            &["adopt", "multi", "wait_free"],
            &["lock"],
            &["election", "fence", "job", "rwlock", "semaphore"],
            &["client"],
            &["blocking"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &["blocking"],
        rows: &[&["cancel"], &["driver"], &["guard"], &["lock"], &["election", "job"], &["client"]],
    },
    Layers {
        package: "crates/leasehold",
        within: &["keeper"],
        rows: &[
            &["answers", "delivery", "mode_changes", "recently_ended", "reporting", "ticket"],
            &["lease"],
            &["jobs", "table"],
            &["life"],
            &["reports"],
            &["leases"],
            &["cleanups", "held", "polls", "reclaim", "renewals", "telling"],
            &["lines", "run"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &["keeper", "table"],
        rows: &[&["cleanup", "due_queue"], &["leases", "waiters"], &["lines"]],
    },
    Layers {
        package: "crates/leasehold",
        within: &["keeper", "table", "lines"],
        rows: &[&["outcome"], &["line"], &["by_name"], &["patience"], &["callers", "grants"]],
    },
    Layers {
        package: "crates/leasehold",
        within: &["wait"],
        rows: &[&["retry"], &["progress"], &["attempt", "report"], &["call"]],
    },
    Layers {
        package: "crates/leasehold",
        within: &["store"],
        rows: &[
            &["finding", "protocol", "retention", "traits"],
            &["clock_sample", "deadlocks", "outages"],
            &["clocked", "deadlock_findings"],
            &["file", "memory", "quorum", "redis"],
            &["router"],
            &["fuzzing"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &["store", "file"],
        rows: &[
            &["access", "codec", "hash", "mount", "rules"],
            &["options", "write_lock"],
            &["location", "url"],
            &["files", "liveness", "rows", "users"],
            &["disk_space", "inbox", "reap", "subscription"],
            &["record"],
            &["writing"],
            &["schema", "tidy", "transact"],
            &["database", "doctor"],
            &["identity"],
            &["executor", "fuzzing"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &["store", "quorum"],
        rows: &[
            &["handed_out", "leases", "pending_cleanups", "unsupported"],
            &["node"],
            &["nodes"],
            &["fan_out", "inboxes", "subscription"],
            &["cleanup", "inspect", "list", "renew", "replies"],
            &["acquire", "change_mode", "describe", "release", "revoke"],
            &["adopt"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &["store", "redis"],
        rows: &[
            &["options", "rights", "warnings"],
            &["connection", "url"],
            &["layout"],
            &["durability"],
            &["topology"],
            &["list", "node_list", "pubsub"],
            &["doctor"],
            &["opening", "quorum_node", "run_script"],
            &["fuzzing", "wire"],
        ],
    },
    Layers {
        package: "crates/leasehold-data",
        within: &[],
        rows: &[
            &["batch", "model"],
            &["store"],
            &["part"],
            &["cell", "numbers", "queue", "stock"],
            &["data"],
            &["blocking"],
        ],
    },
    Layers {
        package: "crates/leasehold-data",
        within: &["store"],
        rows: &[&["data_store"], &["file", "memory", "redis"], &["router"]],
    },
    Layers {
        package: "crates/leasehold-data",
        within: &["model"],
        rows: &[&["id", "limits"], &["due"], &["cell", "numbers", "queue", "stock"], &["request"]],
    },
    Layers {
        package: "crates/leasehold-watch",
        within: &[],
        rows: &[
            &["budget", "change"],
            &["history"],
            &["row"],
            &["deadlocks"],
            &["picture"],
            &["scanner"],
        ],
    },
    Layers {
        package: "crates/leasehold-cli",
        within: &[],
        rows: &[
            &["moment", "signals", "store_url", "terminal", "user"],
            &["report", "secrets"],
            &["runtime", "store_choice", "table"],
            &["args", "other_process"],
            &["connection"],
            &["child"],
            &["taken"],
            &["commands"],
            &["fuzzing"],
        ],
    },
    Layers {
        package: "crates/leasehold-cli",
        within: &["taken"],
        rows: &[&["directory", "handle", "log", "whose"], &["control", "launch"], &["holder"]],
    },
];

/// What each package may depend on of the others, and what besides in its tests.
pub(super) const CRATES: [(&str, &[&str], &[&str]); 14] = [
    (
        "benches",
        &["leasehold", "leasehold-core", "leasehold-data", "leasehold-testkit", "leasehold-watch"],
        &[],
    ),
    ("crates/leasehold", &["leasehold-core"], &[]),
    (
        "crates/leasehold-cli",
        &["leasehold", "leasehold-core", "leasehold-watch"],
        &["leasehold-testkit"],
    ),
    ("crates/leasehold-conformance", &["leasehold"], &[]),
    ("crates/leasehold-core", &[], &[]),
    ("crates/leasehold-data", &["leasehold"], &["leasehold-testkit"]),
    ("crates/leasehold-testkit", &["leasehold", "leasehold-conformance", "leasehold-core"], &[]),
    ("crates/leasehold-watch", &["leasehold"], &[]),
    ("examples/flash_sale", &["leasehold", "leasehold-data", "leasehold-testkit"], &[]),
    ("examples/observing", &["leasehold"], &[]),
    ("examples/own_store", &["leasehold"], &["leasehold-conformance"]),
    ("fuzz", &["leasehold", "leasehold-cli", "leasehold-testkit"], &[]),
    (
        "tests",
        &["leasehold", "leasehold-cli", "leasehold-core", "leasehold-data", "leasehold-testkit"],
        &[],
    ),
    ("xtask", &[], &[]),
];

/// A module's place: its row, and the part of its path that the row names.
#[derive(Debug)]
pub(super) struct Place {
    row: usize,
    unit: Vec<String>,
}

impl Place {
    pub(super) fn may_import(&self, other: &Self) -> bool {
        other.row < self.row || self.unit == other.unit
    }
}

impl Layers {
    /// The path of a module below the one whose modules these are; none for that one itself.
    pub(super) fn inside<'a>(&self, module: &'a [String]) -> Option<&'a [String]> {
        let is_within = self.within.iter().zip(module).all(|(part, found)| part == found);
        let inside = module.get(self.within.len()..).filter(|_| is_within)?;
        (!inside.is_empty()).then_some(inside)
    }

    /// Where a module below it stands in the table. The longest name counts, and of two a name
    /// without `*`.
    pub(super) fn find(&self, inside: &[String]) -> Option<Place> {
        let named = |name: &str| -> Option<usize> {
            let parts: Vec<&str> = name.split("::").collect();
            let fits = parts.iter().zip(inside).all(|(part, found)| *part == "*" || part == found);
            (fits && parts.len() <= inside.len()).then_some(parts.len())
        };
        let rows = self.rows.iter().enumerate();
        let found = rows.flat_map(|(row, names)| names.iter().map(move |name| (row, *name)));
        let found = found.filter_map(|(row, name)| Some((named(name)?, !name.contains('*'), row)));
        let (length, _, row) = found.max()?;
        Some(Place { row, unit: inside[..length].to_vec() })
    }
}

/// The tables of the crate with this folder.
pub(super) fn tables(folder: &str) -> impl Iterator<Item = &'static Layers> {
    LAYERS.iter().filter(move |layers| folder.strip_suffix("/src") == Some(layers.package))
}
