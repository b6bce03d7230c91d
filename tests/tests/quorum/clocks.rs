//! H4, H11, H12, H13: clocks of nodes and of clients, and ballots that are equal or poisoned.

use std::time::Duration;

use leasehold::admin::{ClientId, HolderId};
use leasehold::lease::Renewal;
use leasehold::store::{Memory, Quorum, Store};
use leasehold::time::{Clock, FakeClock, Instant};
use leasehold::{Client, FencingToken};
use leasehold_core::{Action, BoxFuture, Operation, Refusal, Reply};
use leasehold_testkit::harness::{request, soon};
use leasehold_testkit::{RedisServer, Subject, must};

use crate::fleet::{Fleet, memory_nodes, name, subject};
use crate::is_not_had;

/// Nearly as long as the step of the node's clock: a test may take that long.
const TTL: Duration = Duration::from_secs(17);

/// Kleppmann's first example: the clock of the node that both majorities share is set forward. The
/// lease ends there before its time, and a second client has a majority. Exclusion is gone, as on
/// any store whose clock is set. The order of tokens is not.
#[tokio::test]
async fn h4_a_node_whose_clock_is_set_forward_breaks_exclusion_and_not_the_order_of_tokens() {
    let fleet = Fleet::start_with(5, &RedisServer::options().own_clock());
    let (left, right) = (fleet.network(), fleet.network());
    let (one, two) = (left.client().await, right.client().await);
    left.swallow(&[3, 4], true);
    right.swallow(&[0, 1], true);
    let lock = |client: &Client| client.mutex("stepped").ttl(TTL).renewal(Renewal::Off);
    let first = must(soon(lock(&one).acquire()).await);
    let refused = soon(lock(&two).try_acquire()).await;
    assert!(is_not_had(&refused), "{refused:?}");
    must(fleet.servers[2].set_clock(18.5, 1.0));
    let second = must(soon(lock(&two).acquire()).await);
    assert!(first.is_held() && second.is_held(), "both at once");
    assert!(second.token() > first.token());
}

/// A node whose clock is far ahead of the others gives tokens that they do not accept. It is not
/// counted, so the others must be a majority without it.
#[tokio::test]
async fn h4_a_node_whose_clock_is_a_minute_ahead_is_no_part_of_a_majority() {
    let fleet = Fleet::start_with(3, &RedisServer::options().own_clock());
    let client = fleet.client().await;
    must(fleet.servers[2].set_clock(60.0, 1.0));
    let guard = must(soon(client.mutex("ahead").acquire()).await);
    let token = guard.token();
    must(guard.release().await);
    let right = must(soon(client.mutex("another").acquire()).await).token();
    assert!(right.micros() < token.micros() + 50_000_000, "nobody was carried along");
}

/// Tokens stay in order beyond the memory of a node on one condition. Its quarantine is longer than
/// two leads of a ballot plus the difference of the clocks. Nodes believe each other up to one
/// lead. A client that connects gets an error about clocks beyond that, and a warning about clocks
/// near it.
#[tokio::test]
async fn h4_clocks_of_nodes_that_are_far_apart_are_said_on_connecting() {
    let fleet = Fleet::start_with(3, &RedisServer::options().own_clock());
    let too_far = "refuses tokens that the other has granted";
    let far = "tokens need a second round trip";
    for (ahead_s, words, silent) in [(0.0, None, [too_far, far]), (5.0, Some(far), [too_far; 2])] {
        must(fleet.servers[2].set_clock(ahead_s, 1.0));
        let warnings = fleet.patient_store().await.warnings().join("\n");
        assert!(words.is_none_or(|words| warnings.contains(words)), "{warnings}");
        assert!(!silent.iter().any(|words| warnings.contains(words)), "{warnings}");
    }
    must(fleet.servers[2].set_clock(60.0, 1.0));
    let warnings = fleet.patient_store().await.warnings().join("\n");
    assert!(warnings.contains(too_far), "{warnings}");
}

/// A clock as another machine has it: another origin, another wall time.
#[derive(Clone, Debug)]
struct Skewed {
    clock: FakeClock,
    wall_us: i64,
}

impl Clock for Skewed {
    fn now(&self) -> Instant {
        self.clock.now() + Duration::from_secs(77_777)
    }

    fn wall_us(&self) -> u64 {
        self.clock.wall_us().saturating_add_signed(self.wall_us)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(at.saturating_sub(Duration::from_secs(77_777)))
    }

