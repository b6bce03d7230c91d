//! The map of slots to primaries, from a node of the cluster.

use std::hash::{DefaultHasher, Hash, Hasher};

use redis::{FromRedisValue, Value};

use crate::store::redis::options::Address;

/// The slots and the nodes.
#[derive(Debug)]
pub(crate) struct Map {
    /// The ranges, in the order of their last slots. Slots that nobody serves are in no range.
    ranges: Vec<Range>,
    /// All nodes, primaries and replicas.
    nodes: Vec<Address>,
}

#[derive(Debug)]
struct Range {
    first: u16,
    last: u16,
    primary: Address,
    replicas: Vec<Address>,
    /// The shard number of the primary.
    shard: u64,
}

impl Map {
    /// Decodes the reply to CLUSTER SLOTS of the node at `asked`; `None` if it is malformed, or if
    /// that node knows no primary with slots.
    pub(crate) fn parse(reply: Value, asked: &Address) -> Option<Self> {
        let (mut ranges, mut nodes) = (Vec::new(), Vec::new());
        for part in Vec::<Vec<Value>>::from_redis_value(reply).ok()? {
            let mut part = part.into_iter();
            let first = u16::from_redis_value(part.next()?).ok()?;
            let last = u16::from_redis_value(part.next()?).ok()?;
            let serving = part.map(|node| parse_node(node, asked));
            let serving: Vec<_> = serving.collect::<Option<_>>()?;
            nodes.extend_from_slice(&serving);
            let mut serving = serving.into_iter();
            let (primary, replicas) = (serving.next()?, serving.collect());
            let mut hasher = DefaultHasher::new();
            primary.hash(&mut hasher);
            ranges.push(Range { first, last, primary, replicas, shard: hasher.finish() });
        }
        ranges.sort_by_key(|range| range.last);
        nodes.sort();
        nodes.dedup();
        (!ranges.is_empty()).then_some(Self { ranges, nodes })
    }

    /// The primary that serves a slot.
    pub(crate) fn primary(&self, slot: u16) -> Option<&Address> {
        self.range(slot).map(|range| &range.primary)
    }

    /// The shard number of the primary that serves a slot.
    pub(crate) fn shard(&self, slot: u16) -> Option<u64> {
        self.range(slot).map(|range| range.shard)
    }

    /// All primaries that serve slots.
    pub(crate) fn primaries(&self) -> Vec<&Address> {
        let mut primaries: Vec<_> = self.ranges.iter().map(|range| &range.primary).collect();
        primaries.sort();
        primaries.dedup();
        primaries
    }

    /// At most `most` primaries. Another seed chooses other primaries. The same seed chooses the
    /// same primaries as long as they exist, even if others come or go.
    pub(crate) fn some_primaries(&self, seed: u64, most: usize) -> Vec<&Address> {
        let mut primaries = self.primaries();
        primaries.sort_by_cached_key(|primary| {
            let mut hasher = DefaultHasher::new();
            (seed, primary).hash(&mut hasher);
            hasher.finish()
        });
        primaries.truncate(most);
        primaries
    }

    /// The slots that a primary serves.
    pub(crate) fn slots_of(&self, primary: &Address) -> Vec<u16> {
        let own = self.ranges.iter().filter(|range| range.primary == *primary);
        // The ranges are in order.
        own.flat_map(|range| range.first..=range.last).collect()
    }

    /// The primaries that were replicas in an earlier map, each behind the primary that it followed
    /// there. A node to which slots were moved is not among them.
    pub(crate) fn takeovers<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (&'a Address, &'a Address)> {
        self.ranges.iter().filter_map(|range| {
            let earlier = before.range(range.first)?;
            let has_followed = earlier.replicas.contains(&range.primary);
            has_followed.then_some((&earlier.primary, &range.primary))
        })
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> &[Address] {
        &self.nodes
    }

    fn range(&self, slot: u16) -> Option<&Range> {
        let index = self.ranges.partition_point(|range| range.last < slot);
        self.ranges.get(index).filter(|range| range.first <= slot)
    }
}

/// The node to which the node at `asked` redirects by MOVED or ASK; `details` is such as
/// `3999 10.0.0.1:6381`.
pub(crate) fn redirection(details: &str, asked: &Address) -> Option<Address> {
    let (_, place) = details.split_once(' ')?;
    let (host, port) = place.rsplit_once(':')?;
    Some(address(host, port.parse().ok()?, asked))
}

/// One node of the reply to CLUSTER SLOTS: host, port, and more.
fn parse_node(node: Value, asked: &Address) -> Option<Address> {
    let mut parts = Vec::<Value>::from_redis_value(node).ok()?.into_iter();
    let host = Option::<String>::from_redis_value(parts.next()?).ok()?;
    let port = u16::from_redis_value(parts.next()?).ok()?;
    Some(address(host.as_deref().unwrap_or_default(), port, asked))
}

/// A node that does not know its own host sends an empty host, none, or a `?`. Then its host is the
/// one by which it was reached.
fn address(host: &str, port: u16, asked: &Address) -> Address {
    let is_unknown = matches!(host, "" | "?") && !asked.is_socket();
    Address { host: if is_unknown { &asked.host } else { host }.to_owned(), port }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value, port: i64) -> Value {
        let id = Value::BulkString(b"0123".to_vec());
        Value::Array(vec![host, Value::Int(port), id, Value::Array(Vec::new())])
    }

