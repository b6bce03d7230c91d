//! A target of fuzzing: the arguments of a script on a server. A script refuses invalid arguments
//! before it writes anything, or leaves a lock that the next script can read.

use std::cell::RefCell;
use std::time::Duration;

use leasehold::store::fuzzing::{Target, scene};
use leasehold::store::redis_wire::Call;
use leasehold_core::Answer;
use redis::{Cmd, Connection, ConnectionLike as _, RedisError, RedisResult, Value};

use crate::{RedisServer, must};

/// Every target that needs a server.
pub const TARGETS: [Target; 1] = [("script_arguments", script_arguments)];

/// How long a script may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a refusal begins.
const REFUSAL: &str = "ARGUMENT";

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new(Server::start());
}

fn script_arguments(bytes: &[u8]) {
    let Some(scene) = scene(bytes) else { return };
    SERVER.with_borrow_mut(|server| {
        must(server.ask(&redis::cmd("FLUSHDB")));
        for call in &scene.before {
            must(server.call(call, &call.args));
        }
        let before = server.dump(&scene.call);
        match server.call(&scene.call, &scene.args) {
            Ok(reply) => drop(scene.call.answer(reply)),
            Err(refusal) => {
                assert_eq!(refusal.code(), Some(REFUSAL), "{refusal}");
                assert_eq!(server.dump(&scene.call), before, "{refusal}");
            }
        }
        for call in &scene.after {
            let answer = call.answer(must(server.call(call, &call.args)));
            // A value that a script only stores, such as a host that is no text, may make an answer
            // unreadable. But a script that finds damage has done nothing, and says so.
            let damage = answer.err().filter(|error| !error.may_have_executed());
            assert!(damage.is_none(), "{damage:?}");
        }
    });
}

/// A private server.
struct Server {
    connection: Connection,
    /// The server ends with this value.
    _redis: RedisServer,
}

impl Server {
    fn start() -> Self {
        let redis = must(RedisServer::start());
        let connection = must(redis.connection());
        must(connection.set_read_timeout(Some(PATIENCE)));
        Self { connection, _redis: redis }
    }

    fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.connection.req_command(command)?.extract_error()
    }

    /// Calls a script with arguments that may differ from those of the call.
    fn call(&mut self, call: &Call<Answer>, args: &[Vec<u8>]) -> RedisResult<Value> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&call.script.sha1).arg(call.keys.len()).arg(&call.keys).arg(args);
        let reply = self.ask(&command);
        let is_unknown = |error: &RedisError| error.code() == Some("NOSCRIPT");
        if !reply.as_ref().is_err_and(is_unknown) {
            return reply;
        }
        self.ask(redis::cmd("SCRIPT").arg("LOAD").arg(&call.script.source))?;
        self.ask(&command)
    }

    /// The values of the keys of a call.
    fn dump(&mut self, call: &Call<Answer>) -> Vec<Value> {
        let dump = |key| must(self.ask(redis::cmd("DUMP").arg(key)));
        call.keys.iter().map(dump).collect()
    }
}
