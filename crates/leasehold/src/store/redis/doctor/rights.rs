//! Finds the rights that the user lacks, without trying any: a script can ask for its user's
//! rights.

use std::time::Duration;

use leasehold_core::{ClientId, StoreError};
use redis::{FromRedisValue, Value};

use crate::store::finding::{Finding, Topic};
use crate::store::redis::connection::Connection;
use crate::store::redis::layout::key;
use crate::store::redis::options::{LayoutName, RedisOptions, Replicas, Servers};
use crate::store::redis::rights;

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

/// The right that the script itself needs.
const LOAD: &str = "+script|load";
const CALL: &str = "+evalsha";

/// Rights for waking waiters. Without them, everything else works.
const WAKING: [&str; 4] = ["+publish", "+spublish", "+ssubscribe", "+subscribe"];

/// The rights that the user lacks.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    /// The missing right to ask. If it is set, nothing is known about the other rights.
    missing_to_ask: Option<&'static str>,
    /// The missing rights of a holder.
    missing: Vec<String>,
    pub(crate) may_read_settings: bool,
}

/// The rights that a holder needs with these settings, as rules: `+hget`.
fn needed(settings: &RedisOptions) -> Vec<&'static str> {
    let rights = match settings.layout {
        LayoutName::Native => rights::HOLDER,
        LayoutName::Plain => rights::PLAIN,
        LayoutName::Redisson | LayoutName::RedissonFenced => rights::REDISSON,
    };
    // The right to INFO is tested by using it, and has a separate finding.
    let mut rules: Vec<_> = words(rights).filter(|rule| *rule != "+info").collect();
    if matches!(settings.servers, Servers::Cluster(_)) {
        rules.extend(words(rights::CLUSTER));
    }
    if settings.database != 0 {
        rules.push("+select");
    }
    if settings.replicas != Replicas::None {
        rules.extend(["+role", "+wait"]);
    }
    rules
}

fn is_waking(rule: &str) -> bool {
    WAKING.contains(&rule)
}

/// The commands that rules allow, as they would be sent.
///
/// The commands must be complete. If arguments are missing, a server looks for keys behind the last
/// argument, and Redis 7.0 crashes.
const COMMANDS: &str = "asking, cluster info, cluster slots, config get appendfsync, del KEY, \
    exists KEY, get KEY, getrange KEY 0 1, hdel KEY f, hget KEY f, hgetall KEY, hkeys KEY, \
    hlen KEY, hmget KEY f, hrandfield KEY, hset KEY f v, incr KEY, pexpireat KEY 1, \
    pexpiretime KEY, ping, publish CHANNEL m, role, scan 0, select 1, set KEY v, \
    spublish CHANNEL m, ssubscribe CHANNEL, subscribe CHANNEL, time, type KEY, wait 0 1";