    fn host(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn a_map_says_who_serves_a_slot_and_that_nobody_does() {
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let reply = Value::Array(vec![
            range(101, 200, vec![node(host("b"), 2), node(host("c"), 3)]),
            range(0, 99, vec![node(host(""), 1), node(Value::Nil, 4)]),
            range(300, 300, vec![node(host("b"), 2)]),
        ]);
        let map = Map::parse(reply, &at("a", 9)).unwrap();
        for (slot, primary) in [
            (0, Some(at("a", 1))),
            (99, Some(at("a", 1))),
            (100, None),
            (101, Some(at("b", 2))),
            (200, Some(at("b", 2))),
            (299, None),
            (300, Some(at("b", 2))),
            (301, None),
        ] {
            assert_eq!(map.primary(slot), primary.as_ref(), "{slot}");
        }
        assert_eq!(map.primaries(), [&at("a", 1), &at("b", 2)]);
        assert_eq!(map.slots_of(&at("b", 2)), (101..=200).chain([300]).collect::<Vec<_>>());
        assert_eq!(map.slots_of(&at("c", 3)), [], "a replica");
        assert_eq!(map.nodes(), [at("a", 1), at("a", 4), at("b", 2), at("c", 3)]);
        assert!(map.shard(0) != map.shard(101) && map.shard(101) == map.shard(300));
    }

    #[test]
    fn a_primary_that_was_a_replica_has_taken_over_and_one_that_got_slots_has_not() {
        let map = |ranges: [(i64, i64, &[&str]); 2]| {
            let range = |(first, last, hosts): (i64, i64, &[&str])| {
                let nodes = hosts.iter().map(|name| node(host(name), 1)).collect();
                Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
            };
            Map::parse(Value::Array(ranges.map(range).to_vec()), &at("a", 9)).unwrap()
        };
        let before = map([(0, 99, &["a", "b", "c"]), (100, 199, &["d", "e"])]);
        let after = map([(0, 99, &["c", "a", "b"]), (100, 199, &["f", "e"])]);
        let takeovers = |one: &Map, other: &Map| {
            one.takeovers(other).map(|(from, to)| (from.clone(), to.clone())).collect::<Vec<_>>()
        };
        assert_eq!(takeovers(&after, &before), [(at("a", 1), at("c", 1))]);
        assert_eq!(takeovers(&before, &before), []);
    }

    #[test]
    fn clients_of_a_large_cluster_do_not_all_choose_the_same_primaries() {
        let range = |number: i64| {
            Value::Array(vec![Value::Int(number), Value::Int(number), node(host("a"), number + 1)])
        };
        let map = |numbers: std::ops::Range<i64>| {
            Map::parse(Value::Array(numbers.map(range).collect()), &at("a", 9)).unwrap()
        };
        let (all, without_last) = (map(0..100), map(0..99));
        let mut chosen = vec![0; 101];
        for seed in 0..1_000 {
            let some = all.some_primaries(seed, 8);
            let mut distinct = some.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!((some.len(), distinct.len()), (8, 8));
            for primary in &some {
                chosen[usize::from(primary.port)] += 1;
            }
            let last = at("a", 100);
            if !some.contains(&&last) {
                assert_eq!(some, without_last.some_primaries(seed, 8), "another one has gone");
            }
        }
        // Each primary is chosen by 80 of a thousand clients on average.
        assert!(chosen[1..].iter().all(|count| (40..130).contains(count)), "{chosen:?}");
        assert_eq!(map(0..3).some_primaries(7, 8).len(), 3);
    }

    #[test]
    fn a_reply_that_maps_nothing_is_none() {
        let asked = at("a", 1);
        for reply in [
            Value::Nil,
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(1)])]),
            Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(1), Value::Int(2)])]),
        ] {
            assert!(Map::parse(reply.clone(), &asked).is_none(), "{reply:?}");
        }
    }

    #[test]
    fn a_redirection_names_a_node_or_only_its_port() {
        let asked = at("a", 1);
        assert_eq!(redirection("3999 10.0.0.1:6381", &asked), Some(at("10.0.0.1", 6381)));
        assert_eq!(redirection("3999 ::1:6381", &asked), Some(at("::1", 6381)));
        assert_eq!(redirection("3999 :6381", &asked), Some(at("a", 6381)));
        assert_eq!(redirection("3999 ?:6381", &asked), Some(at("a", 6381)));
        for wrong in ["", "3999", "3999 a", "3999 a:b"] {
            assert_eq!(redirection(wrong, &asked), None, "{wrong}");
        }
    }
}
