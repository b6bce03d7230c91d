//! The data parts on Redis: order numbers in blocks, and the atomic stock beside a bare `DECR`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_data::{Data, Numbers, Stock};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use crate::measure::number;
use crate::outcome::Outcome;
use crate::server;
use crate::table::Table;

/// How long each row is measured.
const SPAN: Duration = Duration::from_secs(2);

/// Tasks that send requests at the same time, on one connection.
const TASKS: usize = 64;

/// Pieces on the shelf: more than a row can take in its time.
const PIECES: u64 = 1_000_000_000;

/// Prints two tables.
pub(crate) async fn run() -> Outcome {
    let server = server::start()?;
    let data = Data::connect(server.url()).await?;
    let title = format!("Order numbers per second, {TASKS} tasks");
    let mut table = Table::new(&title, &["block", "1 000 000 a second at most", "short"]);
    for block in [1, 10, 100, 1000, 10_000] {
        let numbers = data.numbers(format!("floor/{block}")).per_second(1_000_000).block(block);
        let short = data.numbers(format!("short/{block}")).short().block(block);
        let rates = [Asker::Numbers(numbers), Asker::Numbers(short)].map(measure);
        let [floor, short] = rates;
        table.row([block.to_string(), number(floor.await?), number(short.await?)]);
    }
    println!("{table}");
    let title = format!("Deductions per second, {TASKS} tasks");
    let mut table = Table::new(&title, &["", "per second"]);
    let stock = data.stock("bench").remember(Duration::from_secs(1));
    stock.restock("opening", [("lamp", PIECES)]).await?;
    let client = redis::Client::open(server.url())?;
    let connection = client.get_multiplexed_async_connection().await?;
    table.row(["DECR".to_owned(), number(measure(Asker::Decrease(connection)).await?)]);
    table.row(["stock, once per order".to_owned(), number(measure(Asker::Stock(stock)).await?)]);
    println!("{table}");
    Ok(())
}

/// A request that is sent again and again.
#[derive(Clone, Debug)]
enum Asker {
    Decrease(MultiplexedConnection),
    Numbers(Numbers),
    Stock(Stock),
}

impl Asker {
    async fn ask(&self, order: u64) -> Outcome {
        match self {
            Self::Decrease(connection) => {
                let mut decrease = redis::cmd("DECR");
                decrease.arg("lamp").query_async::<i64>(&mut connection.clone()).await?;
            }
            Self::Numbers(numbers) => drop(numbers.next().await?),
            Self::Stock(stock) => drop(stock.deduct(order.to_string(), [("lamp", 1)]).await?),
        }
        Ok(())
    }
}

/// Answers per second.
async fn measure(asker: Asker) -> Outcome<f64> {
    asker.ask(0).await?;
    let (begin, asked) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut running = JoinSet::new();
    for _ in 0..TASKS {
        let (asker, asked) = (asker.clone(), Arc::clone(&asked));
        running.spawn(async move {
            while begin.elapsed() < SPAN {
                asker.ask(asked.fetch_add(1, Ordering::Relaxed) + 1).await?;
                tokio::task::consume_budget().await;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(asked.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64())
}
