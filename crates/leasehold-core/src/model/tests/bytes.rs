//! Records as bytes. Every step of the [histories](super::invariants) also checks that its record
//! survives the encoding.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::backoff::Jitter;
use crate::error::StoreErrorKind;

/// A record with `count` waiters, whose facts are as long as usual.
fn crowd(mode: Mode, count: u64) -> Record {
    let mut bench = Bench::new();
    for number in 1..=count {
        let client = u128::from(number) << 100 | u128::MAX >> 28;
        let info = HolderInfo::new("web-17.example", 4711).with_label(Some("nightly".into()));
        let request = bench.request(id(client, 1), mode);
        bench.act(&Action::Acquire(request.with_nonce(u64::MAX - number).with_info(info)));
    }
    bench.record
}

/// A record with a row of each kind, and with the largest possible numbers.
fn full() -> Record {
    let mut bench = Bench::new();
    bench.take(id(4, 1), Mode::Exclusive);
    bench.release(id(4, 1));
    let token = bench.take(id(5, 1 << 60), Mode::Exclusive).token;
    bench.revoke(id(5, 1 << 60), token, true);
    bench.take(id(1, 1), Mode::Shared);
    bench.take(id(2, 1), Mode::Shared);
    let passed_on = PassedOn { times: 3, after: Duration::from_nanos(5_001) };
    let info =
        HolderInfo::new("ü", u32::MAX).with_label(Some(String::new())).with_passed_on(passed_on);
    bench.act(&Action::Describe { id: id(1, 1), info: info.clone() });
    let waits = bench.request(id(u128::MAX, 1 << 60), Mode::Exclusive).with_info(info);
    bench.act(&Action::Acquire(waits.with_nonce(u64::MAX)));
    bench.wait(id(u128::MAX, 1), Mode::Shared);
    bench.record
}

#[test]
fn a_record_with_something_of_each_kind_survives_its_bytes() {
    let record = full();
    assert!(record.last.is_some() && record.queue.len() == 2);
    assert!(record.tombstones.iter().any(|tombstone| tombstone.revoked));
    assert_eq!(Record::from_bytes(&record.to_bytes()), Ok(record));
}

#[test]
fn another_version_is_told_from_damage() {
    let mut bytes = full().to_bytes();
    for end in 0..bytes.len() {
        assert_eq!(Record::from_bytes(&bytes[..end]), Err(UnreadableRecord::Damaged), "{end}");
    }
    bytes.push(0);
    assert_eq!(Record::from_bytes(&bytes), Err(UnreadableRecord::Damaged), "too long");
    bytes[0] = Record::VERSION + 1;
    let unreadable = Record::from_bytes(&bytes).unwrap_err();
    assert_eq!(unreadable, UnreadableRecord::Version(Record::VERSION + 1));
    assert_eq!(unreadable.kind(), StoreErrorKind::Version);
    assert_eq!(UnreadableRecord::Damaged.kind(), StoreErrorKind::Corrupt);
}

#[test]
fn a_number_that_is_too_large_is_damage() {
    let mut bytes = vec![Record::VERSION];
    bytes.extend([0xff; 9]);
    bytes.push(2); // the 65th bit of the capacity
    bytes.extend([0; 64]);
    assert_eq!(Record::from_bytes(&bytes), Err(UnreadableRecord::Damaged));
}

#[test]
fn each_seven_bits_of_a_number_take_a_byte() {
    let length = |pid| {
        let mut bench = Bench::held();
        bench.act(&Action::Describe { id: id(1, 1), info: HolderInfo::new("host", pid) });
        bench.record.to_bytes().len()
    };
    let more = [1 << 7, 1 << 14, 1 << 21, 1 << 28].map(|pid| length(pid) - length(pid - 1));
    assert_eq!((length(127), more), (length(0), [1; 4]));
}

#[test]
fn waiters_and_holds_take_few_bytes() {
    let idle = Record::default().to_bytes().len();
    assert!(idle <= 64, "{idle}");
    for (mode, most) in [(Mode::Exclusive, 96), (permits(1, 2_000), 88)] {
        let [few, many] = [10, 1_010].map(|count| crowd(mode, count).to_bytes().len());
        let each = (many - few) / 1_000;
        assert!(each <= most, "{each} bytes in {mode:?}");
    }
}

/// Damages bytes as a disk, a cosmic ray or a person may.
fn damage(bytes: &mut Vec<u8>, random: &mut Jitter) {
    let mut below = |bound: usize| random.next_u64() as usize % bound;
    let at = below(bytes.len());
    match below(5) {
        0 => bytes[at] ^= 1 << below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
        2 => bytes.truncate(at),
        3 => {
            let (from, length) = (below(bytes.len()), below(24));
            let copied: Vec<u8> = bytes.iter().skip(from).take(length).copied().collect();
            bytes.splice(at..at, copied);
        }
        // The largest number that a record may hold.
        _ => {
            let end = bytes.len().min(at + 7);
            bytes.splice(at..end, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        }
    }
}

/// Applies every action to a record, early and late. In tests, steps are built with checks for
/// overflow.
fn reckon_with(record: &Record) {
    let (id, ttl) = (id(1, 1), TTL);
    let token = FencingToken::from_micros(WALL_US);
    let bench = Bench::new();
    let acquire = bench.request(id, Mode::Exclusive).with_not_after(u64::MAX);
    let actions = [
        Action::Acquire(acquire.clone()),
        Action::Acquire(acquire.clone().with_wait(false)),
        Action::Adopt(Adopt::new(super::id(2, 1), None, acquire.clone())),
        Action::Cancel { id, unanswered: true },
        Action::Commit { id, token, ttl },
        Action::Describe { id, info: HolderInfo::default() },
        Action::Inspect { limit: 9 },
        Action::Poll { id: super::id(u128::MAX, 1), ttl },
        Action::Reclaim(Reclaim::new(token, acquire)),
        Action::Release { id, cooldown: Duration::ZERO, unanswered: true },
        Action::Renew { id, ttl },
        Action::Revoke { id, token, force: true },
    ];
    for later_us in [0, 1_000_000, 60_000_000, 1 << 50] {
        for action in &actions {
            let mut record = record.clone();
            let now = Now { lease_us: START_US + later_us, token_us: WALL_US };
            step(&mut record, now, Rules::new(), action);
            reap(&mut record, now, Rules::new(), ClientId(2));
        }
    }
}

#[test]
fn damaged_bytes_are_refused_or_can_be_reckoned_with() {
    const MUTATIONS: u32 = 20_000;
    let mut random = Jitter::new(20_260_214);
    let sound = [full(), crowd(permits(1, 2), 7), crowd(Mode::Shared, 3)].map(|it| it.to_bytes());
    let mut read = 0;
    for number in 0..MUTATIONS {
        let mut bytes = sound[number as usize % sound.len()].clone();
        damage(&mut bytes, &mut random);
        if let Ok(record) = Record::from_bytes(&bytes) {
            assert!(record.is_sound(), "{record:#?}");
            reckon_with(&record);
            read += 1;
        }
    }
    let refused = MUTATIONS - read;
    assert!(refused > MUTATIONS / 10 && read > MUTATIONS / 10, "{refused} refused, {read} read");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Record::from_bytes(&bytes);
        let _ = Record::from_bytes(&[&[Record::VERSION][..], &bytes].concat());
    }
}
