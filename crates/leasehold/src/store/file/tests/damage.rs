//! Damaged records are refused, and what is not refused can be reckoned with.

use super::*;

/// Records as random histories leave them.
fn records(random: &mut Jitter) -> Vec<(u64, Record)> {
    let mut records = Vec::new();
    for _ in 0..40 {
        let mut history = History { random: Jitter::new(random.next_u64()), attempt: 0 };
        let (mut record, mut now) = (Record::default(), start());
        for _ in 0..history.below(120) {
            now.lease_us += history.below(200_000);
            now.token_us += 1 + history.below(200_000);
            let action = history.action(now.lease_us);
            model::step(&mut record, now, RULES, &action);
        }
        records.push((now.lease_us, record));
    }
    records
}

fn start() -> Now {
    Now { lease_us: 1_000_000_000, token_us: 1_767_225_600_000_000 }
}

/// Something that a disk, a cosmic ray or a hand may do.
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
        _ => {
            let numbers = [0, 1, (1 << 53) - 1, 1 << 53, u64::MAX / 2, u64::MAX - 1, u64::MAX];
            let number = numbers[below(numbers.len())].to_le_bytes();
            let end = bytes.len().min(at + 8);
            let length = end - at;
            bytes[at..end].copy_from_slice(&number[..length]);
        }
    }
}

#[test]
fn a_damaged_record_is_refused_or_can_be_reckoned_with() {
    const MUTATIONS: u32 = 20_000;
    let mut random = Jitter::new(20_260_214);
    let records = records(&mut random);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..MUTATIONS {
        let (lease_us, record) = &records[random.next_u64() as usize % records.len()];
        let mut bytes = codec::encode(record);
        damage(&mut bytes, &mut random);
        let Ok(record) = codec::decode(&bytes) else {
            refused += 1;
            continue;
        };
        read += 1;
        let ids = record.holds.iter().map(|hold| hold.id.client);
        let client = ids.chain(record.clients.keys().copied()).next().unwrap_or(ALICE);
        // Steps are built with checks for overflow here.
        let mut history = History { random: Jitter::new(random.next_u64()), attempt: 20 };
        for later_us in [0, 1, 1_000_000, 60_000_000, 1 << 50] {
            let now = Now { lease_us: lease_us + later_us, ..start() };
            let mut record = record.clone();
            for _ in 0..6 {
                model::step(&mut record, now, RULES, &history.action(now.lease_us));
            }
            model::reap(&mut record, now, RULES, client);
        }
    }
    assert!(refused > MUTATIONS / 10 && read > MUTATIONS / 10, "{refused} refused, {read} read");
}

#[tokio::test]
async fn one_damaged_record_ends_no_lease_of_another_name_and_no_thread() {
    let place = Place::new();
    let store = place.open();
    for (attempt, of) in [(1, "a"), (2, "b"), (3, "c")] {
        token(on(&store, of, acquire(ALICE, attempt, true)).await);
    }
    let mut record = place.record(&name("b")).unwrap();
    record.last_token_us = u64::MAX;
    let connection = Connection::open(place.path()).unwrap();
    let sql = "UPDATE lock SET record = ?1 WHERE name = 'b'";
    connection.execute(sql, [codec::encode(&record)]).unwrap();

    let lease = |attempt, of| {
        let id = HolderId { client: ALICE, attempt };
        RenewLease::new(name(of), id, TTL, Mode::Exclusive)
    };
    let leases = vec![lease(1, "a"), lease(2, "b"), lease(3, "c")];
    let Reply::Many(renewed) = store.execute(Operation::Renew(leases)).await.unwrap().reply else {
        panic!("not many")
    };
    let is_held: Vec<_> = renewed.iter().map(|reply| matches!(reply, Reply::Granted(_))).collect();
    assert_eq!(is_held, [true, false, true], "{renewed:?}");

    let list = Operation::List { prefix: String::new(), limit: 9, idle: true };
    let Reply::Names(names) = store.execute(list).await.unwrap().reply else { panic!("no names") };
    assert_eq!(names, [name("a"), name("c")]);
    let inspect = Operation::On { name: name("b"), action: Action::Inspect { limit: 1 } };
    let error = store.execute(inspect).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("\"b\"") && text.contains("delete its row"), "{text}");

    // Tidying goes on behind it.
    on(&store, "c", release(ALICE, 3)).await;
    place.clock.advance(TTL + 2 * RULES.retention);
    while place.record(&name("c")).is_some() {
        on(&store, "other", Action::Inspect { limit: 1 }).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_number_of_the_store_that_cannot_be_is_refused() {
    let place = Place::new();
    let store = place.open();
    let connection = Connection::open(place.path()).unwrap();
    let sql = "UPDATE number SET value = ?1 WHERE name = 'highest_token_us'";
    for number in [-1, i64::MIN, i64::MAX] {
        connection.execute(sql, [number]).unwrap();
        let operation = Operation::On { name: name("a"), action: acquire(ALICE, 1, true) };
        let error = store.execute(operation).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{number}: {error}");
    }
    connection.execute(sql, [7]).unwrap();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
}
