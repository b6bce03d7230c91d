//! Acquire and release in a PostgreSQL database where nobody waits: leasehold compared with usual
//! solutions in the same database, in turns, each task on a separate name.

mod bloat;
mod contender;

use std::time::Duration;

use leasehold_testkit::{PgBouncer, Postgres, Proxy, Table};

pub(crate) use self::bloat::run as run_bloat;
use self::contender::{Contender, Kind, Place};
use crate::alone::{Score, Task, middle, one_turn};
use crate::measure::{Times, number, span};
use crate::outcome::Outcome;
use crate::process;

/// How often the contenders take turns, so that a slow moment of the machine hits them all.
const ROUNDS: usize = 7;

/// How long one turn of one contender takes.
const TURN: Duration = Duration::from_millis(500);

/// Tasks that send requests at the same time: each with a session, and many more.
const SOME: usize = 8;
const MANY: usize = 64;

/// Sessions for all contenders, and to ask the server for its processor time.
const ROOM: &str = "max_connections=400";

/// What the pairs have left.
const SIZES: &str = "SELECT string_agg(concat(relname, ' ', pg_total_relation_size(oid) / 1024, \
    ' KiB'), ', ') FROM pg_class WHERE relname IN ('lease', 'timed')";

/// Clients that want the same name.
const WAITERS: usize = 16;

/// How long a request travels to a server that is not near, and how long its answer does.
const WAY: Duration = Duration::from_millis(2);

const MISSING: &str = "PostgreSQL is not installed: `cargo xtask test` does that";

/// Prints one table for each kind of server and number of tasks.
pub(crate) async fn run() -> Outcome {
    let quick = Postgres::start_with(&["fsync=off", ROOM])?.ok_or(MISSING)?;
    let near = Place { url: quick.url(), is_unnamed: false };
    for tasks in [1, SOME, MANY] {
        compare("not flushed", &quick, &near, (1, tasks)).await?;
    }
    let pooler = PgBouncer::start(&quick, 8)?.ok_or("PgBouncer is not installed")?;
    let pooled = Place { url: pooler.url(), is_unnamed: true };
    compare("not flushed, through PgBouncer", &quick, &pooled, (1, 1)).await?;
    compare("not flushed, one name", &quick, &near, (WAITERS, 1)).await?;
    let reader = contender::session(&near).await?;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await?;
    compare("not flushed, beside an open snapshot", &quick, &near, (1, 1)).await?;
    println!("After all of that: {}\n", quick.query(SIZES)?);
    drop((reader, quick));
    let remote = Postgres::start_on_tcp(&[ROOM])?.ok_or(MISSING)?;
    let network = Proxy::start_unread(remote.port())?;
    network.delay(WAY);
    let far = Place { url: Postgres::url_through(&network), is_unnamed: false };
    for tasks in [1, SOME] {
        compare("not flushed, 2 ms each way", &remote, &far, (1, tasks)).await?;
    }
    drop((network, remote));
    let safe = Postgres::start_with(&[])?.ok_or(MISSING)?;
    let near = Place { url: safe.url(), is_unnamed: false };
    for tasks in [1, SOME] {
        compare("flushed", &safe, &near, (1, tasks)).await?;
    }
    Ok(())
}

/// Lets all contenders have their turns: one client with tasks, each of which has a separate lock;
/// or clients that want the same lock, and wait for it.
async fn compare(
    title: &str,
    server: &Postgres,
    place: &Place,
    (clients, tasks): (usize, usize),
) -> Outcome {
    let mut contenders = Vec::new();
    for kind in if clients > 1 { &Kind::IN_TURN[..] } else { &Kind::ALONE } {
        let mut all = Vec::new();
        for _ in 0..clients {
            let shared = kind.connect(place, tasks).await?;
            all.extend((0..tasks).map(|task| (shared.clone(), task)));
        }
        contenders.push((*kind, all, Score::default()));
    }
    // One turn each to warm up, not counted.
    for turn in 0..=ROUNDS {
        for (_, tasks, score) in &mut contenders {
            let spent = || Ok([Duration::ZERO, cpu(server)?, Duration::ZERO]);
            let measured = one_turn(tasks.iter().cloned(), TURN, spent).await?;
            if turn > 0 {
                score.add(measured);
            }
        }
    }
    let heads = ["", "pairs/s", "median", "p99", "median ÷ advisory", "server CPU µs/pair"];
    let title = format!("PostgreSQL: acquire + release, {title}, tasks: {}", clients * tasks);
    let mut table = Table::new(&title, &heads);
    let mut least = None;
    for (kind, _, score) in contenders {
        let times = Times::new(score.times);
        let least = *least.get_or_insert(times.median());
        table.row([
            kind.name().to_owned(),
            number(middle(score.rates)),
            span(times.median()),
            span(times.quantile(0.99)),
            number(times.median().as_secs_f64() / least.as_secs_f64()),
            number(middle(score.cpu)),
        ]);
    }
    println!("{table}");
    Ok(())
}

impl Task for (Contender, usize) {
    async fn pair(&self) -> Outcome {
        self.0.pair(self.1).await
    }
}

/// The processor time of a server and of all processes that it has started.
fn cpu(server: &Postgres) -> Outcome<Duration> {
    let parent = server.process();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    let children: Vec<u32> =
        children.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    // A process that has ended meanwhile has used next to nothing.
    let of_children = children.into_iter().filter_map(|child| process::cpu(child).ok());
    Ok(process::cpu(parent)? + of_children.sum::<Duration>())
}
