//! Past holders of a name that clients share who do not keep as many of them, or none.
#![cfg(test)]

use leasehold::Client;
use leasehold::admin::Ending;
use leasehold_testkit::{RedisServer, must};

/// Clients of one store, by how many past holders they keep.
struct Clients {
    url: String,
}

impl Clients {
    async fn keeping(&self, history: u32) -> Client {
        let begin = if self.url.contains('?') { '&' } else { '?' };
        let option = if history == 0 { String::new() } else { format!("{begin}history={history}") };
        must(Client::connect(format!("{}{option}", self.url)).await)
    }
}

async fn hold(client: &Client, label: &str) {
    hold_name(client, "a", label).await;
}

async fn hold_name(client: &Client, name: &str, label: &str) {
    let guard = must(client.mutex(name).label(label).acquire().await);
    must(guard.release().await);
}

async fn past(client: &Client) -> Vec<String> {
    let status = must(client.admin().inspect("a").await);
    assert!(status.past_holders.iter().all(|past| past.ending == Ending::Released));
    status.past_holders.into_iter().map(|past| past.info.label.unwrap_or_default()).collect()
}

async fn check(url: String) {
    let clients = Clients { url };
    let (none, few, many) =
        (clients.keeping(0).await, clients.keeping(2).await, clients.keeping(5).await);
    for label in ["one", "two", "three"] {
        hold(&many, label).await;
    }
    hold(&none, "unseen").await;
    let all = ["three", "two", "one"];
    assert_eq!(
        (past(&many).await, past(&none).await),
        (all.map(str::to_owned).to_vec(), all.map(str::to_owned).to_vec())
    );
    assert_eq!(past(&few).await, all[..2]);
    // Who keeps fewer leaves no more than that.
    hold(&few, "four").await;
    for client in [&many, &few, &none] {
        assert_eq!(past(client).await, ["four", "three"]);
    }
    hold(&many, "five").await;
    assert_eq!(past(&many).await, ["five", "four", "three"]);
}

#[tokio::test]
async fn clients_with_and_without_a_history_share_a_name() {
    let server = must(RedisServer::start());
    check(server.patient_url()).await;
    let directory = must(tempfile::tempdir());
    check(format!("file:{}", directory.path().join("locks.db").display())).await;
}

/// What a server has written down so far, and how often it has read or written fields.
fn done(server: &RedisServer) -> [u64; 3] {
    let info = must(server.info("persistence"));
    let size = info.lines().find_map(|line| line.strip_prefix("aof_current_size:"));
    let calls = |command| must(server.command_stats(command)).0;
    [must(size.unwrap_or_default().parse()), calls("hget"), calls("hset")]
}

#[tokio::test]
async fn an_end_costs_a_server_the_same_however_many_past_holders_are_kept() {
    let server = must(RedisServer::options().append_only("always").start());
    let clients = Clients { url: server.patient_url() };
    let mut costs = Vec::new();
    for history in [1, 4, 16] {
        let (client, name) = (clients.keeping(history).await, format!("kept {history:02}"));
        for _ in 0..20 {
            hold_name(&client, &name, "until there is no more room").await;
        }
        let before = done(&server);
        for _ in 0..50 {
            hold_name(&client, &name, "one comes and one goes").await;
        }
        let after = done(&server);
        costs.push([0, 1, 2].map(|of| after[of] - before[of]));
    }
    println!("bytes, reads and writes of 50 pairs: {costs:?}");
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
    assert_eq!(costs[0][2], 100, "one write each");
}
