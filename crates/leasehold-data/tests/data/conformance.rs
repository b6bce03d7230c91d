//! The promises of every store of data, through the library.
#![cfg(all(feature = "file", feature = "redis"))]

use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::fence::Fence;
use leasehold::{Error, FencingToken, LockName};
use leasehold_data::store::REDIS_RIGHTS;
use leasehold_data::{Data, StockOutcome};
use leasehold_testkit::{RedisServer, SentinelFleet};

const MINUTE: Duration = Duration::from_secs(60);

fn fence(token: u64) -> Fence {
    let token = FencingToken::from_number(token).unwrap();
    Fence { lock: LockName::new("lock").unwrap(), token }
}

fn deducted(note: &str, again: bool) -> StockOutcome {
    StockOutcome::Deducted { note: note.to_owned(), again }
}

async fn an_order_is_deducted_once_and_all_or_nothing(data: Data) {
    let stock = data.stock("shop");
    stock.restock("delivery", [("lamp", 2), ("bulb", 5)]).await.unwrap();
    stock.restock("delivery", [("lamp", 2), ("bulb", 5)]).await.unwrap();
    let first = stock.clone().note("no. 1").deduct("o1", [("bulb", 4), ("lamp", 1)]).await;
    assert_eq!(first.unwrap(), deducted("no. 1", false));
    let again = stock.clone().note("no. 2").deduct("o1", [("lamp", 1), ("bulb", 4)]).await;
    assert_eq!(again.unwrap(), deducted("no. 1", true), "the first note");
    let short = stock.deduct("o2", [("lamp", 1), ("bulb", 2)]).await.unwrap();
    assert_eq!(short, StockOutcome::Short { item: "bulb".to_owned(), available: 1 });
    assert_eq!(stock.levels(["lamp", "bulb", "none"]).await.unwrap(), [1, 1, 0]);
}

async fn an_id_that_was_used_for_something_else_is_refused(data: Data) {
    let stock = data.stock("shop");
    stock.restock("d1", [("lamp", 9)]).await.unwrap();
    stock.deduct("o1", [("lamp", 1)]).await.unwrap();
    for refused in [
        stock.deduct("o1", [("lamp", 2)]).await.map(drop),
        stock.deduct("d1", [("lamp", 9)]).await.map(drop),
        stock.restock("o1", [("lamp", 1)]).await,
        stock.cancel("d1").await.map(drop),
    ] {
        let Err(Error::Store(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), StoreErrorKind::Mismatch);
    }
    assert_eq!(stock.level("lamp").await.unwrap(), 8);
}

async fn a_cancelled_order_gives_back_once_and_stays_cancelled(data: Data) {
    let stock = data.stock("shop");
    stock.restock("d1", [("lamp", 3)]).await.unwrap();
    stock.deduct("o1", [("lamp", 3)]).await.unwrap();
    for _ in 0..2 {
        assert_eq!(stock.cancel("o1").await.unwrap(), StockOutcome::Returned);
    }
    assert_eq!(stock.level("lamp").await.unwrap(), 3);
    assert_eq!(stock.deduct("o1", [("lamp", 3)]).await.unwrap(), StockOutcome::Returned);
    // A cancel that arrives before its order.
    assert_eq!(stock.cancel("o2").await.unwrap(), StockOutcome::Returned);
    assert_eq!(stock.deduct("o2", [("lamp", 1)]).await.unwrap(), StockOutcome::Returned);
    assert_eq!(stock.level("lamp").await.unwrap(), 3);
}

async fn a_reservation_is_confirmed_or_returns_by_itself(data: Data) {
    let stock = data.stock("shop");
    stock.restock("d1", [("lamp", 2)]).await.unwrap();
    let reserved = stock.reserve("o1", [("lamp", 1)], MINUTE).await.unwrap();
    assert!(matches!(reserved, StockOutcome::Reserved { again: false, left: MINUTE, .. }));
    assert_eq!(stock.confirm("o1").await.unwrap(), deducted("", false));
    assert_eq!(stock.confirm("o1").await.unwrap(), deducted("", true));
    let short = Duration::from_millis(10);
    stock.reserve("o2", [("lamp", 1)], short).await.unwrap();
    while stock.level("lamp").await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stock.confirm("o2").await.unwrap(), StockOutcome::Returned, "too late");
    assert_eq!(stock.confirm("o3").await.unwrap(), StockOutcome::Unknown);
    assert_eq!(stock.level("lamp").await.unwrap(), 1);
}

