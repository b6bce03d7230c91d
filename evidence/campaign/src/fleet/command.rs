//! A member that uses only the command: it updates values in a shell that `leasehold run` has
//! started, and between `take` and `give`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold_testkit::{must, worker};
use tokio::runtime::{Builder, Handle};

use super::halt::Halt;
use super::leasehold;
use crate::plan::Plan;
use crate::promise::{Log, now_ns};
use crate::random::Random;
use crate::register::{Register, Written};

/// Prints its token and its guardian, and answers each line as long as it lives.
const SHELL: &str = "echo $LEASEHOLD_TOKEN $PPID; while read line; do echo $line; done";

/// The ttl that a command can keep up on a busy machine, and how long it waits for a lease.
const TTL: &str = "2s";
const WAIT: &str = "3s";

/// leasehold renews its lease in each third of the ttl, and so never sleeps for half of it.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// When a lease of `take` ends, if it is not given back before.
const LIMIT: &str = "3s";

/// How often the member checks whether the shell lives.
const ASK_EVERY: Duration = Duration::from_millis(2);

/// The longest time between reading a value and writing another.
const THOUGHT: Duration = Duration::from_millis(10);

/// How long the member pauses after a failure.
const REST: Duration = Duration::from_millis(50);

/// The expected exit codes: trouble with the store, a busy lock, and a lost lease.
const EXPECTED: [i32; 3] = [69, 75, 76];

/// The job of such a member, with the arguments of every program.
pub(crate) fn work(arguments: &[String]) {
    let [url, protected, log, number, seed, tasks, _, names, capacity] = arguments else {
        panic!("{arguments:?}")
    };
    let directory = Path::new(log).parent().unwrap_or(Path::new("."));
    let log = Arc::new(Log::create(directory, must(number.parse())));
    let runtime = must(Builder::new_multi_thread().worker_threads(1).enable_all().build());
    let register = runtime.block_on(Register::server(must(protected.parse())));
    let mut random = Random::new(must(seed.parse()));
    let (is_over, served) = (Arc::new(AtomicBool::new(false)), Arc::<AtomicU64>::default());
    let threads: Vec<_> = (0..must(tasks.parse::<usize>()))
        .map(|_| {
            let mut task = Task {
                url: url.clone(),
                names: must(names.parse()),
                capacity: capacity.clone(),
                // Files that are left for a moment must not be in the round's directory.
                home: directory.parent().unwrap_or(directory).to_owned(),
                log: Arc::clone(&log),
                register: register.clone(),
                runtime: runtime.handle().clone(),
                random: Random::new(random.seed()),
            };
            let (is_over, served) = (Arc::clone(&is_over), Arc::clone(&served));
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    match task.turn() {
                        Some(()) => drop(served.fetch_add(1, Ordering::Relaxed)),
                        None => thread::sleep(REST),
                    }
                }
            })
        })
        .collect();
    worker::listen();
    is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        assert!(thread.join().is_ok(), "a task failed");
    }
    worker::say(&format!("served {}", served.load(Ordering::Relaxed)));
}

struct Task {
    url: String,
    names: usize,
    capacity: String,
    home: PathBuf,
    log: Arc<Log>,
    register: Register,
    runtime: Handle,
    random: Random,
}

