//! The blocking data parts do the same as the async ones.

use leasehold::blocking::Client;
use leasehold::{Error, Result};
use leasehold_data::Progress;
use leasehold_data::blocking::Data;
use leasehold_data::store::Memory;

/// An older and a newer holder of one name.
fn two_holders() -> (leasehold::blocking::Guard, leasehold::blocking::Guard) {
    let client = Client::memory();
    let older = client.mutex("drain").acquire().unwrap();
    assert!(client.admin().revoke_now(older.name(), older.token()).unwrap());
    let newer = client.mutex("drain").acquire().unwrap();
    (older, newer)
}

#[test]
fn stock_is_deducted_once_and_never_below_zero() {
    let stock = Data::memory().stock("shop");
    stock.restock("monday", [("tea", 3)]).unwrap();
    assert!(stock.deduct("order-1", [("tea", 2)]).unwrap().is_taken());
    assert!(stock.deduct("order-1", [("tea", 2)]).unwrap().is_taken());
    assert!(!stock.deduct("order-2", [("tea", 2)]).unwrap().is_taken());
    assert_eq!(stock.level("tea").unwrap(), 1);
    assert!(stock.cancel("order-1").is_ok());
}

#[test]
fn numbers_grow_and_a_cell_keeps_what_the_newest_holder_wrote() {
    let data = Data::new(Memory::new());
    let numbers = data.numbers("invoice").strictly_increasing();
    let (first, second) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(first.value() < second.value());

    let (older, newer) = two_holders();
    let cell = data.cell("balance");
    cell.open(&newer).unwrap().write("new").unwrap();
    assert!(matches!(cell.open(&older), Err(Error::Fenced { .. })));
    assert_eq!(cell.read().unwrap().value, b"new");
}

#[test]
fn a_queue_is_drained_by_blocking_work_and_tells_each_producer_its_result() {
    let data = Data::new(Memory::new());
    let (_, newer) = two_holders();
    let queue = data.queue("mail");
    queue.push("a", "hello").unwrap();
    let done: Result<u64> = queue.open(&newer).drain(|entry| {
        // The work may use blocking parts itself.
        data.stock("other").level("item")?;
        Ok(entry.payload.to_ascii_uppercase())
    });
    assert_eq!(done.unwrap(), 1);
    assert_eq!(queue.result("a").unwrap(), b"HELLO");
    assert!(matches!(queue.progress("a").unwrap(), Some(Progress::Done(_))));
}
