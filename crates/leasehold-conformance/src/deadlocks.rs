//! Cases of clients that wait for each other, on every store that shows its waiters.

use std::time::Duration;

use leasehold::admin::Deadlock;
use leasehold::{Client, Guard, Lock, LockName};
use tokio::task::JoinHandle;

use crate::subject::{Subject, must};

/// Longer than the 10 s for which all clients must have waited before a cycle counts.
const LONG_ENOUGH: Duration = Duration::from_millis(10_500);

type Waiting = JoinHandle<leasehold::Result<Guard>>;

async fn hold(subject: &Subject, lock: Lock) -> Guard {
    must(subject.drive(lock.acquire()).await)
}

/// Waits for a lock that somebody holds, until it is aborted.
async fn wait(subject: &Subject, client: &Client, name: &LockName, lock: Lock) -> Waiting {
    let before = must(subject.drive(client.admin().inspect(name)).await).waiting;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let waits = async || must(client.admin().inspect(name).await).waiting > before;
    subject.until("somebody waits", waits).await;
    waiting
}

/// One client per name: each holds its name and waits for the next name.
async fn ring(subject: &Subject, names: &[LockName]) -> (Vec<Client>, Vec<Guard>, Vec<Waiting>) {
    let (mut clients, mut guards, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let client = subject.client().await;
        guards.push(hold(subject, client.mutex(name)).await);
        clients.push(client);
    }
    for (client, next) in clients.iter().zip(names.iter().cycle().skip(1)) {
        waits.push(wait(subject, client, next, client.mutex(next)).await);
    }
    (clients, guards, waits)
}

/// The names of the only deadlock that has one of the names `among`.
fn names_of(found: &[Deadlock], among: &[LockName]) -> Vec<LockName> {
    let of = found.iter().filter(|one| one.waits.iter().any(|wait| among.contains(&wait.name)));
    let of: Vec<&Deadlock> = of.collect();
    let [one] = &of[..] else { panic!("{of:?} of {among:?}") };
    let mut names: Vec<LockName> = one.waits.iter().map(|wait| wait.name.clone()).collect();
    names.sort();
    names
}

/// Two and three clients that wait for each other are found. Similar waits are not: readers
/// together, permits that become free, several names in one call, a chain that ends at a working
/// client.
pub async fn clients_that_wait_for_each_other_are_found_and_look_alikes_are_not(subject: &Subject) {
    if !subject.can().queued {
        let found = subject.client().await.admin().deadlocks().await;
        let refused = found.map_err(|error| error.to_string());
        assert!(refused.is_err_and(|words| words.contains("no queue")));
        return;
    }
    let common = subject.fresh_name("deadlock");
    let fresh = |last: &str| must(LockName::new(format!("{common}/{last}")));
    let is_ours = |found: &Deadlock| found.waits[0].name.as_str().starts_with(common.as_str());
    let two = [fresh("a"), fresh("b")];
    let three = [fresh("c"), fresh("d"), fresh("e")];
    let (_two, _guards, pair) = ring(subject, &two).await;
    let (_three, _others, ring) = ring(subject, &three).await;

    // Several names in one call: `one` holds the first name while it waits for the second.
    let several = [fresh("m1"), fresh("m2")];
    let (one, other) = (subject.client().await, subject.client().await);
    let mut idle = vec![hold(subject, other.multi([&several[1]])).await];
    let gathers = wait(subject, &one, &several[1], one.multi(&several)).await;
    let chained = wait(subject, &subject.client().await, &several[0], one.mutex(&several[0])).await;
    // Permits: `one` and `other` wait for each other, but `third` also holds permits and waits for
    // nothing.
    let (gpu, lock) = (fresh("gpu"), fresh("after-gpu"));
    let third = subject.client().await;
    let mut look_alikes = vec![gathers, chained];
    if subject.can().permits {
        idle.push(hold(subject, one.semaphore(&gpu, 3).permit()).await);
        idle.push(hold(subject, third.semaphore(&gpu, 3).permits(2)).await);
        idle.push(hold(subject, other.mutex(&lock)).await);
        look_alikes.push(wait(subject, &other, &gpu, other.semaphore(&gpu, 3).permit()).await);
        look_alikes.push(wait(subject, &one, &lock, one.mutex(&lock)).await);
    }
    // Readers of a name do not wait for each other, even if they wait for other names.
    if subject.can().shared {
        let (read, held) = (fresh("read"), fresh("read-and-hold"));
        idle.push(hold(subject, one.rwlock(&read).read()).await);
        idle.push(hold(subject, third.rwlock(&read).read()).await);
        idle.push(hold(subject, third.mutex(&held)).await);
        look_alikes.push(wait(subject, &one, &held, one.mutex(&held)).await);
    }

    let admin = subject.client().await.admin();
    let look = async || {
        let mut found = must(subject.drive(admin.deadlocks()).await);
        found.retain(is_ours); // other cases may use the store, too
        found
    };
    assert_eq!(look().await, [], "nobody has waited for long");
    subject.pass(LONG_ENOUGH).await;
    let found = look().await;
    assert_eq!(names_of(&found, &two), two);
    assert_eq!(names_of(&found, &three), three);
    assert_eq!(found.len(), 2, "{found:?}");
    for waiting in pair.into_iter().chain(ring).chain(look_alikes) {
        waiting.abort();
    }
}