/// They are more than one step returns to the shelf.
async fn the_pieces_of_many_reservations_that_have_ended_are_all_there_at_once(data: Data) {
    let (stock, clock, span) = (data.stock("shop"), data.stock("clock"), Duration::from_secs(1));
    stock.restock("d1", [("bulb", 200), ("lamp", 1)]).await.unwrap();
    clock.restock("d1", [("tick", 1)]).await.unwrap();
    for order in 0..200 {
        stock.reserve(format!("b{order}"), [("bulb", 1)], span).await.unwrap();
    }
    stock.reserve("o1", [("lamp", 1)], span).await.unwrap();
    clock.reserve("o1", [("tick", 1)], span).await.unwrap();
    while clock.level("tick").await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stock.deduct("o2", [("lamp", 1)]).await.unwrap(), deducted("", false));
    assert_eq!(stock.level("bulb").await.unwrap(), 200);
}

async fn a_step_under_an_older_token_is_refused_and_changes_nothing(data: Data) {
    let stock = data.stock("shop");
    stock.restock("d1", [("lamp", 5)]).await.unwrap();
    let (old, new) = (stock.clone().guarded(fence(5)), stock.clone().guarded(fence(6)));
    assert!(old.deduct("o1", [("lamp", 1)]).await.unwrap().is_taken());
    assert_eq!(new.level("lamp").await.unwrap(), 4, "installs before it reads");
    let error = old.deduct("o2", [("lamp", 1)]).await.unwrap_err();
    let Error::Fenced { token, newest, .. } = error else { panic!("{error:?}") };
    assert_eq!((token.get(), newest.get()), (5, 6));
    assert_eq!(new.level("lamp").await.unwrap(), 4);
    assert!(stock.deduct("o3", [("lamp", 1)]).await.unwrap().is_taken(), "without a fence");
}

/// Their tokens differ by one, and are too large for a double to distinguish.
async fn the_next_holder_of_a_passed_lease_fences_the_one_before(data: Data) {
    let grant = FencingToken::from_micros(1_800_000_000_000_001);
    let tokens = [0, 1, 2].map(|times| grant.passed_on(times).unwrap().get());
    assert!(tokens.windows(2).all(|pair| pair[0] as f64 == pair[1] as f64));
    let stock = data.stock("shop");
    stock.restock("d1", [("lamp", 5)]).await.unwrap();
    for (at, token) in tokens.into_iter().enumerate() {
        assert_eq!(stock.clone().guarded(fence(token)).level("lamp").await.unwrap(), 5);
        for &before in &tokens[..at] {
            let late = stock.clone().guarded(fence(before)).deduct("o1", [("lamp", 1)]).await;
            assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
        }
    }
}

async fn numbers_come_once_whichever_process_asks(data: Data) {
    let mut all = Vec::new();
    let takers = (0..4u64).map(|taker| {
        let numbers = data.numbers("orders").block(1 + taker * 7);
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for _ in 0..200 {
                taken.push(numbers.next().await.unwrap());
            }
            assert!(taken.is_sorted());
            taken
        })
    });
    for taker in takers.collect::<Vec<_>>() {
        all.extend(taker.await.unwrap());
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 800);
}

