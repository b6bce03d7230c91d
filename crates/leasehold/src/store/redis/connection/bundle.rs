//! Bundles requests, so that they need as few calls as possible.

use std::hash::BuildHasher as _;
use std::ptr;

use foldhash::fast::FixedState;
use redis::Value;

use super::call::{Own, Request};
use super::{error, resp};

/// The largest number of names that share a call: 64. So no call blocks the server, and with it
/// other clients, for more than some 100 µs if nobody waits for the names.
pub(crate) const MOST_IN_A_CALL: usize = 64;

/// Puts requests that may share a call into one bundle, up to a limit. No key is in a bundle twice.
/// If the bundles are sent in their order, requests for one key are sent in the order in which they
/// came. An item that is not a request for a script stays alone, behind all items before it and in
/// front of all after it.
pub(crate) fn bundles<T>(
    items: Vec<T>,
    request: fn(&T) -> Option<&Request>,
    most: usize,
) -> Vec<Vec<T>> {
    if items.len() == 1 {
        return vec![items];
    }
    let (places, sizes) = places(items.iter().map(request), most);
    let mut bundles: Vec<_> = sizes.into_iter().map(Vec::with_capacity).collect();
    places.into_iter().zip(items).for_each(|(at, item)| bundles[at].push(item));
    bundles
}

/// The number of the bundle for each request, and the size of each bundle.
fn places<'a>(
    requests: impl Iterator<Item = Option<&'a Request>>,
    most: usize,
) -> (Vec<usize>, Vec<usize>) {
    let mut sizes = Vec::new();
    // For each script, the bundle that further requests may join, with its first request.
    let mut open: Vec<(usize, &Request)> = Vec::new();
    // The bundle of each key so far.
    let count = requests.size_hint().0;
    let (mut marks, mut bundles) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut places = Vec::with_capacity(count);
    for request in requests {
        let Some(request) = request else {
            open.clear();
            places.push(sizes.len());
            sizes.push(1);
            continue;
        };
        let is_shared = is_shared(request);
        let own = if is_shared { 1 } else { request.keys().count };
        marks.extend(request.keys().iter().take(own).map(mark));
        let (before, own) = marks.split_at(bundles.len());
        let seen = own.iter().filter_map(|own| before.iter().rposition(|mark| mark == own));
        let latest = seen.map(|at| bundles[at]).max();
        let is_of_script = |(_, first): &(usize, &Request)| ptr::eq(first.script, request.script);
        let joined = open.iter().find(|it| is_shared && is_of_script(it)).filter(|(at, first)| {
            latest.is_none_or(|latest| latest < *at)
                && sizes[*at] < most
                && may_share(first, request)
        });
        let at = match joined {
            Some((at, _)) => *at,
            None => {
                if is_shared {
                    open.retain(|it| !is_of_script(it));
                    open.push((sizes.len(), request));
                }
                sizes.push(0);
                sizes.len() - 1
            }
        };
        sizes[at] += 1;
        bundles.resize(marks.len(), at);
        places.push(at);
    }
    (places, sizes)
}

/// A hash by which keys are compared: to search a few hundred hashes is faster than to put them
/// into a table. If two keys have the same hash, the only effect is that they share no bundle.
fn mark(key: &[u8]) -> u64 {
    FixedState::default().hash_one(key)
}

/// Whether a request may share a call.
fn is_shared(request: &Request) -> bool {
    let is_whole = |own: Own| request.args().count == own.of;
    request.keys().count > 0 && request.script.own.is_some_and(is_whole)
}

/// Whether two requests for one script, of which each may share a call, may share the same one.
fn may_share(a: &Request, b: &Request) -> bool {
    a.keys().shared == b.keys().shared && a.args().shared == b.args().shared
}

