//! What may befall a server, each time while 16 clients take 1,000 names.

use leasehold_testkit::harness::try_until;
use leasehold_testkit::{Contenders, RedisOptions, RedisServer};
use redis::{RedisError, RedisResult};

use crate::contend::Memory;
use crate::scene::SHORT;

/// How often it happens.
const TIMES: usize = 3;

/// Further than any lease of these tests lasts.
const HOUR_S: f64 = 3_600.0;

/// How many keys a server evicts: mostly those of locks, because they expire first.
const EVICTED: u64 = 1_000;

/// The room of an evicting server, and a value that it keeps in it until it evicts it.
const ROOM: u64 = 4 << 20;
const FILLER: [u8; 10_000] = [b'x'; 10_000];

type Harm = fn(&RedisServer) -> RedisResult<()>;

/// What happens to which server, whether it forgets leases then, and how it happens.
fn harms() -> [(&'static str, RedisOptions, Memory, Harm); 6] {
    let (usual, set) = (RedisServer::options(), RedisServer::options().own_clock());
    let evicts = RedisServer::options().line("maxmemory-policy volatile-ttl");
    [
        ("a flush", usual.clone(), Memory::Lost, |server| server.command("FLUSHALL")),
        ("no counter", usual.clone(), Memory::Kept, |server| server.command("DEL lh:%token")),
        ("a pause", usual, Memory::Kept, |server| server.command("DEBUG SLEEP 3")),
        ("set back", set.clone(), Memory::Kept, |server| Ok(server.set_clock(-HOUR_S, 1.0)?)),
        ("set forward", set, Memory::Lost, |server| Ok(server.set_clock(HOUR_S, 1.0)?)),
        ("eviction", evicts, Memory::Lost, evict),
    ]
}

fn evict(server: &RedisServer) -> RedisResult<()> {
    server.command::<()>("CONFIG RESETSTAT")?;
    let used = server.number("memory", "used_memory:")?;
    server.command::<()>(&format!("CONFIG SET maxmemory {}", used + ROOM))?;
    let (mut connection, mut number) = (server.connection()?, 0);
    try_until("keys are evicted", || {
        for _ in 0..100 {
            number += 1;
            redis::cmd("SETEX")
                .arg(number)
                .arg(HOUR_S as u64)
                .arg(&FILLER[..])
                .exec(&mut connection)?;
        }
        Ok::<_, RedisError>(server.number("stats", "evicted_keys:")? >= EVICTED)
    })?;
    server.command("CONFIG SET maxmemory 0")
}

/// C5, C9, C11, I1, I2; and the counter of all tokens is deleted, which costs nothing at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_thousand_names_grow_whatever_happens_to_their_server() {
    for (what, options, memory, harm) in harms() {
        println!("{what}");
        let server = options.start().unwrap();
        let contenders = Contenders::walk(&server.url(), "", SHORT).await;
        contenders.take_all().await;
        for _ in 0..TIMES {
            harm(&server).unwrap();
            contenders.go_round().await;
        }
        contenders.take_all().await;
        contenders.histories().await.iter().for_each(|history| memory.judge(history));
    }
}
