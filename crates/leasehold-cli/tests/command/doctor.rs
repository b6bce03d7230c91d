//! `leasehold doctor` finds what would break a promise, on real servers in real trouble.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use leasehold::store::Redis;
use leasehold_testkit::{
    Cluster, RedisOptions, RedisServer, Replicated, SentinelFleet, quorum_url,
};
use serde_json::Value;

use crate::harness::{Place, json, until};

/// The output of the doctor, and how it ended.
struct Visit {
    code: Option<i32>,
    report: Value,
}

impl Visit {
    fn to(url: &str, options: &[&str]) -> Self {
        let place = Place::on_file();
        let ended = place.end(&[&["doctor", "--json", "-s", url], options].concat());
        Self { code: ended.code, report: json(&ended.stdout) }
    }

    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.report["findings"].as_array().unwrap().iter()
    }

    fn has(&self, level: &str, topic: &str, words: &str) -> bool {
        self.findings().any(|finding| {
            finding["level"] == level
                && finding["topic"] == topic
                && finding.to_string().contains(words)
        })
    }

    /// Checks that there is a finding with these words, and a remedy if its level is not `ok`.
    #[track_caller]
    fn assert_found(&self, level: &str, topic: &str, words: &str) {
        assert!(self.has(level, topic, words), "{level} {topic} {words:?}: {}", self.report);
        for finding in self.findings() {
            let is_fine = finding["level"] == "ok";
            for part in ["risk", "remedy"] {
                assert_eq!(finding[part].is_null(), is_fine, "{finding}");
            }
        }
    }
}

fn sound() -> RedisOptions {
    RedisServer::options().append_only("always")
}

/// Starts a server with these options and has it examined.
fn visit(options: RedisOptions) -> Visit {
    Visit::to(&options.start().unwrap().patient_url(), &[])
}

#[test]
fn a_sound_server_is_well_even_for_the_strict() {
    let server = sound().start().unwrap();
    let visit = Visit::to(&server.patient_url(), &["--strict"]);
    assert_eq!(visit.code, Some(0), "{}", visit.report);
    for (topic, words) in [
        ("version", "a primary"),
        ("eviction", "noeviction"),
        ("persistence", "appendfsync is always"),
        ("replicas", "follow: 0"),
        ("clock", "within"),
        ("rights", "may do all"),
    ] {
        visit.assert_found("ok", topic, words);
    }
}

#[test]
fn an_evicting_server_is_a_danger() {
    let limited = sound().line("maxmemory 100mb").line("maxmemory-policy allkeys-lru");
    let found = visit(limited);
    found.assert_found("danger", "eviction", "set maxmemory-policy noeviction");
    assert_eq!(found.code, Some(1));
    visit(sound().line("maxmemory-policy volatile-ttl")).assert_found(
        "warning",
        "eviction",
        "without a maxmemory",
    );
}

#[test]
fn a_server_that_takes_no_writes_now_is_a_danger_with_its_remedy() {
    let server = sound().line("save 3600 1").start().unwrap();
    fs::create_dir(server.socket().parent().unwrap().join("dump.rdb")).unwrap();
    server.command::<()>("BGSAVE").unwrap();
    let has_failed = || server.info("persistence").unwrap().contains("bgsave_status:err");
    until("the snapshot fails", has_failed);
    let see = || Visit::to(&server.patient_url(), &[]);
    see().assert_found("danger", "persistence", "set stop-writes-on-bgsave-error no");
    server.command::<()>("CONFIG SET stop-writes-on-bgsave-error no").unwrap();
    assert_eq!(see().code, Some(0));
    server.command::<()>("CONFIG SET maxmemory 1").unwrap();
    see().assert_found("danger", "eviction", "raise maxmemory");
}

#[test]
fn what_a_restart_or_a_power_cut_forgets_is_told() {
    let server = RedisServer::start().unwrap();
    let found = Visit::to(&server.patient_url(), &[]);
    found.assert_found("danger", "persistence", "set appendonly yes, or quarantine=on");
    assert_eq!(found.code, Some(1));
    let guarded = format!("{}&quarantine=on", server.patient_url());
    Visit::to(&guarded, &[]).assert_found("ok", "persistence", "quarantine");

    let server = RedisServer::options().append_only("everysec").start().unwrap();
    let found = Visit::to(&server.patient_url(), &[]);
    found.assert_found("warning", "persistence", "set appendfsync always");
    assert_eq!(found.code, Some(0));
    assert_eq!(Visit::to(&server.patient_url(), &["--strict"]).code, Some(1));
    let guarded = format!("{}&quarantine=on", server.patient_url());
    Visit::to(&guarded, &[]).assert_found("ok", "persistence", "everysec");
}

