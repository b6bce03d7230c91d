//! The kinds of places where locks live, and their faults: only those in the tables of
//! GUARANTEES.md.

use std::time::Duration;

use leasehold_testkit::must;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::Fault;
use crate::plan::{CLOCKLESS_NUMBERS, JOBS, LASTING_NUMBERS, Modes, Plan, QUARANTINE};

/// Leases for servers whose clocks may differ, which takes half a second off each. After a loss of
/// data, nothing new is granted for the longest of them.
const SHARDED: [Duration; 3] =
    [Duration::from_millis(1200), Duration::from_millis(1500), Duration::from_secs(2)];

/// A kind of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Topology {
    /// A primary and a synchronous standby, which have the protected values, too.
    Bank,
    /// The same, and no update calls the fence: a control.
    BankUnfenced,
    /// One server with its own wall clock, which is set back and runs badly.
    Clock,
    Cluster,
    /// One server with a file, synced `always`, and a separate user for clients.
    Durable,
    File,
    /// One server that forgets, and whose clock is set forward: two may hold, and tokens grow.
    Forgetful,
    Memory,
    Plain,
    /// One PostgreSQL server, whose processes are killed and which recovers.
    Postgres,
    /// The same behind a pooler in transaction mode.
    PostgresBouncer,
    /// A primary, and a synchronous standby that takes over.
    PostgresStandby,
    Quarantine,
    Quorum,
    Redisson,
    ReplicasAll,
    ReplicasOne,
    Sentinel,
    /// The same without an acknowledgement by a replica: a control.
    SentinelAlone,
    Server,
    /// A cluster that forgets, with a quarantine.
    Sharded,
}

/// The promises that remain under all faults of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Promised {
    /// Exclusion and the order of tokens.
    #[default]
    Both,
    /// The order of tokens.
    Order,
    Nothing,
}

/// The faults of the network between clients and a server.
macro_rules! network {
    ($($more:ident),* $(,)?) => {
        &[
            Fault::ConnectionsCut,
            Fault::Delay,
            Fault::Duplicate,
            Fault::Late,
            Fault::LostReply,
            Fault::Partition,
            Fault::PartitionToClients,
            Fault::PartitionToServer,
            Fault::ScriptFlush,
            Fault::SubscribersCut,
            $(Fault::$more,)*
        ]
    };
}

impl Topology {
    /// The topology of this name, which is its own in kebab-case.
    pub(crate) fn named(name: &str) -> Self {
        must(serde_json::from_value(name.into()))
    }

    pub(crate) fn name(self) -> String {
        let Ok(Value::String(name)) = serde_json::to_value(self) else { panic!("it has a name") };
        name
    }

