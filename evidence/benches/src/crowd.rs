//! The cost of a call on a name with a crowd of waiters or permits, where the model runs in this
//! process: in memory and in a file.

use std::time::{Duration, Instant};

use leasehold::store::{File, Memory, Store};
use leasehold_core::{Acquire, Action, ClientId, HolderId, LockName, Mode, Operation, StoreError};

use crate::measure::{Times, span};
use crate::outcome::Outcome;
use crate::table::Table;

/// How many wait or hold: few, and many. In memory and in a file, a call writes all of them.
const FEW: u64 = 10;
const MANY: u64 = 10_000;
const MANY_IN_A_FILE: u64 = 1_000;

/// Samples of each call.
const CALLS: u64 = 1_000;

/// Longer than the benchmark takes: no lease ends meanwhile.
const TTL: Duration = Duration::from_secs(3_600);

const ME: ClientId = ClientId(1);
const OTHERS: ClientId = ClientId(2);

/// Prints one table.
pub(crate) async fn run() -> Outcome {
    let heads = ["median of a call", "10", "many", "ratio"];
    let mut table = Table::new("A crowd on one name", &heads);
    let directory = tempfile::tempdir()?;
    let file = File::open(directory.path().join("locks.db"))?;
    let memory = Memory::new();
    let stores: [(&dyn Store, _, _); 2] =
        [(&memory, "memory, 10 000", MANY), (&file, "file, 1 000", MANY_IN_A_FILE)];
    for (store, what, many) in stores {
        let permits = Mode::Permits { count: 1, capacity: 1_000_000 };
        for (mode, crowd) in [(Mode::Exclusive, "waiters"), (permits, "permits held")] {
            let few = calls(store, FEW, mode).await?;
            let many = calls(store, many, mode).await?;
            for ((call, few), (_, many)) in few.into_iter().zip(many) {
                let (few, many) = (few.median(), many.median());
                let ratio = format!("{:.2}", many.as_secs_f64() / few.as_secs_f64());
                table.row([format!("{what} {crowd}: {call}"), span(few), span(many), ratio]);
            }
        }
    }
    println!("{table}");
    Ok(())
}

/// Times some calls on a name with a crowd.
async fn calls(store: &dyn Store, count: u64, mode: Mode) -> Outcome<[(&'static str, Times); 3]> {
    let name = LockName::new(format!("{count}/{}", mode.capacity()))?;
    let act = async |action| -> Result<(), StoreError> {
        store.execute(Operation::On { name: name.clone(), action }).await.map(drop)
    };
    act(acquire(ME, 1, mode)).await?;
    for attempt in 1..=count {
        act(acquire(OTHERS, attempt, mode)).await?;
    }
    let renew = |_| Action::Renew { id: id(ME, 1), ttl: TTL, mode, change: 0 };
    let poll = |at| Action::Poll { id: id(OTHERS, count - at % count.min(9)), ttl: TTL };
    let mut times: [Vec<Duration>; 3] = Default::default();
    for at in 0..CALLS {
        let begin = Instant::now();
        act(renew(at)).await?;
        times[0].push(begin.elapsed());
        let begin = Instant::now();
        act(poll(at)).await?;
        times[1].push(begin.elapsed());
        let begin = Instant::now();
        act(acquire(ME, at + 2, mode)).await?;
        act(Action::Cancel { id: id(ME, at + 2), unanswered: false }).await?;
        times[2].push(begin.elapsed());
    }
    let [renewed, polled, joined] = times.map(Times::new);
    Ok([("renew", renewed), ("poll", polled), ("acquire and cancel", joined)])
}

fn id(client: ClientId, attempt: u64) -> HolderId {
    HolderId { client, attempt }
}

fn acquire(client: ClientId, attempt: u64, mode: Mode) -> Action {
    Action::Acquire(Acquire::new(id(client, attempt), mode, TTL).with_wait(true))
}