#[test]
fn each_right_that_is_missing_is_named_with_the_rule_that_grants_it() {
    let lacking = |rule: &str| Redis::HOLDER_RIGHTS.replace(&format!("{rule} "), "");
    let server = sound()
        .user(&format!("holder on >secret {}", Redis::HOLDER_RIGHTS))
        .user(&format!("poor on >secret {}", lacking("+hset").replace("+hdel ", "")))
        .user(&format!("mute on >secret {}", lacking("+publish")))
        .user("elsewhere on >secret resetkeys ~other:* &* -@all +@all")
        .user("none on >secret resetkeys ~lh:* -@all +time +ping")
        .start()
        .unwrap();
    let of = |user: &str| Visit::to(&server.patient_url_as(user, "secret"), &[]);
    let holder = of("holder");
    assert_eq!(holder.code, Some(0), "{}", holder.report);
    holder.assert_found("ok", "rights", "may do all");
    holder.assert_found("warning", "persistence", "+config|get");
    of("poor").assert_found("danger", "rights", "ACL SETUSER poor +hset +hdel ~lh:*");
    of("mute").assert_found("warning", "rights", "ACL SETUSER mute +publish ~lh:* &lh:inbox:*");
    of("elsewhere").assert_found("danger", "rights", "~lh:*");
    let none = of("none");
    none.assert_found("danger", "rights", "ACL SETUSER none +evalsha +script|load +time");
    none.assert_found("warning", "rights", "grant +info");
    // The refused commands were only those that have a fallback.
    let denied = server.acl_log().unwrap().len();
    assert!(denied <= 4, "{denied} refusals were logged");
    // One remedy is enough.
    let rights = none.findings().find(|finding| finding["topic"] == "rights").unwrap();
    server.command::<()>(rights["remedy"].as_str().unwrap()).unwrap();
    of("none").assert_found("ok", "rights", "may do all");
}

#[test]
fn a_right_that_is_missing_to_see_deadlocks_is_a_warning_with_its_remedy() {
    let server = sound()
        .user(&format!("holder on >secret {}", Redis::HOLDER_RIGHTS))
        .user(&format!("operator on >secret {} +scan +config|get", Redis::HOLDER_RIGHTS))
        .start()
        .unwrap();
    let url = |user| server.patient_url_as(user, "secret");
    let holder = Visit::to(&url("holder"), &[]);
    holder.assert_found("warning", "deadlocks", "scan");
    let operator = Visit::to(&url("operator"), &["--strict"]);
    operator.assert_found("ok", "deadlocks", "no deadlock among the waiters");
    assert_eq!(operator.code, Some(0), "{}", operator.report);
}

#[test]
fn a_server_that_cannot_be_reached_is_69() {
    let place = Place::on_file();
    let visit = |url: &str| place.end(&["doctor", "--json", "-s", url]);
    let dead = visit("redis://127.0.0.1:1/");
    dead.assert_failed(69, "nothing listens there");
    let report = json(&dead.stdout);
    assert_eq!(
        (&report["dangers"], &report["findings"][0]["topic"]),
        (&1.into(), &"reachable".into())
    );
    assert!(place.end(&["doctor", "-s", "redis://127.0.0.1:1/"]).stdout.is_empty());
    let server = sound().password("secret").start().unwrap();
    visit(&server.patient_url_as("default", "wrong")).assert_failed(69, "wrong user or password");
    let run = ["run", "x", "-s", "file:/proc/locks.db", "--", "true"];
    place.end(&run).assert_failed(69, "/proc");
    Visit::to("file:/proc/locks.db", &[]).assert_found("danger", "persistence", "0 MiB");
    visit("redis://127.0.0.1:1/?timeout=1").assert_failed(2, "timeout");
    let found = Visit::to(&server.patient_url_as("default", "secret"), &[]);
    assert!(!found.report.to_string().contains(":secret@"), "{}", found.report);
}

#[test]
fn a_server_with_tls_is_examined() {
    let server = sound().tls(false).start().unwrap();
    let authority = server.certificates().unwrap().authority.display();
    let url = format!("{}&ca={authority}", server.patient_url());
    assert_eq!(Visit::to(&url, &["--strict"]).code, Some(0));
}

