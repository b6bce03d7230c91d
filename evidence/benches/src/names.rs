//! What a name that was used once costs the server: nothing.

use std::time::Instant;

use leasehold::Client;
use leasehold_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use crate::measure::number;
use crate::outcome::Outcome;
use crate::server::{self, Work};
use crate::table::Table;

/// Distinct names, each acquired and released once.
const NAMES: usize = 1_000_000;

/// How many tasks share the work.
const TASKS: usize = 256;

/// Prints one table.
pub(crate) async fn run() -> Outcome {
    let heads = ["", "bytes/name", "names/s"];
    let mut table = Table::new(&format!("Names: {NAMES} released locks"), &heads);
    let server = server::start()?;
    let client = Client::connect(server.url()).await?;
    let (bytes, rate) = measure(&server, Filler::Leasehold(client)).await?;
    table.row(["leasehold, released".to_owned(), number(bytes), number(rate)]);
    let server = server::start()?;
    let client = redis::Client::open(server.url())?;
    let plain = Filler::Plain(client.get_multiplexed_async_connection().await?);
    let (bytes, rate) = measure(&server, plain).await?;
    table.row(["a key of the same name with a number".to_owned(), number(bytes), number(rate)]);
    println!("{table}");
    Ok(())
}

/// The lock that uses each name.
#[derive(Clone, Debug)]
enum Filler {
    Leasehold(Client),
    Plain(MultiplexedConnection),
}

impl Filler {
    async fn fill(&self, name: &str) -> Outcome {
        match self {
            Self::Leasehold(client) => {
                client.mutex(name).acquire().await?.release().await?;
            }
            Self::Plain(connection) => {
                let mut set = redis::cmd("SET");
                set.arg(format!("lh:{name}")).arg("1234567890123456").arg("PX").arg(1_800_000);
                set.query_async::<()>(&mut connection.clone()).await?;
            }
        }
        Ok(())
    }
}

/// Bytes that each name takes, and names per second.
async fn measure(server: &RedisServer, filler: Filler) -> Outcome<(f64, f64)> {
    filler.fill("first").await?;
    let (before, begin) = (Work::of(server)?, Instant::now());
    let mut running = JoinSet::new();
    for task in 0..TASKS {
        let filler = filler.clone();
        running.spawn(async move {
            for at in (task..NAMES).step_by(TASKS) {
                filler.fill(&format!("customers/{at:07}")).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    let took = begin.elapsed().as_secs_f64();
    let grown = Work::of(server)?.since(before).grown;
    Ok((grown as f64 / NAMES as f64, NAMES as f64 / took))
}
