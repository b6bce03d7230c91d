//! The faults of the place where the locks live.

/// A fault of a place. A report calls it by its name here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    AclTaken,
    /// The bus between a primary of a cluster and all other nodes is cut; clients still reach it.
    BusCut,
    /// The server's wall clock is set back.
    ClockBack,
    /// The server's wall clock is set forward.
    ClockForward,
    /// The server's wall clock runs faster or slower than the machine's, within the assumed drift.
    ClockRate,
    ConnectionsCut,
    /// Everything arrives late.
    Delay,
    /// A request arrives twice.
    Duplicate,
    /// The server is short of memory, and evicts.
    Eviction,
    /// A replica is promoted, as an operator asks the sentinels to.
    Failover,
    /// `FLUSHALL`.
    Flush,
    /// The server's memory is full, and it evicts nothing.
    FullMemory,
    /// A server, or a replica, is stopped for a while.
    Hang,
    /// The server is killed and starts again with its file.
    Kill,
    /// The primary is killed, and the sentinels notice that.
    KillPrimary,
    /// Nothing is replicated: a primary and its replicas cannot reach each other.
    LinkCut,
    /// A request is kept, its connection is lost, and it arrives later than newer requests.
    Late,
    /// The reply of a request is lost, and its connection goes silent.
    LostReply,
    /// Bytes of clients do not arrive.
    PartitionToServer,
    /// Bytes of the server do not arrive.
    PartitionToClients,
    /// Nothing arrives, in both directions.
    Partition,
    /// The power fails, and the disk never got the last writes.
    PowerLoss,
    /// Sentinels do not see the primary, and replace it; clients and replicas reach it.
    PrimaryUnseen,
    /// One sentinel does not see the primary, which has no effect.
    PrimaryUnseenByOne,
    /// Sentinels and all replicas do not reach each other, which has no effect.
    ReplicasUnseen,
    RestartEmpty,
    ScriptFlush,
    /// The primary and one sentinel are parted from the others, which replace it. Clients reach it.
    SentinelParted,
    /// The sentinels do not reach each other, nor the primary: nobody may replace it.
    SentinelsScattered,
    /// A slot moves to another node of the cluster.
    SlotMove,
    SubscribersCut,
    /// A replica without all writes takes over, although its primary is well.
    TakeOver,
}

impl Fault {
    /// Whether a server has forgotten something. After such a fault, a server with a quarantine
    /// grants nothing for its duration.
    pub(crate) fn forgets(self) -> bool {
        matches!(
            self,
            Self::BusCut
                | Self::Flush
                | Self::Kill
                | Self::KillPrimary
                | Self::PowerLoss
                | Self::RestartEmpty
                | Self::TakeOver
        )
    }
}
