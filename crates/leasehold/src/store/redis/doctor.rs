//! An examination of every server of a store: whether it can be reached, its version, its role, the
//! rights of the user, eviction, persistence, replicas, and its clock.

use std::collections::{BTreeSet, HashMap};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::text::show_duration;
use leasehold_core::{Error, StoreError};
use redis::{FromRedisValue, Value};

use super::checks::Report;
use super::clocks::{OF_NODES, compare, of_successors};
use super::connection::Connection;
use super::connection::dial::Dialer;
use super::connection::info::{Follower, Info};
use super::durability::Server;
use super::layout::key;
use super::layout::slot::SLOTS;
use super::options::{Address, LayoutName, RedisOptions, Replicas, Servers};
use super::rights;
use super::topology::Topology;
use crate::store::finding::{Finding, Topic};

/// How long a replica may be silent without a warning: 5 s. It normally acknowledges every second.
const LAG: Duration = Duration::from_secs(5);

/// The script that asks whether the user may run some commands. Each argument is a command, with a
/// word on each line. A command that the server does not have counts as allowed.
const ASK: &str = "local allowed = {}
for number, command in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(command, '[^\\n]+') do words[#words + 1] = word end
  local known, answer = pcall(redis.acl_check_cmd, unpack(words))
  allowed[number] = (not known or answer) and 1 or 0
end
return allowed";

/// The right to read the server's settings. Without it, locks work.
const CONFIG: &str = "+config|get";

/// The setting that makes a server refuse writes after a failed snapshot.
const STOPS: &str = "stop-writes-on-bgsave-error";

/// Rights for waking waiters. Without them, everything else works.
const WAKING: [&str; 4] = ["+publish", "+spublish", "+ssubscribe", "+subscribe"];

/// The commands that rules allow, as they would be sent.
///
/// The commands must be complete. If arguments are missing, a server looks for keys behind the last
/// argument, and Redis 7.0 crashes.
const COMMANDS: &str = "asking, cluster info, cluster slots, config get appendfsync, del KEY, \
    exec, exists KEY, get KEY, getrange KEY 0 1, hdel KEY f, hget KEY f, hgetall KEY, hkeys KEY, \
    hlen KEY, hmget KEY f, hrandfield KEY, hset KEY f v, incr KEY, incrby KEY 1, lpos KEY v, \
    lrange KEY 0 1, ltrim KEY 0 1, mget KEY, multi, pexpire KEY 1, pexpireat KEY 1, \
    pexpiretime KEY, ping, pttl KEY, publish CHANNEL m, role, rpush KEY v, select 1, set KEY v, \
    spublish CHANNEL m, ssubscribe CHANNEL, subscribe CHANNEL, time, type KEY, wait 0 1, \
    zadd KEY 1 v, zcard KEY, zpopmin KEY, zrange KEY 0 1, zrank KEY v, zrem KEY v, zscore KEY v";

/// Examines every server of a store.
///
/// # Errors
///
/// If none of the servers can be reached.
pub(crate) async fn examine(settings: RedisOptions) -> Result<Vec<Finding>, Error> {
    let nodes: Vec<_> = match &settings.servers {
        Servers::Quorum(nodes) => nodes.iter().map(|node| settings.of_node(node)).collect(),
        Servers::Cluster(_) | Servers::Sentinel { .. } | Servers::Standalone(_) => Vec::new(),
    };
    let stores = if nodes.is_empty() { slice::from_ref(&settings) } else { &nodes };
    let primaries = stores.iter().map(async |store| {
        let topology = Topology::new(store, None, None)?;
        Ok::<_, Error>(join_all(topology.primaries().await?).await)
    });
    let mut asked = Vec::new();
    for servers in join_all(primaries).await {
        for server in servers? {
            asked.push(report(server, &settings).await);
        }
    }
    let reports: Vec<&Report> = asked.iter().flatten().collect();
    let mut missing = asked.iter().filter_map(|report| report.as_ref().err()).peekable();
    if let (true, Some(error)) = (reports.is_empty(), missing.peek()) {
        return Err((*error).clone().into());
    }
    let place = settings.servers.to_string();
    let mut findings: Vec<Finding> = missing.map(unreachable).collect();
    let clocks: Vec<_> = reports.iter().filter_map(|report| report.clock.clone()).collect();
    if nodes.is_empty() {
        let followers = reports.iter().flat_map(|report| report.followers());
        let followers: Vec<Address> = followers.map(|follower| follower.address).collect();
        findings.extend(of_successors(&settings, clocks, &followers).await);
    } else {
        findings.extend(compare(&place, &clocks, &OF_NODES));
        findings.extend(independence(&place, &reports, nodes.len()));
    }
    if let Servers::Sentinel { sentinels, service } = &settings.servers {
        findings.extend(of_sentinels(&settings, sentinels, service).await?);
    }
    findings.extend(asked.into_iter().flatten().flat_map(|report| report.findings));
    Ok(findings)
}

/// All that is known of one server.
async fn report(
    server: Result<Arc<Server>, StoreError>,
    settings: &RedisOptions,
) -> Result<Report, StoreError> {
    let (server, limit) = (server?, settings.connect_timeout());
    let mut report = Report::of(&server, settings).await?;
    let (place, findings) = (server.server(), &mut report.findings);
    let (rights, may_read_settings) = rights(&server, settings, limit).await?;
    findings.push(rights);
    if matches!(settings.servers, Servers::Cluster(_)) {
        findings.extend(slots(&server, limit).await?);
    }
    // A denied command is not tried, because it would be an entry in the server's ACL LOG.
    let config: HashMap<String, String> = match may_read_settings {
        true => {
            let names = ["appendfsync", "min-replicas-to-write", "save", STOPS];
            let ask = redis::cmd("CONFIG").arg("GET").arg(&names).to_owned();
            HashMap::from_redis_value(server.ask_within(limit, &ask).await?).unwrap_or_default()
        }
        false => HashMap::new(),
    };
    let setting = |name| config.get(name).map(String::as_str);
    if let Some(unfit) = &report.incompatible {
        let (is, remedy) = (unfit.is.as_str(), unfit.remedy);
        findings.push(Topic(place, unfit.topic).danger(is, "nothing can be locked", remedy));
    } else if let Some(info) = &report.info {
        let (name, version) = info.version().unwrap_or_default();
        let topic = Topic(place, "version");
        findings.push(topic.ok(format!("the server is {name} {version}, a primary")));
        if info.field("aof_enabled") == Some("1") {
            findings.push(synced(place, setting("appendfsync"), settings));
        }
        let stops = setting(STOPS) != Some("no") && setting("save") != Some("");
        let disk = [("aof_last_write_status", true), ("rdb_last_bgsave_status", stops)];
        let failed = disk.iter().filter(|(at, stops)| *stops && info.field(at) == Some("err"));
        let (risk, remedy) = ("nothing can be locked", format!("see its log, or set {STOPS} no"));
        let topic = Topic(place, "persistence");
        findings.extend(failed.map(|(at, _)| topic.danger(format!("{at} is err"), risk, &remedy)));
        let followers = info.followers();
        findings.push(policy(place, followers.len(), settings));
        findings.extend(followers.iter().filter_map(|follower| behind(place, follower)));
        let is_unlimited = setting("min-replicas-to-write") == Some("0");
        if is_unlimited && !followers.is_empty() && settings.replicas == Replicas::None {
            findings.push(Topic(place, "replicas").warning(
                "min-replicas-to-write is 0",
                "a primary that is cut off goes on granting what the promoted one grants, too",
                "set min-replicas-to-write 1 and min-replicas-max-lag 10",
            ));
        }
    }
    Ok(report)
}

fn unreachable(error: &StoreError) -> Finding {
    let text = error.to_string();
    let (place, why) = text.split_once(": ").unwrap_or(("the store", &text));
    let risk = "names that live there cannot be locked, and one more failure may stop the rest";
    Topic(place, "reachable").danger(why, risk, "start it, or take it out of the store URL")
}

/// The finding about missing rights, and whether the user may read the server's settings. No right
/// is tried: a script can ask for its user's rights.
async fn rights(
    connection: &Connection,
    settings: &RedisOptions,
    limit: Duration,
) -> Result<(Finding, bool), StoreError> {
    let (topic, user) = (Topic(connection.server(), "rights"), settings.login.user());
    let (needed, patterns) = (needed(settings), patterns(settings));
    let grant = |rules: &[&str]| format!("ACL SETUSER {user} {} {patterns}", rules.join(" "));
    let asked: Vec<&str> = needed.iter().copied().chain([CONFIG]).collect();
    let mut answer =
        connection.send_within(limit, redis::cmd("SCRIPT").arg("LOAD").arg(ASK)).await?;
    if !is_denied(&answer) {
        let sha1 = String::from_redis_value(connection.check(answer)?).unwrap_or_default();
        let key = format!("{}%doctor", settings.lock_prefix());
        let channel = format!("{}%doctor", key::inbox_prefix(settings.prefix()));
        let commands = asked.iter().map(|rule| command(rule, &key, &channel));
        // There is no key, so any node of a cluster may be asked.
        let mut ask = redis::cmd("EVALSHA");
        ask.arg(sha1).arg(0).arg(commands.collect::<Vec<_>>());
        answer = connection.send_within(limit, &ask).await?;
    }
    if is_denied(&answer) {
        let found = format!("the user {user} lacks +script|load or +evalsha, perhaps others, too");
        // Granting a right that the user already has does no harm.
        return Ok((topic.danger(found, "locking fails", &grant(&needed)), false));
    }
    // A refusal for another reason says nothing about rights.
    let allowed = Vec::<u8>::from_redis_value(answer).unwrap_or_default();
    let missing = asked.iter().zip(allowed).filter(|(_, allowed)| *allowed == 0);
    let (settings, missing): (Vec<&str>, Vec<&str>) =
        missing.map(|(rule, _)| *rule).partition(|rule| *rule == CONFIG);
    let found = format!("the user {user} lacks {} on {patterns}", missing.join(" "));
    let finding = if missing.is_empty() {
        topic.ok(format!("the user {user} may do all that a holder does"))
    } else if missing.iter().all(|rule| WAKING.contains(rule)) {
        topic.warning(found, "waiters find out by asking once a second", &grant(&missing))
    } else {
        topic.danger(found, "locking fails, or a part of it", &grant(&missing))
    };
    Ok((finding, settings.is_empty()))
}

/// The rights that a holder needs with these settings, as rules: `+hget`.
fn needed(settings: &RedisOptions) -> Vec<&'static str> {
    let of_layout = match settings.layout {
        LayoutName::Native => rights::HOLDER,
        LayoutName::Plain => rights::PLAIN,
        LayoutName::Redisson | LayoutName::RedissonFenced => rights::REDISSON,
    };
    let all = [
        (of_layout, true),
        (rights::CLUSTER, matches!(settings.servers, Servers::Cluster(_))),
        ("+select", settings.database != 0),
        (rights::REPLICAS, settings.replicas != Replicas::None),
    ];
    let needed = all.into_iter().filter(|(_, is_needed)| *is_needed);
    needed.flat_map(|(rights, _)| rules(rights)).collect()
}

