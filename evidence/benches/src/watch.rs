//! The cost of watching, by `leasehold serve` and `top`, for a server with many other keys.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use leasehold::time::SystemClock;
use leasehold::{Client, Guard};
use leasehold_cli::watch::{Timekeeper, Watcher};
use leasehold_testkit::RedisServer;
use tokio::time::{sleep, timeout};

use crate::measure::number;
use crate::outcome::Outcome;
use crate::process;
use crate::server;
use crate::table::Table;

/// Locks that are held.
const LOCKS: usize = 5_000;

/// Keys of other programs.
const FOREIGN: usize = 200_000;

/// Keys a second: the default, and more. With fewer keys, it takes very long until all names are
/// known.
const BUDGETS: [u32; 2] = [2_000, 10_000];

/// How long each budget is measured: 40 s.
const SPAN: Duration = Duration::from_secs(40);

/// Longer than the run, so that no renewal is counted.
const TTL: Duration = Duration::from_secs(3 * 3600);

/// Prints one table.
pub(crate) async fn run() -> Outcome {
    let title = format!("Watching: {LOCKS} held locks beside {FOREIGN} keys of others");
    let heads = ["keys a second", "server CPU", "watcher CPU", "scripts/s", "oldest row", "a walk"];
    let mut table = Table::new(&title, &heads);
    let server = server::start()?;
    server.command::<()>(&format!("DEBUG POPULATE {FOREIGN} foreign 16"))?;
    let client = Client::connect(server.url()).await?;
    let _held = hold(&client).await?;
    table.row(measure(&server, None).await?);
    for budget in BUDGETS {
        table.row(measure(&server, Some(budget)).await?);
    }
    println!("{table}");
    Ok(())
}

async fn hold(client: &Client) -> Outcome<Vec<Guard>> {
    let mut held = Vec::with_capacity(LOCKS);
    for number in 0..LOCKS {
        held.push(client.mutex(format!("account/{number:04}")).ttl(TTL).acquire().await?);
    }
    Ok(held)
}

/// The cost of watching with this many keys a second, once all names are known; or the cost without
/// watching.
async fn measure(server: &RedisServer, budget: Option<u32>) -> Outcome<[String; 6]> {
    let Some(budget) = budget else {
        let cost = Cost::of(server, sleep(SPAN)).await?;
        let [cpu, own, scripts] = cost.cells();
        return Ok([
            "nobody watches".to_owned(),
            cpu,
            own,
            scripts,
            "–".to_owned(),
            "–".to_owned(),
        ]);
    };
    let client = Client::connect(server.url()).await?;
    let watcher = Watcher::new(budget, Timekeeper::new(SystemClock::new()));
    let admin = client.admin();
    let watching = watcher.run(&admin, |_| {});
    let measuring = async {
        while !watcher.picture().is_whole() || watcher.picture().totals().held < LOCKS {
            sleep(Duration::from_millis(100)).await;
        }
        Cost::of(server, sleep(SPAN)).await
    };
    let cost = tokio::select! {
        never = watching => { let never: Infallible = never; match never {} }
        cost = measuring => cost?,
    };
    let picture = watcher.picture();
    let oldest = picture.totals().oldest_look_ms.unwrap_or(0);
    let oldest = watcher.time.now_ms().saturating_sub(oldest) as f64 / 1000.0;
    let walk = picture.round_took_ms().unwrap_or(0) as f64 / 1000.0;
    let [cpu, own, scripts] = cost.cells();
    let seconds = |span| format!("{} s", number(span));
    Ok([budget.to_string(), cpu, own, scripts, seconds(oldest), seconds(walk)])
}

/// The used share of a processor in a span.
struct Cost {
    span: Duration,
    server: Duration,
    own: Duration,
    scripts: u64,
}

impl Cost {
    async fn of(server: &RedisServer, during: impl Future<Output = ()>) -> Outcome<Self> {
        let now = || -> Outcome<_> {
            let scripts = server.command_stats("evalsha")?.0;
            Ok((process::cpu(server.pid())?, process::cpu(std::process::id())?, scripts))
        };
        let (before, begin) = (now()?, Instant::now());
        timeout(2 * SPAN, during).await?;
        let (after, span) = (now()?, begin.elapsed());
        let (server, own) = (after.0 - before.0, after.1 - before.1);
        Ok(Self { span, server, own, scripts: after.2 - before.2 })
    }

    fn cells(&self) -> [String; 3] {
        let share = |cpu: Duration| {
            let share = cpu.as_secs_f64() / self.span.as_secs_f64();
            format!("{} %", number(share * 100.0))
        };
        let scripts = self.scripts as f64 / self.span.as_secs_f64();
        [share(self.server), share(self.own), number(scripts)]
    }
}
