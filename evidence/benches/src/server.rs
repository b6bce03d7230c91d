//! What a Redis server reports about its work.

use std::time::Duration;

use leasehold_testkit::RedisServer;

use crate::outcome::Outcome;

/// Starts a private server without persistence that takes thousands of clients.
pub(crate) fn start() -> Outcome<RedisServer> {
    Ok(RedisServer::options().line("maxclients 15000").start()?)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    scripts: u64,
    /// Commands of all kinds, also those that scripts call.
    commands: u64,
    /// Time spent in scripts and `SET`, for clients that send no `SET` from a script.
    pub(crate) inside: Duration,
    /// Processor time of the server.
    pub(crate) cpu: Duration,
    /// Bytes it has allocated.
    pub(crate) memory: u64,
}

/// The work between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) scripts: u64,
    /// Commands of all kinds, also those that scripts call.
    pub(crate) commands: u64,
    /// Processor time, with all reading and writing of sockets.
    pub(crate) cpu: Duration,
    /// By how many bytes the server has grown.
    pub(crate) grown: i64,
}

impl Work {
    /// Asks a server.
    pub(crate) fn of(server: &RedisServer) -> Outcome<Self> {
        let (scripts, script_us) = server.command_stats("evalsha")?;
        let (_, set_us) = server.command_stats("set")?;
        let (cpu, memory) = (server.info("cpu")?, server.info("memory")?);
        let stats = server.info("stats")?;
        let seconds = field(&cpu, "used_cpu_sys")? + field(&cpu, "used_cpu_user")?;
        Ok(Self {
            scripts,
            commands: field(&stats, "total_commands_processed")? as u64,
            inside: Duration::from_micros(script_us + set_us),
            cpu: Duration::from_secs_f64(seconds),
            memory: field(&memory, "used_memory")? as u64,
        })
    }

    pub(crate) fn since(self, then: Self) -> Done {
        Done {
            scripts: self.scripts - then.scripts,
            commands: self.commands - then.commands,
            cpu: self.cpu.saturating_sub(then.cpu),
            grown: self.memory as i64 - then.memory as i64,
        }
    }
}

/// A number in the answer to `INFO`.
pub(crate) fn field(info: &str, name: &str) -> Outcome<f64> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.ok_or_else(|| format!("INFO has no {name}"))?.trim().parse()?)
}
