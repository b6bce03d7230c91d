//! What waits to be sent, while something else is out.
//!
//! A request that finds nothing out goes at once, alone, straight to the driver. One that finds
//! something out goes to a task, which lets everybody run who is ready and then sends all that has
//! come meanwhile, in as few calls as may carry it. It waits for nobody, and for no reply.

use std::io;
use std::mem;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::bundle::{self, MOST_IN_A_CALL, bundles};
use super::call::Request;

/// The most requests that are sent at once: 256, some 40 kB. The next ones are sent right behind.
const MOST_AT_ONCE: usize = 256;

/// A request that waits to be sent.
struct Item {
    request: Arc<Request>,
    answer: oneshot::Sender<RedisResult<Value>>,
    _out: Arc<()>,
}

impl AsRef<Request> for Item {
    fn as_ref(&self) -> &Request {
        &self.request
    }
}

/// The way of requests to one connection.
#[derive(Default)]
pub(super) struct Outbox {
    /// To the task, once there is one.
    queue: OnceLock<UnboundedSender<Item>>,
    /// Its other handles are held by what is out: what was sent and not answered, or waits.
    out: Arc<()>,
}

impl Outbox {
    /// Sends a request on the calling runtime and gives the reply, which may be a refusal.
    pub(super) async fn send(
        &self,
        connection: &MultiplexedConnection,
        request: &Arc<Request>,
    ) -> RedisResult<Value> {
        let out = Arc::clone(&self.out);
        // The two are the outbox and this request.
        if Arc::strong_count(&self.out) == 2 {
            return connection.clone().send_packed_command(&request.command()).await;
        }
        let queue = self.queue.get_or_init(|| {
            let (queue, items) = unbounded_channel();
            tokio::spawn(work(connection.clone(), items));
            queue
        });
        let (answer, reply) = oneshot::channel();
        let item = Item { request: Arc::clone(request), answer, _out: out };
        queue.send(item).map_err(|_| closed())?;
        reply.await.map_err(|_| closed())?
    }
}

/// The connection was given up.
fn closed() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// Sends what comes until nobody can send any more.
async fn work(connection: MultiplexedConnection, mut queue: UnboundedReceiver<Item>) {
    let (mut ready, mut flying) = (Vec::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            biased;
            Some(()) = flying.next() => continue,
            count = queue.recv_many(&mut ready, MOST_AT_ONCE) => if count == 0 { return },
        }
        // Whoever is woken runs next, before others who are ready: here it steps behind them.
        yield_now().await;
        while ready.len() < MOST_AT_ONCE
            && let Ok(item) = queue.try_recv()
        {
            ready.push(item);
        }
        // Nobody waits any more for a request that was dropped before it was sent.
        ready.retain(|item| !item.answer.is_closed());
        flying.push(ask(connection.clone(), mem::take(&mut ready)));
        // It is sent now, and not when the next one has come.
        while let Some(Some(())) = flying.next().now_or_never() {}
    }
}

/// Sends requests together, and gives everybody the own reply.
async fn ask(mut connection: MultiplexedConnection, items: Vec<Item>) {
    let mut bundles = bundles(items, MOST_IN_A_CALL);
    while !bundles.is_empty() {
        let mut together = Pipeline::with_capacity(bundles.len());
        for bundle in &bundles {
            together.add_command(bundle::command(bundle));
        }
        match connection.send_packed_commands(&together, 0, bundles.len()).await {
            Ok(replies) => bundles = hand_out(bundles, replies),
            Err(failure) => {
                for item in bundles.into_iter().flatten() {
                    // Whoever asked may have gone.
                    let _ = item.answer.send(Err(failure.clone()));
                }
                return;
            }
        }
    }
}

/// Gives everybody the own reply. Gives back who has to ask alone: a server that refuses a user one
/// key refuses the whole call, before it has done any of it.
fn hand_out(bundles: Vec<Vec<Item>>, replies: Vec<Value>) -> Vec<Vec<Item>> {
    let mut alone = Vec::new();
    for (bundle, reply) in bundles.into_iter().zip(replies) {
        if bundle.len() > 1 && is_no_right(&reply) {
            alone.extend(bundle.into_iter().map(|item| vec![item]));
            continue;
        }
        let replies = bundle::replies(bundle.len(), reply);
        for (item, reply) in bundle.into_iter().zip(replies) {
            let _ = item.answer.send(Ok(reply));
        }
    }
    alone
}

fn is_no_right(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(refusal) if refusal.code() == "NOPERM")
}
