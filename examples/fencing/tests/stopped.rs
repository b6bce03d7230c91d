//! Runs the application with each driver, and stops it until its lease is over.

use std::io::{BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use leasehold::{Client, Guard};
use leasehold_testkit::{Postgres, must};

const README: &str = include_str!("../../../README.md");

const WITH_DIESEL: &str = env!("CARGO_BIN_EXE_with_diesel");
const WITH_SQLX: &str = env!("CARGO_BIN_EXE_with_sqlx");
const WITH_TOKIO_POSTGRES: &str = env!("CARGO_BIN_EXE_with_tokio_postgres");

/// A database with an invoice, and another client that charges it.
struct Shop {
    server: Postgres,
    other: Client,
}

impl Shop {
    /// Opens a shop, unless PostgreSQL is not installed.
    async fn open() -> Option<Self> {
        let Some(server) = must(Postgres::start()) else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed");
            println!("skipped: PostgreSQL is not installed: `cargo xtask test` does that");
            return None;
        };
        must(server.query("CREATE TABLE invoice (id int, charged int)"));
        must(server.query("INSERT INTO invoice VALUES (42, 0)"));
        let other = must(Client::connect(&server.url()).await);
        Some(Self { server, other })
    }

    fn charged(&self) -> String {
        must(self.server.query("SELECT charged FROM invoice")).trim().to_owned()
    }

    /// Acquires the lease for the other client, once it is free.
    async fn take(&self) -> Guard {
        must(self.other.mutex("invoices/42").acquire().await)
    }

    /// The output of `psql` for the lines of the README, with this token.
    fn charge_as_the_readme_does(&self, token: u64) -> (String, String) {
        let (_, rest) = README.split_once("```sql\n").unwrap();
        let (lines, _) = rest.split_once("```").unwrap();
        let (before, number) = lines.split_once("'invoices/42', ").unwrap();
        let (_, after) = number.split_once(')').unwrap();
        let sql = format!("{before}'invoices/42', {token}){after}");
        let mut psql = Command::new("psql");
        psql.envs(self.server.environment()).args(["-X", "-A", "-t"]);
        let output = must(psql.args(sql.lines().flat_map(|line| ["-c", line])).output());
        let text = |bytes: Vec<u8>| must(String::from_utf8(bytes));
        (text(output.stdout), text(output.stderr))
    }
}

/// Starts the application, and waits until it has its lease.
fn started(shop: &Shop, program: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let store = shop.server.url();
    let (database, _) = store.split_once('?').unwrap();
    let mut command = Command::new(program);
    command.env("LEASEHOLD_STORE", &store).env("DATABASE_URL", database);
    let mut application = must(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn());
    let mut said = BufReader::new(application.stdout.take().unwrap());
    assert_eq!(line(&mut said), "held");
    (application, said)
}

fn line(said: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    must(said.read_line(&mut line));
    line.trim_end().to_owned()
}

fn signal(name: &str, application: &Child) {
    let sent = must(Command::new("kill").args([name, &application.id().to_string()]).status());
    assert!(sent.success());
}

async fn an_application_charges_once_and_hears_that_it_was_overtaken(program: &str) {
    let Some(shop) = Shop::open().await else { return };
    let (mut application, mut said) = started(&shop, program);
    must(application.stdin.take().unwrap().write_all(b"\n"));
    assert_eq!(line(&mut said), "charged");
    assert!(must(application.wait()).success());
    assert_eq!(shop.charged(), "1");

    let (mut stopped, mut said) = started(&shop, program);
    let token = must(shop.other.admin().inspect("invoices/42").await).holders[0].token.unwrap();
    signal("-STOP", &stopped);
    let guard = shop.take().await;
    let (done, complaint) = shop.charge_as_the_readme_does(guard.token().get());
    assert!(done.ends_with("UPDATE 1\nCOMMIT\n"), "{done}{complaint}");
    guard.release().await.unwrap();
    signal("-CONT", &stopped);
    must(stopped.stdin.take().unwrap().write_all(b"\n"));
    let over = format!("the lease of invoices/42 with token {token} is over");
    assert_eq!(line(&mut said), format!("LH001 leasehold: {over}"));
    assert!(must(stopped.wait()).success());
    assert_eq!(shop.charged(), "2");

    let (done, complaint) = shop.charge_as_the_readme_does(token.get());
    assert!(complaint.contains(&over), "{complaint}");
    assert!(done.ends_with("ROLLBACK\n"), "{done}");
    assert_eq!(shop.charged(), "2");
    assert!(README.contains("is over`") && README.contains("`ROLLBACK`"), "as the page says");
}

#[tokio::test]
async fn with_diesel() {
    an_application_charges_once_and_hears_that_it_was_overtaken(WITH_DIESEL).await;
}

#[tokio::test]
async fn with_sqlx() {
    an_application_charges_once_and_hears_that_it_was_overtaken(WITH_SQLX).await;
}

#[tokio::test]
async fn with_tokio_postgres() {
    an_application_charges_once_and_hears_that_it_was_overtaken(WITH_TOKIO_POSTGRES).await;
}