    /// The faults, each as often as the others. Processes are stopped and killed everywhere.
    pub(crate) fn faults(self) -> &'static [Fault] {
        match self {
            Self::File | Self::Memory => &[],
            Self::Clock => network![Hang, ClockBack, ClockRate],
            Self::Durable => network![Hang, Kill, FullMemory, AclTaken],
            Self::Forgetful => {
                network![Hang, ClockForward, Eviction, Flush, PowerLoss, RestartEmpty]
            }
            // A stopped server would let a late plain acquire in (B3 of GUARANTEES.md).
            Self::Plain => network![],
            Self::Postgres => {
                &[Fault::ConnectionsCut, Fault::Hang, Fault::Kill, Fault::SubscribersCut]
            }
            Self::PostgresBouncer => &[Fault::ConnectionsCut, Fault::Hang, Fault::Kill],
            Self::Bank | Self::BankUnfenced => &[Fault::ConnectionsCut, Fault::KillPrimary],
            Self::PostgresStandby => &[
                Fault::ConnectionsCut,
                Fault::Hang,
                Fault::KillPrimary,
                Fault::PrimaryUnseen,
                Fault::SubscribersCut,
            ],
            Self::Quarantine => {
                network![Hang, Flush, FullMemory, Kill, PowerLoss, RestartEmpty]
            }
            Self::Quorum => network![Hang, FullMemory, Flush, RestartEmpty],
            Self::Redisson | Self::Server => network![Hang, FullMemory],
            Self::ReplicasAll | Self::ReplicasOne => &[
                Fault::Hang,
                Fault::ConnectionsCut,
                Fault::LinkCut,
                Fault::ScriptFlush,
                Fault::SubscribersCut,
            ],
            Self::Sentinel => &[
                Fault::Failover,
                Fault::Hang,
                Fault::KillPrimary,
                Fault::ConnectionsCut,
                Fault::LinkCut,
                Fault::PrimaryUnseen,
                Fault::PrimaryUnseenByOne,
                Fault::ReplicasUnseen,
                Fault::SentinelParted,
                Fault::SentinelsScattered,
                Fault::SubscribersCut,
            ],
            Self::SentinelAlone => &[Fault::SentinelParted],
            Self::Cluster => &[
                Fault::BusCut,
                Fault::ConnectionsCut,
                Fault::FullMemory,
                Fault::Hang,
                Fault::LinkCut,
                Fault::ScriptFlush,
                Fault::SlotMove,
                Fault::SubscribersCut,
            ],
            Self::Sharded => &[
                Fault::BusCut,
                Fault::ConnectionsCut,
                Fault::Flush,
                Fault::Hang,
                Fault::KillPrimary,
                Fault::LinkCut,
                Fault::RestartEmpty,
                Fault::ScriptFlush,
                Fault::SlotMove,
                Fault::SubscribersCut,
                Fault::TakeOver,
            ],
        }
    }

    /// Whether a waiter that was cancelled never comes back: no power is lost, and no replica that
    /// may lack the cancel takes over.
    pub(crate) fn keeps_cancels(self) -> bool {
        let takes_over = matches!(self, Self::Sentinel | Self::SentinelAlone | Self::Sharded);
        !takes_over && !self.faults().contains(&Fault::PowerLoss)
    }

    pub(crate) fn promised(self) -> Promised {
        if self == Self::Forgetful {
            Promised::Order
        } else if matches!(self, Self::BankUnfenced | Self::SentinelAlone) {
            Promised::Nothing
        } else {
            Promised::Both
        }
    }

    pub(crate) fn plan(self) -> Plan {
        match self {
            // After a clock was set back, numbers with a floor wait for as long as the step.
            Self::Clock => Plan { numbers: &CLOCKLESS_NUMBERS, ..Plan::QUICK.faithful() },
            Self::Forgetful => Plan { numbers: &LASTING_NUMBERS, ..Plan::QUICK },
            Self::Durable | Self::File | Self::Server => {
                Plan { keeps: true, ..Plan::QUICK.faithful() }
            }
            // One process has the store; its stock is in its own memory.
            Self::Memory => {
                Plan { processes: 1, clients: 6, keeps: true, ..Plan::QUICK.faithful() }
            }
            Self::Plain => Plan { modes: Modes::Mutexes, elections: 0, ..Plan::QUICK.faithful() },
            Self::Redisson => Plan { semaphores: 0, elections: 0, ..Plan::QUICK.faithful() },
            // With long holds, a lease is usually held when the place forgets.
            Self::Quarantine => Plan {
                ttls: [QUARANTINE / 4, QUARANTINE / 2, QUARANTINE],
                longest: QUARANTINE,
                numbers: &LASTING_NUMBERS,
                ..Plan::SLOW
            },
            // A round with split votes is expensive.
            Self::Quorum => Plan { tasks: 6, modes: Modes::Mutexes, elections: 0, ..Plan::WIDE },
            Self::Cluster => Plan { keeps: true, ..Plan::WIDE.faithful() },
            // A crash forgets unacknowledged releases; grants are flushed, and so are the ends of
            // jobs.
            Self::Postgres | Self::PostgresBouncer | Self::PostgresStandby => {
                Plan { jobs: JOBS, ..Plan::WIDE }
            }
            Self::Bank | Self::BankUnfenced => Plan::UPDATES,
            // `replicas=` is about grants; all other data are as durable as the primary.
            Self::Sentinel | Self::SentinelAlone => Plan::WIDE,
            // The same.
            Self::Sharded => {
                Plan { ttls: SHARDED, longest: Duration::from_millis(800), ..Plan::SLOW }
            }
            Self::ReplicasAll | Self::ReplicasOne => Plan { keeps: true, ..Plan::SLOW.faithful() },
        }
    }
}
