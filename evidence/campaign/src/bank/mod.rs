//! A bank in PostgreSQL under attack: tellers move money between accounts, each transfer under the
//! lock of its branch, in a transaction that calls `leasehold.fence`. They are stopped past their
//! lease and killed. The server ends their sessions, and is killed: its synchronous standby takes
//! over. The books must balance, and no transfer of an overtaken holder may be in them. Without
//! the fence some are: the control.

mod books;
mod nemesis;
mod teller;

use std::thread;
use std::time::{Duration, Instant};

use leasehold_testkit::{PostgresPair, Worker, must};

use self::books::{Audit, audit};
use crate::place::impatient;
use crate::random::Random;
use crate::settings::Settings;

pub(crate) use self::teller::work;

/// The isolation levels. Each has other accounts and other tellers.
const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Branches at each level, each with a lock.
const BRANCHES: u32 = 2;

/// Accounts of a branch, and the first balance of each.
const ACCOUNTS: u32 = 3;
const START: i64 = 1_000_000;

/// Tellers at each level.
const TELLERS: usize = 3;

/// The ttl of a teller's lease.
const TTL: Duration = Duration::from_millis(1500);

/// Pauses between two faults.
const PAUSE: Duration = Duration::from_millis(150);

/// Whether transfers call the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfers {
    Fenced,
    /// Transfers without a fence: the control.
    Unfenced,
}

impl Transfers {
    /// The word for a teller.
    fn word(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Unfenced => "unfenced",
        }
    }
}

/// A process that makes transfers at one level.
struct Teller {
    process: Worker,
    level: &'static str,
    stopped_until: Option<Instant>,
}

/// Lets tellers work under attack for as long as the settings say, and returns the audit of each
/// level. `None` where PostgreSQL is not installed.
pub(crate) fn run(transfers: Transfers) -> Option<Vec<Audit>> {
    let settings = Settings::read();
    let Some(mut servers) = must(PostgresPair::start()) else {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed");
        println!("left out: PostgreSQL is not installed");
        return None;
    };
    books::open(servers.primary());
    let mut random = Random::new(settings.seed);
    let mut tellers = Vec::new();
    for level in LEVELS {
        for _ in 0..TELLERS {
            tellers.push(Teller::start(&servers, level, transfers, &mut random));
        }
    }
    let (began, mut misfortunes) = (Instant::now(), nemesis::Count::default());
    while began.elapsed() < settings.span {
        thread::sleep(random.up_to(PAUSE));
        let chosen = random.below(tellers.len());
        tellers.iter_mut().for_each(Teller::go_on_in_time);
        match nemesis::strike(&mut servers, &mut tellers, chosen, &mut random, &mut misfortunes) {
            nemesis::Left::Alive => {}
            nemesis::Left::Dead => {
                let level = tellers[chosen].level;
                tellers[chosen] = Teller::start(&servers, level, transfers, &mut random);
            }
        }
    }
    let refused: u64 = tellers.into_iter().map(Teller::finish).sum();
    let audits = LEVELS.map(|level| audit(servers.primary(), level));
    println!(
        "bank ({}): {:.0?}, seed {}: {misfortunes}; {refused} transfers refused as overtaken",
        transfers.word(),
        began.elapsed(),
        settings.seed
    );
    for audit in &audits {
        println!("{audit}");
    }
    Some(audits.into())
}

impl Teller {
    fn start(
        servers: &PostgresPair,
        level: &'static str,
        transfers: Transfers,
        random: &mut Random,
    ) -> Self {
        let seed = random.seed().to_string();
        // The standby has all grants, so a takeover needs no quarantine.
        let url = format!("{}&quarantine=off", impatient(&servers.url()));
        let arguments = ["bank", &url, level, transfers.word(), &seed];
        Self { process: Worker::start(&arguments), level, stopped_until: None }
    }

    fn stop_for(&mut self, span: Duration) {
        self.process.stop();
        self.stopped_until = Some(Instant::now() + span);
    }

    fn go_on_in_time(&mut self) {
        if self.stopped_until.is_some_and(|until| until <= Instant::now()) {
            self.stopped_until = None;
            self.process.cont();
        }
    }

    /// Waits for the end of its last transfer, and returns how many were refused.
    fn finish(mut self) -> u64 {
        self.process.cont();
        self.process.tell("stop");
        let refused = self.process.hear().unwrap_or_default();
        self.process.finish();
        must(refused.parse())
    }
}