/// A shell that lives at most as long as its lease.
struct Shell {
    /// The `leasehold run` whose command it is.
    command: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Task {
    /// Updates a value in one of two ways; `None` if it did not get the lock.
    fn turn(&mut self) -> Option<()> {
        let name = Plan::register(self.random.below(self.names));
        if self.random.chance(70) { self.run(&name) } else { self.take(&name) }
    }

    /// Updates it next to a shell. As long as the shell lives, nobody else has the lock: the
    /// command promises that, also when leasehold itself is killed. Only when leasehold and its
    /// guardian are both halted, the promise ends.
    fn run(&mut self, name: &str) -> Option<()> {
        let asked = now_ns();
        let mut command = self.leasehold(&["run", "--ttl", TTL, "--wait", WAIT, name]);
        command.args(["--", "sh", "-c", SHELL]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = Shell::start(command);
        let Some((token, guardian)) = shell.token_and_guardian() else {
            self.note(shell.end());
            return None;
        };
        let entered = now_ns();
        let mut halt = Halt::new([shell.command.id(), guardian], LONGEST_SLEEP);
        let guard = self.granted(name, asked, entered, token);
        let (value, old) = self.read(name, token);
        if self.random.chance(10) {
            self.log.event("command-killed");
            must(shell.command.kill());
        }
        let mut known = entered;
        let until = now_ns() + u64::try_from(self.random.up_to(THOUGHT).as_nanos()).unwrap_or(0);
        loop {
            let sent = now_ns();
            if !shell.answers() {
                break;
            }
            if halt.was_on() {
                self.log.event("command-halted");
                break;
            }
            known = sent;
            if sent >= until {
                break;
            }
            thread::sleep(ASK_EVERY);
        }
        self.write(name, token, value, old);
        shell.end();
        if known > entered {
            let capacity = &self.capacity;
            let span = format!("{entered} {known} {token} {capacity} {capacity}");
            self.log.line(&format!("p {name} {guard} {guard} {span}"));
        }
        self.log.event("command-run");
        Some(())
    }

    /// Updates it between `take` and `give`. The script does not learn of a loss, so only the token
    /// protects the value.
    fn take(&mut self, name: &str) -> Option<()> {
        let (asked, pid) = (now_ns(), std::process::id().to_string());
        let log = self.home.join("take.log").display().to_string();
        let until = ["--for", LIMIT, "--pid", &pid, "--log", &log, "--json"];
        let mut take = self.leasehold(&["take", "--ttl", TTL, "--wait", WAIT, name]);
        let taken = must(take.args(until).output());
        if !taken.status.success() {
            self.note(taken.status.code());
            return None;
        }
        let entered = now_ns();
        let told: serde_json::Value = must(serde_json::from_slice(&taken.stdout));
        let token = must(told["names"][0]["token"].as_str().unwrap_or_default().parse());
        self.granted(name, asked, entered, token);
        let (value, old) = self.read(name, token);
        thread::sleep(self.random.up_to(THOUGHT));
        self.write(name, token, value, old);
        let handle = told["handle"].as_str().unwrap_or_default();
        let given = must(self.leasehold(&["give", handle]).status());
        if !given.success() {
            self.note(given.code());
        }
        self.log.event("command-take");
        Some(())
    }

    fn leasehold(&self, words: &[&str]) -> Command {
        let mut command = Command::new(leasehold());
        command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
        command.env("LEASEHOLD_STORE", &self.url).env("XDG_RUNTIME_DIR", &self.home);
        command
    }

    /// Records a grant, with one number for its guard and its attempt.
    fn granted(&self, name: &str, asked: u64, entered: u64, token: u64) -> u64 {
        let guard = self.log.fresh(0);
        self.log.line(&format!("g {name} {guard} {asked} {entered} {token} {guard} 1"));
        guard
    }

    fn read(&mut self, name: &str, token: u64) -> (u64, Option<u64>) {
        let value = self.log.fresh(0);
        self.log.invoked(name, value, token);
        (value, self.runtime.block_on(self.register.read(name, token)))
    }

    fn write(&mut self, name: &str, token: u64, value: u64, old: Option<u64>) {
        let write = self.register.write(name, token, value);
        match old {
            Some(old) if self.runtime.block_on(write) == Written::Yes => {
                self.log.returned(value, old);
            }
            _ => self.log.refused(value),
        }
    }

    fn note(&self, code: Option<i32>) {
        match code {
            Some(code) if EXPECTED.contains(&code) => self.log.event(&format!("command-{code}")),
            code => self.log.violation(&format!("I12 the command ended with {code:?}")),
        }
    }
}

impl Shell {
    fn start(mut command: Command) -> Self {
        let mut command = must(command.spawn());
        let (Some(input), Some(output)) = (command.stdin.take(), command.stdout.take()) else {
            panic!("a command without pipes")
        };
        Self { command, input, output: BufReader::new(output) }
    }

    /// The next line of the shell; `None` if it has ended.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).unwrap_or(0);
        (read > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
    }

    fn token_and_guardian(&mut self) -> Option<(u64, u32)> {
        let line = self.line()?;
        let (token, guardian) = line.split_once(' ')?;
        Some((token.parse().ok()?, guardian.parse().ok()?))
    }

    fn answers(&mut self) -> bool {
        self.input.write_all(b"there\n").is_ok() && self.line().is_some()
    }

    /// Ends the shell, and waits for the command.
    fn end(self) -> Option<i32> {
        let Self { mut command, input, output } = self;
        drop((input, output));
        must(command.wait()).code()
    }
}
