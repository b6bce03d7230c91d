//! A service of sentinels does what every store must do, for a user with the rights of the
//! documentation's holder and operator, no more.

use leasehold::store::Redis;
use leasehold_testkit::{
    LeastPrivilege, RedisServer, SentinelFleet, Subject, conformance, must, options_of,
};

async fn make() -> Subject {
    let rights = format!("{} {}", Redis::HOLDER_RIGHTS, Redis::OPERATOR_RIGHTS);
    let servers = RedisServer::options().user(&format!("both on >secret {rights}"));
    let fleet = must(SentinelFleet::start_with(servers, &[100], RedisServer::options()));
    let store = must(
        Redis::open(options_of(&format!("{}?timeout=20s", fleet.url_as("both", "secret")))).await,
    );
    Subject::real(store, LeastPrivilege(fleet))
}

conformance!(together make());