/// Writes the call for all requests of a bundle: first what is the own of each, and then the rest.
/// Returns the number of replies if it is not one.
pub(crate) fn write<'a>(
    bundle: impl Iterator<Item = &'a Request> + Clone,
    output: &mut Vec<u8>,
) -> Option<usize> {
    let first = bundle.clone().next()?;
    if first.script.sets {
        return Some(write_sets(first, bundle, output));
    }
    let more = bundle.clone().count() - 1;
    let (keys, args) = (first.keys(), first.args());
    let key_count = keys.count + more;
    let own_args = first.script.own.map_or(0, |own| own.args);
    resp::write_line(output, b'*', 3 + key_count + args.count + more * own_args);
    resp::write_word(output, b"EVALSHA");
    resp::write_word(output, first.script.sha1.as_bytes());
    resp::write_word(output, key_count.to_string().as_bytes());
    bundle.clone().for_each(|each| output.extend_from_slice(each.keys().own));
    output.extend_from_slice(keys.shared);
    bundle.for_each(|each| output.extend_from_slice(each.args().own));
    output.extend_from_slice(args.shared);
    None
}

/// Writes the SETs of a bundle, and the call of the script that draws their numbers, in one MULTI.
fn write_sets<'a>(
    first: &Request,
    bundle: impl Iterator<Item = &'a Request>,
    output: &mut Vec<u8>,
) -> usize {
    let mut sets = 0;
    output.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
    for request in bundle {
        output.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
        output.extend_from_slice(request.keys().own);
        output.extend_from_slice(request.args().own);
        sets += 1;
    }
    output.extend_from_slice(b"*5\r\n$7\r\nEVALSHA\r\n");
    resp::write_word(output, first.script.sha1.as_bytes());
    resp::write_word(output, b"1");
    output.extend_from_slice(first.keys().shared);
    resp::write_word(output, sets.to_string().as_bytes());
    output.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
    sets + 3
}

/// The reply to each of `count` requests like this one, from the reply to all of them. `None` if
/// the server has refused the whole call before it did anything: then each request is sent alone.
pub(crate) fn replies(request: &Request, count: usize, reply: Value) -> Option<Vec<Value>> {
    if request.script.sets {
        return set_replies(count, reply);
    }
    Some(match reply {
        reply if count == 1 => vec![reply],
        // The user may not use one of the keys. A script that has begun may have executed some of
        // the requests.
        Value::ServerError(no) if no.code() == "NOPERM" && !error::is_in_script(&no) => {
            return None;
        }
        Value::BulkString(letters) if letters.len() == count => {
            letters.into_iter().map(|letter| Value::BulkString(vec![letter])).collect()
        }
        Value::ServerError(refusal) => vec![Value::ServerError(refusal); count],
        _ => vec![Value::Nil; count],
    })
}

