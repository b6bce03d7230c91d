//! `leasehold doctor` finds what would break a promise, on real servers in real trouble.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use leasehold::store::Redis;
use leasehold_testkit::{Cluster, RedisOptions, RedisServer, Replicated, SentinelFleet};
use serde_json::Value;

use crate::harness::{Ended, Place, until};

/// The output of the doctor, and how it ended.
struct Visit {
    code: Option<i32>,
    report: Value,
}

impl Visit {
    fn to(url: &str, options: &[&str]) -> Self {
        let place = Place::on_file();
        let Ended { code, stdout, stderr, .. } =
            place.end(&[&["doctor", "--json", "-s", url], options].concat());
        let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
        Self { code, report }
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
        ("role", "a primary"),
        ("memory", "noeviction"),
        ("persistence", "synced always"),
        ("replicas", "no replica"),
        ("clock", "within"),
        ("rights", "may do all"),
        ("protection", "only its own machine"),
    ] {
        visit.assert_found("ok", topic, words);
    }
}

#[test]
fn an_evicting_server_is_a_danger() {
    let limited = sound().line("maxmemory 100mb").line("maxmemory-policy allkeys-lru");
    let found = visit(limited);
    found.assert_found("danger", "memory", "set maxmemory-policy noeviction");
    assert_eq!(found.code, Some(1));
    visit(sound().line("maxmemory-policy volatile-ttl")).assert_found("warning", "memory", "limit");
    visit(sound().max_memory(100_000)).assert_found("warning", "memory", "raise maxmemory");
}

#[test]
fn what_a_restart_or_a_power_cut_forgets_is_told() {
    let server = RedisServer::start().unwrap();
    let found = Visit::to(&server.patient_url(), &[]);
    found.assert_found("danger", "persistence", "set appendonly yes");
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
    visit(RedisServer::options().append_only("no")).assert_found("warning", "persistence", "half");

    let server = sound().start().unwrap();
    let needless = Visit::to(&format!("{}&quarantine=on", server.patient_url()), &[]);
    needless.assert_found("warning", "persistence", "leave quarantine out");
}

#[test]
fn a_quarantine_is_told_of_until_it_is_over() {
    let server = sound().start().unwrap();
    let url = format!("{}&quarantine=on", server.patient_url());
    Visit::to(&url, &[]).assert_found("warning", "quarantine", "or is new");
    let place = Place::on_file();
    place.end(&["run", "x", "-n", "-q", "-s", &url, "--", "true"]).assert_failed(69, "quarantine");
    Visit::to(&url, &[]).assert_found("warning", "quarantine", "for another");
    place.end(&["end-quarantine", "-s", &url]);
    Visit::to(&url, &[]).assert_found("ok", "quarantine", "over");
}

#[test]
fn a_plain_layout_that_does_not_say_what_keys_begin_with_is_told_of() {
    let server = sound().start().unwrap();
    let url = format!("{}&layout=plain", server.patient_url());
    Visit::to(&url, &[]).assert_found("warning", "layout", "give prefix=");
    assert_eq!(Visit::to(&format!("{url}&prefix="), &["--strict"]).code, Some(0));
}

#[test]
fn a_layout_that_is_shared_with_redisson_says_what_to_demand_of_it() {
    let server = sound().start().unwrap();
    let shared = Visit::to(&format!("{}&layout=redisson", server.patient_url()), &["--strict"]);
    shared.assert_found("ok", "layout", "lockWatchdogTimeout");
    assert_eq!(shared.code, Some(0), "{}", shared.report);
    let fenced = format!("{}&layout=redisson-fenced", server.patient_url());
    Visit::to(&fenced, &[]).assert_found("ok", "layout", "RFencedLock");
}

