//! Things that happen at the same moment.
#![cfg(feature = "redis")]

use std::sync::Arc;
use std::time::Duration;

use leasehold::time::FakeClock;
use leasehold_data::store::Memory;
use leasehold_data::{Data, StockOutcome};
use leasehold_testkit::RedisServer;

/// A confirmation that races with the end of its reservation: whichever comes first, the piece
/// belongs to the order or is on the shelf.
async fn race(data: &Data, round: u32, pause: Duration) {
    let stock = data.stock("shop");
    let (order, item) = (format!("order {round}"), format!("lamp {round}"));
    stock.restock(format!("delivery {round}"), [(&item, 1)]).await.unwrap();
    stock.reserve(&order, [(&item, 1)], Duration::from_millis(10)).await.unwrap();
    tokio::time::sleep(pause).await;
    let other = format!("other {round}");
    let (confirmed, taken) =
        tokio::join!(stock.confirm(&order), stock.deduct(&other, [(&item, 1)]));
    let (confirmed, taken) = (confirmed.unwrap().is_taken(), taken.unwrap().is_taken());
    assert!(!(confirmed && taken), "round {round}: one piece was given to two orders");
    let left = stock.level(&item).await.unwrap();
    assert_eq!(left, u64::from(!confirmed && !taken), "round {round}");
}

#[tokio::test]
async fn a_piece_has_one_owner_when_a_confirmation_races_with_expiry() {
    let server = RedisServer::start().unwrap();
    for data in [Data::memory(), Data::connect(server.patient_url()).await.unwrap()] {
        for round in 0..60 {
            race(&data, round, Duration::from_micros(7_000 + u64::from(round) * 100)).await;
        }
    }
}

#[tokio::test]
async fn a_confirmation_at_the_last_microsecond_counts_and_the_next_one_does_not() {
    let clock = FakeClock::new();
    let stock = Data::new(Memory::with_clock(clock.clone())).stock("shop");
    stock.restock("delivery", [("lamp", 2)]).await.unwrap();
    let span = Duration::from_secs(1);
    for order in ["in time", "late"] {
        stock.reserve(order, [("lamp", 1)], span).await.unwrap();
    }
    clock.advance(span - Duration::from_micros(1));
    assert!(stock.confirm("in time").await.unwrap().is_taken());
    clock.advance(Duration::from_micros(1));
    assert_eq!(stock.confirm("late").await.unwrap(), StockOutcome::Returned);
    assert_eq!(stock.level("lamp").await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_for_one_order_at_once_get_one_deduction() {
    let server = RedisServer::start().unwrap();
    for data in [Data::memory(), Data::connect(server.patient_url()).await.unwrap()] {
        let stock = Arc::new(data.stock("shop"));
        stock.restock("delivery", [("lamp", 50)]).await.unwrap();
        let callers = (0..400u32).map(|caller| {
            let stock = Arc::clone(&stock);
            tokio::spawn(async move {
                stock.deduct(format!("order {}", caller % 100), [("lamp", 1)]).await.unwrap()
            })
        });
        let (mut first, mut again, mut short) = (0, 0, 0);
        for caller in callers.collect::<Vec<_>>() {
            match caller.await.unwrap() {
                StockOutcome::Deducted { again: false, .. } => first += 1,
                StockOutcome::Deducted { again: true, .. } => again += 1,
                StockOutcome::Short { .. } => short += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(first, 50);
        assert_eq!(again + short, 350);
        assert_eq!(stock.level("lamp").await.unwrap(), 0);
    }
}