/// A command that a rule allows, with a word on each line.
fn command(rule: &str, key: &str, channel: &str) -> String {
    let name = rule.trim_start_matches('+').replace('|', " ");
    let is_it = |command: &&str| {
        command.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    // A new right is only asked for if its command is in the table; a test checks that it is.
    let command = COMMANDS.split(", ").find(is_it).unwrap_or("time");
    let words = command.split(' ').map(|word| match word {
        "CHANNEL" => channel,
        "KEY" => key,
        word => word,
    });
    words.collect::<Vec<_>>().join("\n")
}

fn words(rights: &'static str) -> impl Iterator<Item = &'static str> {
    rights.split_whitespace().filter(|word| word.starts_with('+'))
}

impl Rights {
    pub(crate) async fn of(
        connection: &Connection,
        settings: &RedisOptions,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let load = connection.send_within(limit, redis::cmd("SCRIPT").arg("LOAD").arg(ASK)).await?;
        if is_denied(&load) {
            return Ok(Self::unknown(LOAD));
        }
        let sha1 = String::from_redis_value(connection.check(load)?).unwrap_or_default();
        let mut rules = needed(settings);
        rules.push("+config|get");
        rules.retain(|rule| ![LOAD, CALL].contains(rule));
        let key = format!("{}%doctor", settings.lock_prefix());
        let channel = key::inbox(settings.prefix(), ClientId(0));
        let channel = String::from_utf8_lossy(&channel).into_owned();
        let mut ask = redis::cmd("EVALSHA");
        // There is no key, so any node of a cluster may be asked.
        ask.arg(sha1).arg(0);
        for rule in &rules {
            ask.arg(command(rule, &key, &channel));
        }
        let answer = connection.send_within(limit, &ask).await?;
        if is_denied(&answer) {
            return Ok(Self::unknown(CALL));
        }
        // A refusal for another reason says nothing about rights.
        let allowed = Vec::<u8>::from_redis_value(answer).unwrap_or_default();
        let mut rights = Self::default();
        for (rule, allowed) in rules.iter().zip(allowed) {
            match (*rule, allowed) {
                ("+config|get", allowed) => rights.may_read_settings = allowed == 1,
                (_, 1) => {}
                (rule, _) => rights.missing.push(rule.to_owned()),
            }
        }
        Ok(rights)
    }

    /// The rights of a user who may not ask.
    fn unknown(missing_to_ask: &'static str) -> Self {
        Self { missing_to_ask: Some(missing_to_ask), ..Self::default() }
    }

    /// The findings about missing rights, with the rules that grant them.
    pub(crate) fn findings(&self, server: &str, settings: &RedisOptions) -> Vec<Finding> {
        let user = settings.login.user();
        let (prefix, keys) = (settings.lock_prefix(), key_patterns(settings));
        let (inboxes, channels) =
            (key::inbox_prefix(settings.prefix()), channel_patterns(settings));
        let grant =
            |rules: String, patterns: String| format!("ACL SETUSER {user} {rules} {patterns}");
        if let Some(right) = self.missing_to_ask {
            return vec![Topic(server, "rights").danger(
                format!("the user {user} lacks {right}, so its other rights cannot be found out"),
                "locking fails",
                // Granting a right that the user already has does no harm.
                grant(needed(settings).join(" "), format!("{keys} {channels}")),
            )];
        }
        let (waking, needed): (Vec<String>, Vec<String>) =
            self.missing.iter().cloned().partition(|rule| is_waking(rule));
        let (waking, needed) = (waking.join(" "), needed.join(" "));
        let mut findings = Vec::new();
        if !needed.is_empty() {
            findings.push(Topic(server, "rights").danger(
                format!("the user {user} lacks {needed} on {prefix}*"),
                "locking fails, or a part of it",
                grant(needed, keys),
            ));
        }
        if !waking.is_empty() {
            findings.push(Topic(server, "rights").warning(
                format!("the user {user} lacks {waking} on {inboxes}*"),
                "waiters are not woken, and find out by asking once a second",
                grant(waking, channels),
            ));
        }
        if findings.is_empty() {
            let found = format!("the user {user} may do all that a holder does");
            findings.push(Topic(server, "rights").ok(found));
        }
        findings
    }
}

/// The keys of all locks, as rules.
fn key_patterns(settings: &RedisOptions) -> String {
    match (settings.layout, settings.lock_prefix()) {
        (layout, prefix) if layout.is_redisson() && !prefix.is_empty() => {
            format!("~{prefix}* ~{{{prefix}* ~redisson_lock_token:*")
        }
        (_, prefix) => format!("~{prefix}*"),
    }
}

/// The channels that wake waiters, as rules.
fn channel_patterns(settings: &RedisOptions) -> String {
    let more = match settings.layout {
        LayoutName::Redisson | LayoutName::RedissonFenced => {
            " &redisson_lock__channel:* &redisson_rwlock:*"
        }
        LayoutName::Native | LayoutName::Plain => "",
    };
    format!("&{}*{more}", key::inbox_prefix(settings.prefix()))
}

/// Whether the server says that the user lacks a right.
pub(crate) fn is_denied(value: &Value) -> bool {
    matches!(value, Value::ServerError(refusal) if refusal.code() == "NOPERM")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let more = ["+config|get", "+role", "+scan", "+select", "+wait"];
        for rule in rights.into_iter().flat_map(words).chain(more) {
            if ["+info", LOAD, CALL].contains(&rule) {
                continue;
            }
            let asked = command(rule, "lh:k", "lh:c");
            let name = rule.trim_start_matches('+').replace('|', "\n");
            assert!(asked.starts_with(&name), "{rule} is asked about as {asked:?}");
        }
    }
}