async fn short_numbers_count_from_one_and_dated_ones_show_their_day(data: Data) {
    let short = data.numbers("short").short().width(4);
    assert_eq!(short.next().await.unwrap().to_string(), "0001");
    assert_eq!(short.next().await.unwrap().value(), 2);
    let dated = data.numbers("dated").dated(480).width(10).next().await.unwrap().to_string();
    assert!(dated.starts_with("20") && dated.len() == 19 && &dated[8..9] == "-", "{dated}");
    let Err(Error::Store(error)) = data.numbers("dated").next().await else { panic!() };
    assert_eq!(error.kind(), StoreErrorKind::Mismatch);
    let strict = data.numbers("strict").strictly_increasing();
    let other = data.numbers("strict").strictly_increasing();
    let mut last = strict.next().await.unwrap();
    for round in 0..100 {
        let next = if round % 2 == 0 { &other } else { &strict }.next().await.unwrap();
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

async fn bad_input_is_refused_in_one_clear_line(data: Data) {
    let stock = data.stock("shop");
    let (tiny, long) = (Duration::from_millis(1), "x".repeat(300));
    let many: Vec<(String, u64)> = (0..65).map(|item| (item.to_string(), 1)).collect();
    for (refused, words) in [
        (data.stock("").level("a").await.map(drop), "stock is empty"),
        (stock.deduct("", [("lamp", 1)]).await.map(drop), "order is empty"),
        (stock.deduct("o", [("a\tb", 1)]).await.map(drop), "control character"),
        (stock.deduct("o", [("lamp", 0)]).await.map(drop), "0 pieces of lamp"),
        (stock.deduct("o", [("lamp", u64::MAX)]).await.map(drop), "give 1 to 1000000000"),
        (stock.deduct("o", [("lamp", 1), ("lamp", 2)]).await.map(drop), "twice"),
        (stock.deduct("o", Vec::<(&str, u64)>::new()).await.map(drop), "0 items"),
        (stock.deduct("o", many).await.map(drop), "65 items"),
        (stock.reserve("o", [("lamp", 1)], tiny).await.map(drop), "give 10ms to"),
        (stock.clone().remember(tiny).cancel("o").await.map(drop), "`remember` is 1ms"),
        (stock.clone().note(&long).deduct("o", [("a", 1)]).await.map(drop), "note has 300 bytes"),
        (data.numbers("n").block(0).next().await.map(drop), "a block of 0"),
        (data.numbers("n").block(20_001).next().await.map(drop), "give 1 to 20000"),
        (data.numbers("n").per_second(0).next().await.map(drop), "0 numbers per second"),
        (data.numbers("n").width(17).next().await.map(drop), "17 digits"),
        (data.numbers("n").dated(9000).next().await.map(drop), "9000 minutes"),
    ] {
        let Err(Error::Invalid(invalid)) = refused else { panic!("{words}: {refused:?}") };
        let line = invalid.to_string();
        assert!(line.contains(words) && line.lines().count() == 1, "{words}: {line}");
    }
    assert_eq!(stock.level("lamp").await.unwrap(), 0);
}

#[tokio::test]
async fn the_documented_rights_are_enough_and_nothing_else_is_tried() {
    let user = format!("clerk on >secret {REDIS_RIGHTS}");
    let server = RedisServer::options().user(&user).start().unwrap();
    let data = Data::connect(server.url_as("clerk", "secret")).await.unwrap();
    an_order_is_deducted_once_and_all_or_nothing(data.clone()).await;
    numbers_come_once_whichever_process_asks(data).await;
    assert!(server.acl_log().unwrap().is_empty(), "{:?}", server.acl_log());
}

/// Every promise, each on a new store.
macro_rules! promises {
    ($($promise:ident,)*) => {
        mod file {
            $(#[tokio::test]
            async fn $promise() {
                let directory = tempfile::tempdir().unwrap();
                let url = format!("file:{}/locks.db", directory.path().display());
                super::$promise(leasehold_data::Data::connect(url).await.unwrap()).await;
            })*
        }

        mod memory {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(leasehold_data::Data::memory()).await;
            })*
        }

        mod redis {
            $(#[tokio::test]
            async fn $promise() {
                let server = super::RedisServer::start().unwrap();
                let url = server.patient_url();
                super::$promise(leasehold_data::Data::connect(url).await.unwrap()).await;
            })*
        }

        mod sentinel {
            $(#[tokio::test]
            async fn $promise() {
                let fleet = super::SentinelFleet::start().unwrap();
                super::$promise(leasehold_data::Data::connect(fleet.url()).await.unwrap()).await;
            })*
        }
    };
}

promises! {
    a_cancelled_order_gives_back_once_and_stays_cancelled,
    a_reservation_is_confirmed_or_returns_by_itself,
    the_pieces_of_many_reservations_that_have_ended_are_all_there_at_once,
    a_step_under_an_older_token_is_refused_and_changes_nothing,
    an_id_that_was_used_for_something_else_is_refused,
    an_order_is_deducted_once_and_all_or_nothing,
    bad_input_is_refused_in_one_clear_line,
    numbers_come_once_whichever_process_asks,
    the_next_holder_of_a_passed_lease_fences_the_one_before,
    short_numbers_count_from_one_and_dated_ones_show_their_day,
}
