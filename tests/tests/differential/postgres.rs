//! The PostgreSQL store means what the model means, whether a quick path or a general step answers:
//! every reply and every record is compared.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::store::{Postgres as Store, PostgresOptions, Store as _, postgres_wire};
use leasehold_core::Mode;
use leasehold_core::model::Record;
use leasehold_testkit::Postgres as Server;
use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

use super::history::{self, Asked, NAMES, Played, Step, Verb, Who};
use super::strategies;

/// How many steps are compared, unless `LEASEHOLD_DIFFERENTIAL_STEPS` says otherwise. Each takes
/// the server several transactions.
const STEPS: u64 = 8_000;

/// The clock of the functions under test: a number that the test sets.
const TEST_CLOCK: &str = "
CREATE SEQUENCE leasehold.test_clock;
CREATE OR REPLACE FUNCTION leasehold.clock_1() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT last_value FROM leasehold.test_clock
$$";

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/kept_of_postgres.txt");

#[test]
fn quick_paths_and_general_steps_of_postgres_mean_what_the_model_means() {
    let Some(place) = Place::start() else { return };
    let place = RefCell::new(place);
    let histories = prop_oneof![
        3 => leases_of_a_lone_caller(),
        1 => strategies::steps(),
    ];
    super::play(KEPT, super::steps_wanted(STEPS), &histories, |steps| {
        let played = history::play(steps);
        place.borrow_mut().compare(&played)?;
        Ok(played.len())
    });
    let Place { quick, .. } = place.into_inner();
    println!("by quick paths: {quick:?}");
    for verb in ["acquire", "cancel", "release", "renew"] {
        assert!(quick.get(verb) > Some(&20), "too few {verb}s were quick: {quick:?}");
    }
}

/// Steps for which quick paths are made, and sometimes steps that need general steps.
fn leases_of_a_lone_caller() -> impl Strategy<Value = Vec<Step>> {
    let (mode, ballot) = (Mode::Exclusive, None);
    let name = || 0..2_usize;
    let ttl = || {
        prop_oneof![
            1 => Just(Duration::ZERO),
            2 => (1..3_000_000_u64).prop_map(Duration::from_micros),
            9 => Just(Duration::from_secs(30)),
        ]
    };
    let who = || prop_oneof![8 => Just(Who::Holder(0)), 1 => (0..3_u8).prop_map(Who::New)];
    let acquire = (name(), 0..3_u8, ttl(), prop::bool::weighted(0.1), prop::bool::weighted(0.03))
        .prop_map(move |(name, client, ttl, wait, late)| {
            Step::Act(name, Who::New(client), Verb::Acquire { mode, ttl, wait, late, ballot })
        });
    let release = (name(), who()).prop_map(|(name, who)| {
        Step::Act(name, who, Verb::Release { cooldown: Duration::ZERO, unanswered: false })
    });
    let cancel =
        name().prop_map(|name| Step::Act(name, Who::Holder(0), Verb::Cancel { unanswered: false }));
    let renew = (name(), who(), ttl())
        .prop_map(|(name, who, ttl)| Step::Act(name, who, Verb::Renew { ttl }));
    let both = (ttl(), ttl()).prop_map(|(one, other)| {
        let renewed = |name, ttl| (name, Who::Holder(0), ttl);
        Step::RenewMany(vec![renewed(0, one), renewed(1, other)])
    });
    let step = prop_oneof![
        60 => acquire,
        40 => release,
        10 => cancel,
        10 => renew,
        20 => both,
        30 => (0..2_000_000_u64).prop_map(Step::Pass),
        3 => (0..90_000_000_u64).prop_map(Step::Pass),
        1 => (0..50_000_000_u64).prop_map(Step::Back),
        2 => Just(Step::Collect),
        1 => name().prop_map(Step::Delete),
        1 => name().prop_map(|name| Step::Act(name, Who::Old(0, 0), Verb::Inspect { limit: 5 })),
    ];
    // Long enough to fill several pages.
    prop::collection::vec(step, 1..250)
}