#[test]
fn a_failed_snapshot_that_stops_all_writes_is_a_danger() {
    let server = sound().start().unwrap();
    // There is a directory in the place of the file that would be written.
    let directory = server.socket().parent().unwrap().join("dump.rdb");
    fs::create_dir(directory).unwrap();
    server.command::<()>("BGSAVE").unwrap();
    until("the snapshot has failed", || {
        server.info("persistence").unwrap().contains("rdb_last_bgsave_status:err")
    });
    Visit::to(&server.patient_url(), &[]).assert_found("danger", "persistence", "snapshot");
    server.command::<()>("CONFIG SET stop-writes-on-bgsave-error no").unwrap();
    assert!(!Visit::to(&server.patient_url(), &[]).has("danger", "persistence", "snapshot"));
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
    holder.assert_found("warning", "settings", "+config|get");
    of("poor").assert_found("danger", "rights", "ACL SETUSER poor +hset +hdel ~lh:*");
    of("mute").assert_found("warning", "rights", "ACL SETUSER mute +publish &lh:inbox:*");
    of("elsewhere").assert_found("danger", "rights", "~lh:*");
    let none = of("none");
    none.assert_found("danger", "rights", "ACL SETUSER none +evalsha +script|load +time");
    none.assert_found("warning", "rights", "grant +info");
    // The refused commands were only those that have a fallback.
    let denied = server.acl_log().unwrap().len();
    assert!(denied <= 4, "{denied} refusals were logged");
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
fn a_user_who_lacks_even_the_rights_to_ask_needs_one_remedy() {
    let server = sound()
        .user("nothing on >secret resetkeys resetchannels -@all")
        .user("uncalled on >secret resetkeys resetchannels +@all -evalsha -hset")
        .start()
        .unwrap();
    for (user, right) in [("nothing", "lacks +script|load,"), ("uncalled", "lacks +evalsha,")] {
        let visit = || Visit::to(&server.patient_url_as(user, "secret"), &[]);
        let first = visit();
        first.assert_found("danger", "rights", right);
        let rights = first.findings().find(|finding| finding["topic"] == "rights").unwrap();
        server.command::<()>(rights["remedy"].as_str().unwrap()).unwrap();
        visit().assert_found("ok", "rights", "may do all");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_69() {
    let place = Place::on_file();
    let visit = |url: &str| place.end(&["doctor", "--json", "-s", url]);
    let dead = visit("redis://127.0.0.1:1/");
    dead.assert_failed(69, "nothing listens there");
    let report: Value = serde_json::from_str(&dead.stdout).unwrap();
    assert_eq!(
        (&report["dangers"], &report["findings"][0]["topic"]),
        (&1.into(), &"reachable".into())
    );
    assert!(place.end(&["doctor", "-s", "redis://127.0.0.1:1/"]).stdout.is_empty());
    let server = sound().password("secret").start().unwrap();
    visit(&server.patient_url_as("default", "wrong")).assert_failed(69, "wrong user or password");
    let run = ["run", "x", "-s", "file:/proc/locks.db", "--", "true"];
    place.end(&run).assert_failed(69, "/proc");
    Visit::to("file:/proc/locks.db", &[]).assert_found("danger", "disk", "0 MiB");
    visit("redis://127.0.0.1:1/?timeout=1").assert_failed(2, "timeout");
    let server = sound().password("secret").start().unwrap();
    let found = Visit::to(&server.patient_url_as("default", "secret"), &[]);
    found.assert_found("ok", "protection", "a password is asked for");
    let open = sound().start().unwrap();
    let open = Visit::to(&open.patient_url_as("default", "wrong").replace("default:", ":"), &[]);
    open.assert_found("warning", "protection", "asks for no password");
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
    server.set_clock(60.0, 1.0).unwrap();
    Visit::to(&server.patient_url(), &[]).assert_found("warning", "clock", "ahead of");
    server.set_clock(-60.0, 1.0).unwrap();
    Visit::to(&server.patient_url(), &[]).assert_found("warning", "clock", "behind");
}

#[test]
fn the_policy_of_the_url_is_held_against_the_replicas() {
    let servers = Replicated::start_with(sound(), &[100, 100]).unwrap();
    let visit = |options: &str| Visit::to(&format!("{}{options}", servers[0].patient_url()), &[]);
    let without = visit("");
    without.assert_found("warning", "replicas", "2 replicas follow the server");
    without.assert_found("warning", "replicas", "set min-replicas-to-write 1");
    without.assert_found("ok", "role", "a replica");
    visit("&replicas=1").assert_found("warning", "replicas", "replicas=all");
    visit("&replicas=2").assert_found("ok", "replicas", "each is waited for");
    visit("&replicas=all").assert_found("ok", "replicas", "all are waited for");
    visit("&replicas=3").assert_found("danger", "replicas", "nothing is granted");
    visit("&quarantine=on").assert_found("ok", "replicas", "quarantine");
    servers[0].command::<()>("CONFIG SET min-replicas-to-write 1").unwrap();
    visit("").assert_found("ok", "replicas", "the server stops writing");

    let replica = Visit::to(&servers[1].patient_url(), &[]);
    replica.assert_found("danger", "role", "give the primary");
    let alone = sound().start().unwrap();
    let alone = Visit::to(&format!("{}&replicas=all", alone.patient_url()), &[]);
    alone.assert_found("danger", "replicas", "nothing is granted");
}

#[test]
fn a_replica_with_other_settings_than_its_primary_is_told_of() {
    let servers = Replicated::start_with(sound().own_clock(), &[100]).unwrap();
    servers[1].command::<()>("CONFIG SET maxmemory-policy allkeys-lru").unwrap();
    servers[1].command::<()>("CONFIG SET maxmemory 1gb").unwrap();
    servers[1].set_clock(5.0, 1.0).unwrap();
    let found = Visit::to(&servers[0].patient_url(), &[]);
    found.assert_found("warning", "memory", "it may be promoted");
    found.assert_found("danger", "clock", "leases end early");
    let visit = |options: &str| Visit::to(&format!("{}{options}", servers[0].patient_url()), &[]);
    assert!(!visit("&quarantine=on").has("danger", "clock", ""), "it grants nothing new then");
}

#[test]
fn sentinels_are_counted_and_held_against_each_other() {
    let mut fleet = SentinelFleet::start_with(sound(), &[100], RedisServer::options()).unwrap();
    let visit =
        |fleet: &SentinelFleet, options: &str| Visit::to(&format!("{}{options}", fleet.url()), &[]);
    let all = visit(&fleet, "?replicas=all&timeout=30s");
    assert_eq!(all.code, Some(0), "{}", all.report);
    all.assert_found("ok", "sentinels", "3 sentinels");
    all.assert_found("ok", "role", "a primary");
    visit(&fleet, "").assert_found("danger", "replicas", "a failover forgets");
    fleet.sentinels_mut()[2].kill9().unwrap();
    visit(&fleet, "?replicas=all").assert_found("warning", "sentinels", "of no help");
}

#[test]
fn every_node_of_a_cluster_is_looked_at() {
    let cluster = Cluster::start_with(&RedisServer::options().own_clock(), 0).unwrap();
    let found = Visit::to(&cluster.url(), &[]);
    found.assert_found("ok", "clock", "3 servers that take over");
    cluster.node(2).set_clock(0.4, 1.0).unwrap();
    Visit::to(&cluster.url(), &[]).assert_found("warning", "clock", "more than half");
    cluster.node(2).set_clock(2.0, 1.0).unwrap();
    Visit::to(&cluster.url(), &[]).assert_found("danger", "clock", "two may hold one lock");
    let primaries = found.findings().filter(|finding| finding["topic"] == "role").count();
    assert_eq!(primaries, cluster.size(), "{}", found.report);
    let alone = Visit::to(&cluster.node(0).patient_url(), &[]);
    alone.assert_found("danger", "role", "redis+cluster://");
}

#[test]
fn the_slots_of_a_node_that_are_in_quarantine_are_said_to_be() {
    let cluster = Cluster::start_with(&RedisServer::options(), 0).unwrap();
    let url = format!("{}?quarantine=on&timeout=20s", cluster.url());
    Visit::to(&url, &[]).assert_found("warning", "quarantine", "slots were not used since");
    Place::on_file().end(&["end-quarantine", "-s", &url]).assert_silent(0);
    let over = Visit::to(&url, &[]);
    over.assert_found("ok", "quarantine", "slots is over");
    let counted = over.findings().filter(|finding| finding["topic"] == "quarantine").count();
    assert_eq!(counted, cluster.size(), "{}", over.report);
    cluster.node(1).command::<()>("FLUSHALL").unwrap();
    // The next caller notices that.
    drop(Place::on_file().end(&["run", "--no-wait", "x", "-s", &url, "--", "true"]));
    Visit::to(&url, &[]).assert_found("warning", "quarantine", "slots are in quarantine");
}

#[test]
fn what_all_nodes_of_a_cluster_have_is_said_once_with_a_remedy_that_it_allows() {
    let mut cluster = Cluster::start_with(&RedisServer::options(), 0).unwrap();
    let place = Place::on_file();
    let told = place.end(&["doctor", "-s", &cluster.url()]).stdout;
    let nodes: Vec<String> = (0..cluster.size())
        .map(|node| format!("127.0.0.1:{}", cluster.node(node).port()))
        .collect();
    let lines: Vec<&str> = told.lines().collect();
    let (at, line) = lines
        .iter()
        .enumerate()
        .find(|(_, line)| line.ends_with("there is no append-only file"))
        .unwrap_or_else(|| panic!("{told}"));
    assert!(nodes.iter().all(|node| line.contains(node)), "{told}");
    let remedy = "remedy: set appendonly yes, or quarantine=on in every store URL";
    assert_eq!(lines[at + 2].trim(), remedy);
    assert_eq!(told.matches("no append-only file").count(), 1, "{told}");
    assert!(lines[0].ends_with(": 2 dangers"), "{told}");
    assert_eq!(told.matches("all 16384 slots are served").count(), 1, "{told}");
    cluster.kill(2).unwrap();
    cluster.until_down().unwrap();
    let down = Visit::to(&cluster.url(), &[]);
    down.assert_found("danger", "slots", "cluster_state is fail");
    assert!(down.has("danger", "slots", "slots are served by nobody"), "{}", down.report);
}

#[test]
fn a_plain_layout_is_recommended_no_quarantine() {
    let server = RedisServer::start().unwrap();
    let plain = Visit::to(&format!("{}&layout=plain&prefix=", server.patient_url()), &[]);
    plain.assert_found("danger", "persistence", "set appendonly yes");
    assert!(!plain.report.to_string().contains("quarantine=on"), "{}", plain.report);
}

#[test]
fn differences_of_clocks_are_told_to_the_millisecond() {
    let server = sound().start().unwrap();
    let report = Visit::to(&server.patient_url(), &[]).report.to_string();
    let within =
        report.split("the server's clock is within ").nth(1).unwrap_or_else(|| panic!("{report}"));
    let span = within.split(' ').next().unwrap();
    let is_finer = span.contains(['µ', 'n']) || (span.contains('.') && span.ends_with("ms"));
    assert!(!is_finer, "{span}");
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
fn records_of_another_release_are_named_and_a_quorum_does_not_wait_for_them() {
    let servers: Vec<_> = (0..3).map(|_| sound().start().unwrap()).collect();
    for server in &servers {
        server.command::<()>("HSET lh:bad s garbage").unwrap();
    }
    let nodes: Vec<_> = servers.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    let quorum = format!("redis+quorum://{}?timeout=30s&quarantine=off", nodes.join(","));
    let one = Visit::to(&servers[0].patient_url(), &[]);
    one.assert_found("danger", "records", "1 name cannot be read: bad");
    for url in [&quorum, &servers[0].patient_url()] {
        let ended = Place::on_file().end(&["run", "bad", "-n", "-s", url, "--", "true"]);
        assert_eq!(ended.code, Some(69), "{}", ended.stderr);
        assert!(ended.stderr.contains("use one release of leasehold"), "{}", ended.stderr);
    }
}

#[test]
fn the_nodes_of_a_quorum_are_counted_told_apart_and_compared() {
    let servers: Vec<_> = (0..3).map(|_| sound().own_clock().start().unwrap()).collect();
    let others: Vec<_> = (0..2).map(|_| sound().start().unwrap()).collect();
    let quorum = |ports: &[u16]| {
        let nodes: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+quorum://{}?timeout=30s", nodes.join(","))
    };
    let [a, b, c] = [0, 1, 2].map(|number: usize| servers[number].port());
    Visit::to(&quorum(&[a, b, c]), &[]).assert_found("ok", "quorum", "2 of 3 nodes");
    Visit::to(&quorum(&[a, b]), &[]).assert_found("danger", "quorum", "three or five");
    Visit::to(&quorum(&[a, b, c, 1]), &[]).assert_found("warning", "quorum", "4 nodes");
    Visit::to(&quorum(&[a, b, 1]), &[]).assert_found("danger", "reachable", "nothing listens");
    let twice = quorum(&[a, b]).replacen(&format!(",127.0.0.1:{b}"), &format!(",localhost:{a}"), 1);
    Visit::to(&twice, &[]).assert_found("danger", "quorum", "the same server");
    Visit::to(&quorum(&[a, b, c]), &[]).assert_found("ok", "nodes", "no client with other nodes");
    let plain = format!("{}&layout=plain&prefix=", quorum(&[a, b, c]));
    Visit::to(&plain, &[]).assert_found("ok", "nodes", "other languages");
    let place = Place::on_file();
    let elsewhere = servers[2..].iter().chain(&others).map(RedisServer::port).collect::<Vec<_>>();
    place.end(&["ls", "-s", &quorum(&elsewhere)]);
    Visit::to(&quorum(&[a, b, c]), &[]).assert_found("danger", "nodes", "the same nodes");
    assert!(!Visit::to(&quorum(&elsewhere), &[]).has("danger", "nodes", ""));
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
    sound.assert_found("ok", "store", "this machine only");
    for topic in ["permissions", "disk"] {
        sound.assert_found("ok", topic, "");
    }
    assert!(!path.exists(), "what is looked at is not created");
    let place = Place::on_file();
    place.end(&["run", "x", "-q", "-s", &url, "--", "true"]).assert_silent(0);
    Visit::to(&url, &["--strict"]).assert_found("ok", "store", "this machine only");
    mode(&path, 0o666);
    Visit::to(&url, &[]).assert_found("warning", "permissions", "chmod go=");
    mode(&path, 0o660);
    mode(directory.path(), 0o2770);
    Visit::to(&url, &["--strict"]).assert_found("ok", "permissions", "users of group");
    mode(directory.path(), 0o777);
    Visit::to(&url, &[]).assert_found("warning", "permissions", "chmod go-w");
    mode(directory.path(), 0o700);
    let corrupt = directory.path().join("corrupt.db");
    fs::write(&corrupt, "this is not a database, and long enough to be none").unwrap();
    let corrupt = Visit::to(&format!("file:{}", corrupt.display()), &[]);
    corrupt.assert_found("danger", "store", "name another path");
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
