//! Child processes that do not outlive the test process, even if that is killed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Error};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

type Job = (Command, Sender<io::Result<Child>>);

/// Kills a process as `kill -9` does, unless it has ended.
pub(crate) fn kill(process: &mut Child) -> io::Result<()> {
    process.kill()?;
    process.wait()?;
    // A process that was killed leaves what faketime keeps in the machine's memory.
    for segment in ["sem.faketime_sem", "faketime_shm"] {
        let _nothing = fs::remove_file(format!("/dev/shm/{segment}_{}", process.id()));
    }
    Ok(())
}

/// Starts a program with its output thrown away. The kernel kills it when this process ends.
///
/// The kernel sends its signal when the *thread* that started the child ends, and threads of a
/// runtime end at any time. So one thread, which lives as long as the process, starts all children.
pub(crate) fn spawn(program: PathBuf, arguments: Vec<OsString>) -> io::Result<Child> {
    let mut command = if cfg!(target_os = "linux") {
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig").arg("KILL").arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (answer, answers) = channel();
    let gone = || Error::other("the thread that starts children has ended");
    jobs()?.send((command, answer)).map_err(|_| gone())?;
    answers.recv().map_err(|_| gone())?
}

fn jobs() -> io::Result<Sender<Job>> {
    static JOBS: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let jobs = match JOBS.get() {
        Some(jobs) => jobs,
        None => {
            let (sender, receiver) = channel();
            thread::Builder::new().name("children".into()).spawn(move || start(&receiver))?;
            JOBS.get_or_init(|| Mutex::new(sender))
        }
    };
    Ok(jobs.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

fn start(jobs: &Receiver<Job>) {
    for (mut command, answer) in jobs {
        // If the caller has gone, the child ends with this process.
        let _ = answer.send(command.spawn());
    }
}