    fn is_driven_by_caller(&self) -> bool {
        true
    }
}

async fn client(nodes: &[Memory], clock: impl Clock + Clone) -> Client {
    let nodes = nodes.iter().map(|node| Box::new(node.clone()) as Box<dyn Store>).collect();
    let quorum = must(Quorum::with_clock(nodes, clock.clone()));
    must(Client::builder().store(quorum).clock(clock).build().await)
}

/// Takes and releases in turns, and returns the tokens.
async fn take_turns(subject: &Subject, clients: &[&Client]) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    for _ in 0..20 {
        for client in clients {
            let guard = must(subject.drive(client.mutex("turns").acquire()).await);
            tokens.push(guard.token());
            must(subject.drive(guard.release()).await);
        }
    }
    tokens
}

#[tokio::test]
async fn h11_a_client_whose_clock_is_ten_minutes_off_is_served_like_any_other() {
    let clock = FakeClock::new();
    let (subject, nodes) = (subject(&clock), memory_nodes(3, &clock));
    let ten_minutes_us = 600_000_000;
    let slow = client(&nodes, Skewed { clock: clock.clone(), wall_us: -ten_minutes_us }).await;
    let fast = client(&nodes, Skewed { clock: clock.clone(), wall_us: ten_minutes_us }).await;
    let right = client(&nodes, clock.clone()).await;
    let tokens = take_turns(&subject, &[&slow, &right, &fast]).await;
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let ahead_us = tokens[tokens.len() - 1].micros().abs_diff(clock.wall_us());
    assert!(ahead_us < 10_000_000, "tokens are as the nodes' clocks are, not as the clients'");
}

/// The first tokens that it proposes are refused by all nodes.
#[tokio::test]
async fn h11_a_client_whose_clock_has_gained_a_minute_reads_those_of_the_nodes_again() {
    let (ours, theirs) = (FakeClock::new(), FakeClock::new());
    let (subject, nodes) = (subject(&ours), memory_nodes(3, &theirs));
    let client = client(&nodes, ours.clone()).await;
    let before = take_turns(&subject, &[&client]).await;
    ours.advance(Duration::from_secs(60));
    let after = take_turns(&subject, &[&client]).await;
    assert!(before.iter().chain(&after).is_sorted_by(|a, b| a < b), "{before:?}, {after:?}");
    assert!(after.iter().all(|token| token.micros() < theirs.wall_us() + 10_000_000));
}

/// Two clients whose clocks stand still propose the same ballots all the time.
#[tokio::test]
async fn h13_equal_ballots_give_no_token_twice() {
    let clock = FakeClock::new();
    let (subject, nodes) = (subject(&clock), memory_nodes(5, &clock));
    let (one, two) = (client(&nodes, clock.clone()).await, client(&nodes, clock.clone()).await);
    let tokens = take_turns(&subject, &[&one, &two]).await;
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test]
async fn h12_a_poisoned_ballot_is_refused_and_not_remembered() {
    let clock = FakeClock::new();
    let (subject, nodes) = (subject(&clock), memory_nodes(3, &clock));
    let name = name("turns");
    let id = HolderId { client: ClientId(666), attempt: 1 };
    let poison = request(id).with_ttl(TTL).with_ballot(Some(1 << 52));
    for node in &nodes {
        let action = Action::Take(poison.clone());
        let operation = Operation::On { name: name.clone(), action };
        let reply = must(node.execute(operation).await).reply;
        assert_eq!(reply, Reply::Refused(Refusal::Ballot));
        assert!(node.record(&name).is_none());
    }
    let right = client(&nodes, clock.clone()).await;
    let tokens = take_turns(&subject, &[&right]).await;
    assert!(tokens.iter().all(|token| token.micros() < clock.wall_us() + 10_000_000));
}

/// A node whose clock was a year ahead has tokens that no other node accepts. It is outvoted.
#[tokio::test]
async fn h12_a_node_with_a_poisoned_record_is_outvoted() {
    let clock = FakeClock::new();
    let ahead = FakeClock::new();
    ahead.step_wall(365 * 24 * 3_600 * 1_000_000);
    let subject = subject(&clock);
    ahead.advance(Duration::from_secs(1_000));
    let mut nodes = memory_nodes(2, &clock);
    nodes.push(Memory::with_clock(ahead));
    let right = client(&nodes, clock.clone()).await;
    let tokens = take_turns(&subject, &[&right]).await;
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert!(tokens.iter().all(|token| token.micros() < clock.wall_us() + 10_000_000));
}