#[test]
fn a_clock_that_is_set_is_told_of() {
    let server = sound().own_clock().start().unwrap();
    assert!(!Visit::to(&server.patient_url(), &[]).has("warning", "clock", ""));
    for ahead in [60.0, -60.0] {
        server.set_clock(ahead, 1.0).unwrap();
        Visit::to(&server.patient_url(), &[]).assert_found("warning", "clock", "ahead of");
    }
}

#[test]
fn the_policy_of_the_url_is_held_against_the_replicas() {
    let servers = Replicated::start_with(sound().own_clock(), &[100, 100]).unwrap();
    let visit = |options: &str| Visit::to(&format!("{}{options}", servers[0].patient_url()), &[]);
    let without = visit("");
    without.assert_found("warning", "replicas", "follow: 2");
    without.assert_found("warning", "replicas", "set min-replicas-to-write 1");
    visit("&replicas=1").assert_found("warning", "replicas", "replicas=all");
    visit("&replicas=2").assert_found("ok", "replicas", "waits for: 2");
    visit("&replicas=all").assert_found("ok", "replicas", "waits for: 2");
    visit("&replicas=3").assert_found("danger", "replicas", "nothing is granted");
    visit("&quarantine=on").assert_found("ok", "replicas", "");

    let replica = Visit::to(&servers[1].patient_url(), &[]);
    replica.assert_found("danger", "role", "give the primary");
    servers[1].set_clock(5.0, 1.0).unwrap();
    visit("").assert_found("danger", "clock", "leases end early");
    assert!(!visit("&quarantine=on").has("danger", "clock", ""), "it grants nothing new then");
}

#[test]
fn the_sentinels_that_are_away_are_named_and_the_others_counted() {
    let mut fleet = SentinelFleet::start_with(sound(), &[100], RedisServer::options()).unwrap();
    let visit =
        |fleet: &SentinelFleet, options: &str| Visit::to(&format!("{}{options}", fleet.url()), &[]);
    let all = visit(&fleet, "?replicas=all&timeout=30s");
    assert_eq!(all.code, Some(0), "{}", all.report);
    all.assert_found("ok", "role", "sentinels that watch it: 3");
    visit(&fleet, "").assert_found("danger", "replicas", "after a failover");
    fleet.sentinels_mut()[2].kill9().unwrap();
    visit(&fleet, "?replicas=all").assert_found("warning", "reachable", "of no help");
}

#[test]
fn every_node_of_a_cluster_is_looked_at_and_what_all_have_is_said_once() {
    let mut cluster = Cluster::start_with(&RedisServer::options().own_clock(), 0).unwrap();
    let told = Place::on_file().end(&["doctor", "-s", &cluster.url()]).stdout;
    let lines: Vec<&str> = told.lines().collect();
    let at = lines.iter().position(|line| line.ends_with("there is no append-only file")).unwrap();
    for node in 0..cluster.size() {
        let place = format!("127.0.0.1:{}", cluster.node(node).port());
        assert!(lines[at].contains(&place), "{told}");
    }
    let remedy = "remedy: set appendonly yes, or quarantine=on in every store URL";
    assert_eq!(lines[at + 2].trim(), remedy);
    assert!(lines[0].ends_with(": 2 dangers"), "{told}");
    assert_eq!(told.matches("all 16384 slots are served").count(), 1, "{told}");
    cluster.node(2).set_clock(0.4, 1.0).unwrap();
    Visit::to(&cluster.url(), &[]).assert_found("warning", "clock", "drift further");
    cluster.node(2).set_clock(2.0, 1.0).unwrap();
    Visit::to(&cluster.url(), &[]).assert_found("danger", "clock", "two may hold one lock");
    let alone = Visit::to(&cluster.node(0).patient_url(), &[]);
    alone.assert_found("danger", "role", "redis+cluster://");
    cluster.kill(2).unwrap();
    cluster.until_down().unwrap();
    let down = Visit::to(&cluster.url(), &[]);
    down.assert_found("danger", "role", "cluster_state is fail");
    down.assert_found("danger", "reachable", "nothing listens");
}

#[test]
fn there_is_no_quarantine_to_end_where_none_is_kept() {
    let server = sound().start().unwrap();
    let place = Place::on_file();
    let end = |url: &str| place.end(&["end-quarantine", "-s", url]);
    end(&place.url).assert_failed(0, "nothing to end");
    end(&server.patient_url()).assert_failed(0, "nothing to end");
    end(&format!("{}&quarantine=on", server.patient_url())).assert_silent(0);
}

