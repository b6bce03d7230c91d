//! Damaged records are refused, and what is not refused can be reckoned with.

use leasehold_core::backoff::Jitter;
use leasehold_core::model;
use leasehold_core::{Now, RenewLease};

use super::history::History;
use super::*;
use crate::store::file::record::LAYOUT;
use crate::store::file::writing::Writing;

fn start() -> Now {
    Now { lease_us: 1_000_000_000, token_us: 1_767_225_600_000_000 }
}

/// Fills a database with what random histories leave, of few clients and of crowds. Gives when each
/// has ended.
fn fill(writing: &Writing<'_>, random: &mut Jitter) -> Vec<(LockName, Now)> {
    let fill = |number: u64| {
        let crowd = number.is_multiple_of(2).then_some(40);
        let mut history = History::new(random.next_u64(), crowd);
        let (name, mut now) = (name(&format!("{number}")), start());
        for _ in 0..history.below(120) {
            now.lease_us += history.pause_us();
            now.token_us += 1 + history.below(200_000);
            let action = history.action(now.lease_us);
            writing.edit(&name, |record, _| Ok(model::step(record, now, RULES, &action))).unwrap();
        }
        (name, now)
    };
    (0..40).map(fill).collect()
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

/// Damages one row of a name, or removes it. False if there is none.
fn damage_a_row(writing: &Writing<'_>, name: &LockName, random: &mut Jitter) -> bool {
    let rows = writing.sql(|transaction| {
        let sql = "SELECT 0, x'', record FROM lock WHERE name = ?1
            UNION ALL SELECT kind, key, value FROM lock_row WHERE name = ?1";
        let mut statement = transaction.prepare_cached(sql)?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let rows = statement.query_map([name.as_str()], row)?;
        rows.collect::<rusqlite::Result<Vec<(u8, Vec<u8>, Vec<u8>)>>>()
    });
    let rows = rows.unwrap();
    if rows.is_empty() {
        return false;
    }
    let (kind, key, mut bytes) = rows[random.next_u64() as usize % rows.len()].clone();
    let is_removed = kind > 0 && random.next_u64().is_multiple_of(4);
    damage(&mut bytes, random);
    let name = name.as_str();
    let done = writing.sql(|transaction| match kind {
        0 => transaction.execute("UPDATE lock SET record = ?2 WHERE name = ?1", (name, bytes)),
        _ if is_removed => {
            let sql = "DELETE FROM lock_row WHERE name = ?1 AND kind = ?2 AND key = ?3";
            transaction.execute(sql, (name, kind, key))
        }
        _ => {
            let sql = "UPDATE lock_row SET value = ?4 WHERE name = ?1 AND kind = ?2 AND key = ?3";
            transaction.execute(sql, (name, kind, key, bytes))
        }
    });
    done.unwrap() == 1
}

#[test]
fn a_damaged_record_is_refused_or_can_be_reckoned_with() {
    const MUTATIONS: u32 = 20_000;
    let place = Place::new();
    drop(place.open());
    let location = Location::check(&place.path()).unwrap();
    let mut connection = Connection::open(place.path()).unwrap();
    let writing = Writing::new(connection.transaction().unwrap(), &location, "first", RULES);
    let mut random = Jitter::new(20_260_214);
    let names = fill(&writing, &mut random);
    let run = |sql: &str| writing.sql(|transaction| transaction.execute_batch(sql)).unwrap();
    let (mut refused, mut read) = (0, 0);
    for _ in 0..MUTATIONS {
        let (name, end) = &names[random.next_u64() as usize % names.len()];
        run("SAVEPOINT whole");
        if damage_a_row(&writing, name, &mut random) {
            // Steps are built with checks for overflow here.
            let mut history = History::later(random.next_u64());
            let mut result = Ok(());
            for later_us in [0, 1, 1_000_000, 60_000_000, 1 << 50] {
                let now = Now { lease_us: end.lease_us + later_us, ..start() };
                let action = history.action(now.lease_us);
                result = result.and(writing.edit(name, |record, _| {
                    model::step(record, now, RULES, &action);
                    model::reap(record, now, RULES, ClientId(history.below(40).into()));
                    Ok(())
                }));
            }
            match result {
                Ok(()) => read += 1,
                Err(_) => refused += 1,
            }
        }
        run("ROLLBACK TO whole; RELEASE whole");
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
    let connection = Connection::open(place.path()).unwrap();
    let lease = |attempt, of| {
        let id = HolderId { client: ALICE, attempt };
        RenewLease::new(name(of), id, TTL, Mode::Exclusive)
    };
    let leases = vec![lease(1, "a"), lease(2, "b"), lease(3, "c")];
    // Of another release, and then of this one and cut.
    for layout in [LAYOUT + 4, LAYOUT] {
        let read = "SELECT record FROM lock WHERE name = 'b'";
        let mut record: Vec<u8> = connection.query_row(read, [], |row| row.get(0)).unwrap();
        record[0] = layout;
        record.truncate(20);
        connection.execute("UPDATE lock SET record = ?1 WHERE name = 'b'", [record]).unwrap();
        let renew = Operation::Renew(leases.clone());
        let Reply::Many(renewed) = store.execute(renew).await.unwrap().reply else {
            panic!("not many")
        };
        let renewed: Vec<_> =
            renewed.iter().map(|reply| matches!(reply, Reply::Granted(_))).collect();
        assert_eq!(renewed, [true, false, true], "{layout}");
    }

    let list = Operation::List { prefix: String::new(), limit: 9, idle: true };
    let Reply::Names(names) = store.execute(list).await.unwrap().reply else { panic!("no names") };
    assert_eq!(names, [name("a"), name("b"), name("c")]);
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