/// The rules about commands. INFO is tested by using it.
fn rules(rights: &'static str) -> impl Iterator<Item = &'static str> {
    rights.split_whitespace().filter(|rule| rule.starts_with('+') && *rule != "+info")
}

/// A command that a rule allows, with a word on each line.
fn command(rule: &str, key: &str, channel: &str) -> String {
    let name = rule.trim_start_matches('+').replace('|', " ");
    let is_it = |command: &&str| {
        command.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    // A rule is only asked about if its command is in the table; a test checks that it is. The
    // script's own rights are not in it.
    let command = COMMANDS.split(", ").find(is_it).unwrap_or("time");
    command.replace(' ', "\n").replace("KEY", key).replace("CHANNEL", channel)
}

/// The keys of all locks, and the channels that wake waiters, as rules.
fn patterns(settings: &RedisOptions) -> String {
    let is_redisson = settings.layout.is_redisson();
    let keys = match settings.lock_prefix() {
        prefix if is_redisson && !prefix.is_empty() => {
            format!("~{prefix}* ~{{{prefix}* ~redisson_lock_token:*")
        }
        prefix => format!("~{prefix}*"),
    };
    let more = if is_redisson { " &redisson_lock__channel:* &redisson_rwlock:*" } else { "" };
    format!("{keys} &{}*{more}", key::inbox_prefix(settings.prefix()))
}

/// Whether the server says that the user lacks a right.
fn is_denied(value: &Value) -> bool {
    matches!(value, Value::ServerError(refusal) if refusal.code() == "NOPERM")
}

/// The finding about writes to the append-only file that a power cut would lose.
fn synced(place: &str, appendfsync: Option<&str>, settings: &RedisOptions) -> Finding {
    let topic = Topic(place, "persistence");
    let (found, remedy) = match appendfsync {
        Some(how) => (how, settings.or_quarantine("set appendfsync always")),
        None => ("not known", format!("run doctor as a user with {CONFIG}")),
    };
    let found = format!("there is an append-only file, and appendfsync is {found}");
    if appendfsync == Some("always") || settings.quarantine().is_some() {
        return topic.ok(found);
    }
    let risk = "a power cut forgets the last grants: 2 s of them with everysec, else 30 s";
    topic.warning(found, risk, &remedy)
}

/// The finding about grants that a failover may forget.
fn policy(place: &str, count: usize, settings: &RedisOptions) -> Finding {
    let topic = Topic(place, "replicas");
    let fails_over = matches!(settings.servers, Servers::Cluster(_) | Servers::Sentinel { .. });
    let asked = match settings.replicas {
        Replicas::None => 0,
        Replicas::AtLeast(asked) => asked as usize,
        Replicas::All => count.max(1),
    };
    let found = format!("replicas that follow: {count}; that a grant waits for: {asked}");
    let risk = "after a failover somebody else may get a lock that is held";
    let remedy = settings.or_quarantine("write replicas=all in every store URL");
    if asked > count {
        let remedy = "start the replicas, or lower replicas= in every store URL";
        return topic.danger(found, "nothing is granted until more follow", remedy);
    }
    let is_safe = settings.quarantine().is_some() || asked == count;
    match (is_safe && (count > 0 || !fails_over), fails_over && asked == 0) {
        (true, _) => topic.ok(found),
        (false, true) => topic.danger(found, risk, &remedy),
        (false, false) => topic.warning(found, risk, &remedy),
    }
}

/// The finding about a replica that is not in step.
fn behind(place: &str, follower: &Follower) -> Option<Finding> {
    let Follower { address, state, lag } = follower;
    let what = match state.as_str() {
        "online" if *lag <= LAG => return None,
        "online" => format!("has acknowledged nothing for {}", show_duration(*lag)),
        _ => format!("is not in step yet ({state})"),
    };
    Some(Topic(place, "replicas").warning(
        format!("the replica {address} {what}"),
        "replicas=all waits for it, and a failover to it forgets what it has not got",
        "look at that server and at the network in between",
    ))
}

/// The finding about the slots of a cluster, in the view of one node; `None` if the user may not
/// ask.
async fn slots(connection: &Connection, limit: Duration) -> Result<Option<Finding>, StoreError> {
    let reply = connection.send_within(limit, redis::cmd("CLUSTER").arg("INFO")).await?;
    if is_denied(&reply) {
        return Ok(None);
    }
    let info = Info::of(connection.check(reply)?);
    let unassigned = u64::from(SLOTS).saturating_sub(info.number("cluster_slots_assigned"));
    let unserved = unassigned + info.number("cluster_slots_fail");
    let state = info.field("cluster_state").unwrap_or("unknown");
    let topic = Topic(connection.server(), "role");
    if state == "ok" && unserved == 0 {
        return Ok(Some(topic.ok(format!("all {SLOTS} slots are served"))));
    }
    Ok(Some(topic.danger(
        format!("cluster_state is {state}: {unserved} of {SLOTS} slots are served by nobody"),
        "names there cannot be locked; if the state is fail, no name can",
        "start their primaries and mend the network, or redis-cli --cluster fix",
    )))
}

/// Checks whether the sentinels of a URL can do their work.
async fn of_sentinels(
    settings: &RedisOptions,
    addresses: &[Address],
    service: &str,
) -> Result<Vec<Finding>, Error> {
    let dialer = Dialer::to_sentinels(settings)?;
    let ask = redis::cmd("SENTINEL").arg("MASTER").arg(service).to_owned();
    let (mut findings, mut count) = (Vec::new(), 1);
    for address in addresses {
        let asking = async {
            let connection = dialer.dial(address, None).await?;
            connection.ask_within(dialer.connect_timeout, &ask).await
        };
        match asking.await {
            Ok(reply) => {
                let fields = HashMap::<String, String>::from_redis_value(reply).unwrap_or_default();
                let others = fields.get("num-other-sentinels").and_then(|it| it.parse().ok());
                count = count.max(1 + others.unwrap_or(0));
            }
            Err(error) => findings.push(Topic(&address.to_string(), "reachable").warning(
                format!("this sentinel is of no help ({error})"),
                "while a majority of them is away, nobody is promoted when the primary fails",
                "start it, or take it out of the store URLs",
            )),
        }
    }
    let (topic, found) = (Topic(service, "role"), format!("sentinels that watch it: {count}"));
    let (risk, remedy) = ("when one is away, nobody is promoted", "run at least three");
    findings.push(if count < 3 { topic.warning(found, risk, remedy) } else { topic.ok(found) });
    Ok(findings)
}

/// Checks whether there are enough independent nodes for a majority.
fn independence(place: &str, reports: &[&Report], nodes: usize) -> Vec<Finding> {
    let topic = Topic(place, "role");
    let found = format!("there are {nodes} nodes, and {} must agree", nodes / 2 + 1);
    let (few, even) = ("none of them may fail", "one node less survives as many failures");
    let mut findings = vec![match nodes {
        0..3 => topic.danger(found, few, "run three or five"),
        nodes if nodes % 2 == 0 => topic.warning(found, even, "run three or five"),
        _ => topic.ok(found),
    }];
    let ids = reports.iter().filter_map(|report| report.info.as_ref()?.field("run_id"));
    let ids: Vec<&str> = ids.collect();
    if BTreeSet::from_iter(&ids).len() < ids.len() {
        let risk = "a majority of the names is not a majority of the servers";
        findings.push(topic.danger("two of them are the same server", risk, "name each once"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_not_in_step_is_a_finding() {
        let info = Info::from(
            "connected_slaves:3\r\n\
             slave0:ip=10.0.0.1,port=6379,state=online,offset=14,lag=1\r\n\
             slave1:ip=::1,port=7000,state=online,offset=14,lag=12\r\n\
             slave2:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0\r\n",
        );
        let followers = info.followers();
        let found: Vec<String> =
            followers.iter().filter_map(|follower| Some(behind("h:1", follower)?.found)).collect();
        let [late, behind] = &found[..] else { panic!("{found:?}") };
        assert!(late.contains("[::1]:7000") && late.contains("12s"), "{late}");
        assert!(behind.contains("10.0.0.3:6379") && behind.contains("wait_bgsave"), "{behind}");
    }

    #[test]
    fn the_manual_has_every_right() {
        let (holder, more) = (rights::HOLDER, rights::CLUSTER);
        let more = [more, rights::OPERATOR, rights::REPLICAS];
        let of_users = [holder, rights::PLAIN, rights::REDISSON, rights::SENTINEL];
        let manual = crate::store::Redis::MANUAL.replace("\\|", "|");
        let known: Vec<&str> = manual.split(|c: char| c.is_whitespace() || c == '`').collect();
        for right in of_users.into_iter().chain(more).flat_map(str::split_whitespace) {
            assert!(known.contains(&right), "{right} is not in docs/redis.md");
        }
    }

    #[test]
    fn each_right_is_asked_about_with_its_own_command() {
        let rights = [rights::HOLDER, rights::PLAIN, rights::REDISSON, rights::CLUSTER];
        let more = [CONFIG, "+role", "+select", "+wait"];
        for rule in rights.into_iter().flat_map(rules).chain(more) {
            if ["+script|load", "+evalsha"].contains(&rule) {
                continue;
            }
            let asked = command(rule, "lh:k", "lh:c");
            let name = rule.trim_start_matches('+').replace('|', "\n");
            assert!(asked.starts_with(&name), "{rule} is asked about as {asked:?}");
        }
    }
}