/// The reply to each SET of a transaction: its number; nil if there was the key; OK if it was set,
/// but no number was drawn.
fn set_replies(count: usize, reply: Value) -> Option<Vec<Value>> {
    let Value::Array(mut all) = reply else { return Some(vec![reply; count]) };
    match all.pop() {
        Some(Value::Array(mut sets)) if sets.len() == count + 1 => {
            let last = sets.pop().and_then(|last| redis::from_redis_value::<i64>(last).ok());
            let numbered = sets.into_iter().zip((1 - count as i64)..);
            let reply = |(set, behind)| match (set, last) {
                (Value::Okay, Some(last)) => Value::Int(last + behind),
                (set, _) => set,
            };
            Some(numbered.map(reply).collect())
        }
        // MULTI was refused, so each command was executed alone.
        Some(_) if matches!(all.first(), Some(Value::ServerError(_))) && all.len() > count => {
            Some(all.drain(1..=count).collect())
        }
        // The server tells the reason in front of the refusal. A redirection counts only if it is
        // that of the key itself, and not that of the counter.
        Some(Value::ServerError(refusal)) if count == 1 => {
            let mut refused = all.into_iter().take(2);
            let why = refused.find(|reply| matches!(reply, Value::ServerError(_)));
            let is_of_another = ["ASK", "EXECABORT", "TRYAGAIN"].contains(&refusal.code());
            let rest = if is_of_another { Value::Nil } else { Value::ServerError(refusal) };
            Some(vec![why.unwrap_or(rest)])
        }
        Some(Value::ServerError(_)) => None,
        _ => Some(vec![Value::Array(Vec::new()); count]),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use super::super::call::ScriptText;
    use super::*;

    fn script(name: &str, takes_many: bool) -> ScriptText {
        let own = takes_many.then_some(Own { args: 1, of: 2 });
        ScriptText { own, ..ScriptText::new(name.to_owned()) }
    }

    static ACQUIRE: LazyLock<ScriptText> = LazyLock::new(|| script("acquire", true));
    static POLL: LazyLock<ScriptText> = LazyLock::new(|| script("poll", false));
    static RELEASE: LazyLock<ScriptText> = LazyLock::new(|| script("release", true));

    fn request(script: &'static ScriptText, key: &str) -> Arc<Request> {
        Arc::new(Request::new(script).with([key, "counter"], [&format!("for {key}"), "inbox:"]))
    }

    /// The script and the keys of each bundle.
    fn shape(requests: &[(&'static ScriptText, &str)], most: usize) -> Vec<String> {
        let requests = requests.iter().map(|(script, key)| request(script, key)).collect();
        let shown = |bundle: Vec<Arc<Request>>| {
            let first = |it: &Arc<Request>| it.keys().iter().next().map(<[u8]>::to_vec);
            let keys = bundle.iter().map(|it| String::from_utf8(first(it).unwrap()).unwrap());
            format!("{}: {}", bundle[0].script.source, keys.collect::<Vec<_>>().join(" "))
        };
        bundles(requests, |request: &Arc<Request>| Some(request), most)
            .into_iter()
            .map(shown)
            .collect()
    }

    #[test]
    fn what_may_share_a_call_goes_into_one_per_script() {
        let (acquire, poll, release): (_, _, &'static _) = (&*ACQUIRE, &*POLL, &*RELEASE);
        let asked = [(release, "a"), (acquire, "b"), (poll, "p"), (release, "c"), (acquire, "d")];
        assert_eq!(shape(&asked, 9), ["release: a c", "acquire: b d", "poll: p"]);
        let asked = [(poll, "a"), (poll, "b")];
        assert_eq!(shape(&asked, 9), ["poll: a", "poll: b"], "a script that takes one name");
        let asked = ["a", "b", "c", "d", "e"].map(|key| (acquire, key));
        assert_eq!(shape(&asked, 2), ["acquire: a b", "acquire: c d", "acquire: e"]);
        assert_eq!(shape(&asked[..2], 1), ["acquire: a", "acquire: b"]);
    }

    #[test]
    fn what_is_asked_of_one_key_is_asked_in_the_order_in_which_it_came() {
        let (acquire, poll, release): (_, _, &'static _) = (&*ACQUIRE, &*POLL, &*RELEASE);
        let asked = [(acquire, "a"), (release, "b"), (acquire, "b"), (acquire, "c")];
        assert_eq!(shape(&asked, 9), ["acquire: a", "release: b", "acquire: b c"]);
        let asked = [(acquire, "a"), (acquire, "a"), (acquire, "b"), (release, "a")];
        assert_eq!(shape(&asked, 9), ["acquire: a", "acquire: a b", "release: a"]);
        let asked = [(acquire, "a"), (poll, "b"), (acquire, "b"), (poll, "a"), (acquire, "a")];
        let expected = ["acquire: a", "poll: b", "acquire: b", "poll: a", "acquire: a"];
        assert_eq!(shape(&asked, 9), expected);
    }

    #[test]
    fn what_is_no_request_for_a_script_is_sent_between_what_came_before_and_after() {
        let asked = [Some("a"), None, Some("b"), Some("c")];
        let asked = asked.map(|asked| asked.map(|key| request(&ACQUIRE, key)));
        let sent = bundles(asked.to_vec(), Option::as_deref, 9);
        assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
        assert!(sent[1][0].is_none());
    }

    #[test]
    fn a_call_carries_what_all_share_once_and_the_rest_of_each() {
        let [a, b] = ["a", "b"].map(|key| request(&ACQUIRE, key));
        let packed = |words: &[&str]| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(&ACQUIRE.sha1).arg(words);
            command.get_packed_command()
        };
        let written = |bundle: &[&Arc<Request>]| {
            let mut output = Vec::new();
            write(bundle.iter().map(|request| &***request), &mut output);
            output
        };
        assert_eq!(written(&[&a]), packed(&["2", "a", "counter", "for a", "inbox:"]));
        let both = ["3", "a", "b", "counter", "for a", "for b", "inbox:"];
        assert_eq!(written(&[&a, &b]), packed(&both));
        let bare = Request::new(&POLL).with(["k"; 10], [""; 0]);
        let mut output = Vec::new();
        write([&bare].into_iter(), &mut output);
        assert_eq!(output, bare.command().get_packed_command());
    }

    #[test]
    fn everybody_gets_the_own_reply_and_all_get_a_refusal() {
        let text = |text: &str| Value::BulkString(text.into());
        let request = request(&ACQUIRE, "a");
        let replies = |count, reply| replies(&request, count, reply);
        assert_eq!(replies(1, text("a")).unwrap(), [text("a")]);
        assert_eq!(replies(2, text("ab")).unwrap(), [text("a"), text("b")]);
        assert_eq!(replies(3, text("ab")).unwrap(), [Value::Nil, Value::Nil, Value::Nil]);
        let refusal = redis::parse_redis_value(b"-OOM full\r\n").unwrap();
        assert_eq!(replies(2, refusal.clone()).unwrap(), [refusal.clone(), refusal]);
        let denied = redis::parse_redis_value(b"-NOPERM no\r\n").unwrap();
        assert_eq!(replies(2, denied), None, "each alone");
    }

    static SET: LazyLock<ScriptText> = LazyLock::new(|| ScriptText {
        sets: true,
        own: Some(Own { args: 4, of: 4 }),
        ..script("draw", true)
    });

    #[test]
    fn names_are_set_in_one_transaction_and_the_numbers_follow_their_order() {
        let [a, b] = ["a", "b"]
            .map(|key| Request::new(&SET).with([key, "counter"], ["h 1", "NX", "PX", "9"]));
        let mut output = Vec::new();
        assert_eq!(write([&a, &b].into_iter(), &mut output), Some(5));
        let mut both = redis::pipe();
        both.atomic();
        both.add_command(a.set().unwrap()).add_command(b.set().unwrap());
        both.cmd("EVALSHA").arg(&SET.sha1).arg(1).arg("counter").arg(2);
        assert_eq!(output, both.get_packed_pipeline());
        let replies = |count, replies: &[u8]| {
            let read = |text: &[u8]| redis::parse_redis_value(text).unwrap();
            let mut all = vec![read(b"+OK\r\n")];
            all.extend(vec![read(b"+QUEUED\r\n"); count + 1]);
            all.push(read(replies));
            set_replies(count, Value::Array(all))
        };
        let numbers = replies(2, b"*3\r\n+OK\r\n+OK\r\n:7\r\n").unwrap();
        assert_eq!(numbers, [Value::Int(6), Value::Int(7)]);
        let numbers = replies(2, b"*3\r\n_\r\n+OK\r\n:7\r\n").unwrap();
        assert_eq!(numbers, [Value::Nil, Value::Int(7)]);
        let numbers = replies(1, b"*2\r\n+OK\r\n-NOSCRIPT no\r\n").unwrap();
        assert_eq!(numbers, [Value::Okay]);
        assert_eq!(replies(2, b"-EXECABORT no\r\n"), None, "each alone");
        assert_eq!(replies(1, b"-EXECABORT no\r\n").unwrap(), [Value::Nil]);
        let moved = redis::parse_redis_value(b"-MOVED 7 h:1\r\n").unwrap();
        assert_eq!(replies(1, b"-MOVED 7 h:1\r\n").unwrap(), [moved]);
    }
}
