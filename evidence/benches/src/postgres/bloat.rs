//! What many uses leave in a PostgreSQL database with autovacuum: of many names, each used once, or
//! of one name, used often; also beside a session that keeps an old snapshot meanwhile.

use std::time::Instant;

use futures_util::future::try_join_all;
use leasehold::Client;
use leasehold_testkit::harness::until;
use leasehold_testkit::{Postgres, Table, must};

use super::contender::{Place, session};
use super::{MANY, MISSING, SIZES};
use crate::measure::number;
use crate::outcome::Outcome;

/// Names that are used once.
const NAMES: usize = 100_000;

/// Uses of one name: fewer, because beside an old snapshot each use reads past those before it.
const USES: usize = 50_000;

const OLD_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";

/// Prints one table.
pub(crate) async fn run() -> Outcome {
    let heads = " | pairs/s, first tenth | last tenth | size | no row after, s | size after VACUUM";
    let heads: Vec<&str> = heads.split(" | ").collect();
    let mut table = Table::new("PostgreSQL: what many uses leave", &heads);
    for (what, uses, tasks) in [("names, each once", NAMES, MANY), ("uses of one name", USES, 1)] {
        for (beside, opens) in [("", ""), (", beside an old snapshot", OLD_SNAPSHOT)] {
            let cells = left_by(uses, tasks, opens).await?;
            table.row([vec![format!("{uses} {what}{beside}")], cells].concat());
        }
    }
    println!("{table}");
    Ok(())
}

async fn left_by(uses: usize, tasks: usize, opens: &str) -> Outcome<Vec<String>> {
    let server = Postgres::start_with(&["fsync=off", "autovacuum_naptime=1s"])?.ok_or(MISSING)?;
    let client = Client::connect(&server.url()).await?;
    let reader = session(&Place { url: server.url(), is_unnamed: false }).await?;
    reader.batch_execute(opens).await?;
    let mut rates = Vec::new();
    for tenth in 0..10 {
        let begin = Instant::now();
        let working = (0..tasks).map(async |task| {
            for at in (tenth * uses / 10..(tenth + 1) * uses / 10).skip(task).step_by(tasks) {
                let name = if tasks > 1 { at } else { 0 };
                client.mutex(format!("bloat/{name}")).acquire().await?.release().await?;
            }
            Outcome::Ok(())
        });
        try_join_all(working).await?;
        rates.push(uses as f64 / 10.0 / begin.elapsed().as_secs_f64());
    }
    let size = || server.query(SIZES).map(|size| size.trim().to_owned());
    let full = size()?;
    drop(reader);
    let begin = Instant::now();
    let rows = || server.query("SELECT count(*) FROM leasehold.lease");
    until("nothing is left", async || must(rows()) == "0\n").await;
    let [first, last, tidy] = [rates[0], rates[9], begin.elapsed().as_secs_f64()].map(number);
    server.query("VACUUM leasehold.lease")?;
    Ok(vec![first, last, full, tidy, size()?])
}