#[test]
fn records_that_cannot_be_read_are_named_and_a_quorum_does_not_wait_for_them() {
    let servers: Vec<_> = (0..3).map(|_| sound().start().unwrap()).collect();
    for server in &servers {
        server.command::<()>("HSET lh:{bad} s garbage").unwrap();
    }
    let ports = servers.iter().map(RedisServer::port);
    let quorum = quorum_url(ports, "timeout=30s&quarantine=off");
    let one = Visit::to(&servers[0].patient_url(), &[]);
    one.assert_found("danger", "records", "1 name cannot be read: bad");
    for url in [&quorum, &servers[0].patient_url()] {
        let ended = Place::on_file().end(&["run", "bad", "-n", "-s", url, "--", "true"]);
        assert_eq!(ended.code, Some(69), "{}", ended.stderr);
        assert!(ended.stderr.contains("lh:{bad}: this key"), "{}", ended.stderr);
    }
}

#[test]
fn the_nodes_of_a_quorum_are_counted_told_apart_and_compared() {
    let servers: Vec<_> = (0..3).map(|_| sound().own_clock().start().unwrap()).collect();
    let quorum = |ports: &[u16]| quorum_url(ports.iter().copied(), "timeout=30s");
    let [a, b, c] = [0, 1, 2].map(|number: usize| servers[number].port());
    let sound = Visit::to(&quorum(&[a, b, c]), &[]);
    sound.assert_found("ok", "role", "there are 3 nodes, and 2 must agree");
    sound.assert_found("ok", "rights", &format!("127.0.0.1:{b}"));
    Visit::to(&quorum(&[a, b]), &[]).assert_found("danger", "role", "three or five");
    Visit::to(&quorum(&[a, b, c, 1]), &[]).assert_found("warning", "role", "4 nodes");
    Visit::to(&quorum(&[a, b, 1]), &[]).assert_found("danger", "reachable", "nothing listens");
    let twice = quorum(&[a, b]).replacen(&format!(",127.0.0.1:{b}"), &format!(",localhost:{a}"), 1);
    Visit::to(&twice, &[]).assert_found("danger", "role", "the same server");
    servers[1].set_clock(4.0, 1.0).unwrap();
    Visit::to(&quorum(&[a, b, c]), &[]).assert_found("warning", "clock", "second round trip");
    servers[1].set_clock(30.0, 1.0).unwrap();
    Visit::to(&quorum(&[a, b, c]), &[]).assert_found("danger", "clock", "refuses tokens");
}

#[test]
fn a_file_store_is_looked_at_with_what_is_around_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("locks.db");
    let url = format!("file:{}", path.display());
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let sound = Visit::to(&url, &["--strict"]);
    assert_eq!(sound.code, Some(0), "{}", sound.report);
    sound.assert_found("ok", "reachable", "this machine only");
    sound.assert_found("ok", "persistence", "MiB are free");
    assert!(!path.exists(), "what is looked at is not created");
    let place = Place::on_file();
    place.end(&["run", "x", "-q", "-s", &url, "--", "true"]).assert_silent(0);
    Visit::to(&url, &["--strict"]).assert_found("ok", "rights", "0600");
    mode(&path, 0o666);
    Visit::to(&url, &[]).assert_found("warning", "rights", "chmod go=");
    mode(&path, 0o660);
    mode(directory.path(), 0o2770);
    Visit::to(&url, &["--strict"]).assert_found("ok", "rights", "for group");
    mode(directory.path(), 0o777);
    Visit::to(&url, &[]).assert_found("warning", "rights", "chmod go-w");
    mode(directory.path(), 0o700);
    let corrupt = directory.path().join("corrupt.db");
    fs::write(&corrupt, "this is not a database, and long enough to be none").unwrap();
    let corrupt = Visit::to(&format!("file:{}", corrupt.display()), &[]);
    corrupt.assert_found("danger", "version", "name another path");
    assert_eq!(corrupt.code, Some(1));
}

#[test]
fn people_read_the_worst_first_with_its_remedy() {
    let server = RedisServer::options().user("x on >y ~* &* +@all").start().unwrap();
    let place = Place::on_file();
    let told = place.end(&["doctor", "-s", &server.patient_url_as("x", "y")]);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert!(lines[0].ends_with(": 1 danger") && !lines[0].contains(":y@"), "{told:?}");
    assert!(lines[1].starts_with("danger   127.0.0.1:"), "{told:?}");
    assert!(lines[2].trim().starts_with("risk: "), "{told:?}");
    assert!(lines[3].trim().starts_with("remedy: set appendonly yes"), "{told:?}");
    assert!(lines[4..].iter().all(|line| line.starts_with("ok ")), "{told:?}");
    assert_eq!(told.code, Some(1));
}