/// A database whose clock is the test's.
struct Place {
    runtime: Runtime,
    store: Store,
    client: Client,
    /// How many steps of each kind were done by a quick path.
    quick: BTreeMap<&'static str, u32>,
    _server: Server,
}

impl Place {
    fn start() -> Option<Self> {
        let Some(server) = Server::start().unwrap() else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed");
            println!("skipped: PostgreSQL is not installed: `cargo xtask test` does that");
            return None;
        };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let url = format!("{}&connections=1", server.url());
        let options = PostgresOptions::from_url(&url).unwrap();
        let store = runtime.block_on(Store::open(options)).unwrap();
        server.query(TEST_CLOCK).unwrap();
        let mut config = tokio_postgres::Config::new();
        let [(_, host), (_, user), (_, database), _] =
            server.environment().map(|(name, value)| (name, value.into_string().unwrap()));
        config.host(host).user(user).dbname(database).options("-c synchronous_commit=off");
        let connecting = async {
            let (client, connection) = config.connect(NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        };
        let client = runtime.block_on(connecting);
        Some(Self { runtime, store, client, quick: BTreeMap::new(), _server: server })
    }

    fn compare(&mut self, history: &[Played]) -> Result<(), String> {
        let Self { runtime, store, client, quick, .. } = self;
        runtime.block_on(async {
            let forget = "TRUNCATE leasehold.lock, leasehold.token";
            client.batch_execute(forget).await.map_err(|error| error.to_string())?;
            for (step, played) in history.iter().enumerate() {
                let done = compare(store, client, played).await.map_err(|difference| {
                    format!("step {step} of {}: {played:#?}\n{difference}", history.len())
                })?;
                if let Some(verb) = done {
                    *quick.entry(verb).or_default() += 1;
                }
            }
            Ok(())
        })
    }
}

/// Does one step. Returns how it differs from the model's step, and its kind if a quick path did
/// it.
async fn compare(
    store: &Store,
    client: &Client,
    played: &Played,
) -> Result<Option<&'static str>, String> {
    let clock = format!("SELECT setval('leasehold.test_clock', {})", played.now_us);
    let failed = |error: tokio_postgres::Error| error.to_string();
    client.batch_execute(&clock).await.map_err(failed)?;
    let mut verb = None;
    match &played.asked {
        Asked::Delete(name) => {
            let name = NAMES[*name];
            let delete = format!(
                "DELETE FROM leasehold.lock WHERE name = '{name}'; \
                 DELETE FROM leasehold.token WHERE name = '{name}'"
            );
            client.batch_execute(&delete).await.map_err(failed)?;
        }
        Asked::FlushScripts => {}
        Asked::Operation(operation) => {
            verb = Some(operation.as_str());
            let answer = store.execute((**operation).clone()).await;
            let answer = answer.map_err(|error| error.to_string())?;
            if Some(&answer) != played.answer.as_ref() {
                return Err(format!("the answer was {answer:#?}"));
            }
        }
    }
    let mut is_quick = false;
    for (name, expected) in &played.after {
        let (name, columns) = (history::name(*name), "SELECT * FROM leasehold.read_1($1)");
        let rows = client.query_typed(columns, &[(&name.as_str(), Type::TEXT)]).await;
        let row = rows.map_err(failed)?.pop().ok_or("no row")?;
        is_quick |= row.get::<_, Option<i64>>("since_us").is_some();
        let found = postgres_wire::record(&name, &row).map_err(|error| error.to_string())?;
        // An empty record is not kept.
        let is_nothing = expected.collect_at_us == 0 && found == Record::default();
        if found != *expected && !is_nothing {
            return Err(format!("the record of {} is {found:#?}", name.as_str()));
        }
    }
    Ok(verb.filter(|_| is_quick))
}
