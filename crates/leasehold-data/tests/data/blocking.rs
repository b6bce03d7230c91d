//! The blocking data parts do the same as the async ones.

use leasehold::Error;
use leasehold::blocking::Client;
use leasehold_data::blocking::Data;
use leasehold_data::store::Memory;

/// An older and a newer holder of one name.
fn two_holders() -> (leasehold::blocking::Guard, leasehold::blocking::Guard) {
    let client = Client::memory();
    let older = client.mutex("tea").acquire().unwrap();
    assert!(client.admin().revoke_now(older.name(), older.token()).unwrap());
    let newer = client.mutex("tea").acquire().unwrap();
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
fn numbers_grow_and_an_overtaken_holder_deducts_nothing() {
    let data = Data::new(Memory::new());
    let numbers = data.numbers("invoice").strictly_increasing();
    let (first, second) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(first.value() < second.value());

    let (older, newer) = two_holders();
    let stock = data.stock("shop");
    assert_eq!(stock.clone().guarded(&newer).level("tea").unwrap(), 0);
    let late = stock.guarded(&older).restock("monday", [("tea", 3)]);
    assert!(matches!(late, Err(Error::Fenced { .. })));
}
