//! Finds and signals the processes that the command has started, in all process groups.
//!
//! A process that outlives its parent stays in this tree: orphans become children of the guardian,
//! which is their subreaper. A process leaves the tree only by making a new session (`setsid`).
//! leasehold takes that as a request to let the process stay.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;

use nix::unistd::{Uid, User, getsid};
use rustix::process::{
    Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process,
    test_kill_process_group,
};
use serde::{Deserialize, Serialize};

use crate::process::Process;
use crate::report::Verbosity;

/// The largest number of looks in a row: 10. On a machine with a thousand starts a second, each
/// look may see a process end. If all looks are in doubt, the answer is that somebody may be left.
const MOST_LOOKS: u32 = 10;

/// The largest number of rounds that kill children: 1000. Each new child takes one round.
const MOST_ROUNDS: u32 = 1000;

/// Where to look for the processes that the command has started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// All these processes descend from this one.
    pub(crate) root: Pid,
    /// The guardian, which also descends from `root`, but was not started by the command.
    pub(crate) guardian: Pid,
    /// The command's own process group, once it is known.
    pub(crate) group: Option<Pid>,
}

impl Tree {
    /// Looks for the processes that are there.
    pub(crate) fn scan(&self) -> Descendants {
        self.scan_by(Snapshot::take)
    }

    /// Nobody is left only if a look saw no process that had ended since the look before: such a
    /// process may have left a child that is not in the list. The same holds for a process that
    /// has vanished. But as long as nobody waits for the children of the root and the guardian,
    /// these do not vanish. Then it does not matter who else does: above each process that still
    /// runs, one of these children does.
    fn scan_by(&self, look: impl Fn() -> Option<Snapshot>) -> Descendants {
        let (mut ended_before, mut are_kept) = (HashSet::new(), self.guardian == getpid());
        for looks in 1.. {
            let Some(snapshot) = look() else { break };
            let is_certain = are_kept || snapshot.is_complete;
            are_kept |= self.root == getpid() && snapshot.is_still(self.guardian);
            let mut found = self.among(snapshot.processes);
            let ended = found.processes.iter().filter(|process| process.has_ended);
            let ended: HashSet<_> = ended.map(|process| (process.pid, process.began)).collect();
            found.is_nobody &= is_certain && ended.is_subset(&ended_before);
            if found.living().next().is_some() || found.is_nobody || looks == MOST_LOOKS {
                return found;
            }
            ended_before = ended;
        }
        // Without a `/proc` that shows this process, only the group can be checked.
        let is_empty = |group| test_kill_process_group(group) == Err(rustix::io::Errno::SRCH);
        let is_nobody = self.group.is_none_or(is_empty);
        Descendants { group: self.group, is_nobody, ..Descendants::default() }
    }

    /// Kills all these processes.
    pub(crate) fn kill(&self) {
        self.kill_children();
        self.scan().signal(Signal::KILL);
    }

    /// Kills the children of the guardian, and of this process if orphans become its children. This
    /// takes no search. A process could escape the search if, again and again, it starts a copy of
    /// itself in a new group and ends. But then each copy is an orphan, and so one of these
    /// children.
    fn kill_children(&self) {
        let session_of = |pid: Pid| getsid(Some(nix::unistd::Pid::from_raw(pid.as_raw_pid())));
        let (session, mut killed) = (getsid(None), HashSet::from([self.guardian]));
        for _round in 0..MOST_ROUNDS {
            let children = [self.root, self.guardian].into_iter().flat_map(children);
            // Their parent does not wait for them meanwhile: it is this process, or is stopped. So
            // each number still belongs to the child.
            let ours = children.filter(|child| session_of(*child) == session);
            let fresh: Vec<Pid> = ours.filter(|child| killed.insert(*child)).collect();
            if fresh.is_empty() {
                return;
            }
            for child in fresh {
                let _denied = kill_process(child, Signal::KILL);
            }
        }
    }

    /// Selects the descendants among all processes.
    fn among(&self, processes: Vec<Process>) -> Descendants {
        let myself = getpid().as_raw_pid();
        let own = processes.iter().find(|process| process.pid == myself);
        let session = own.map(|process| process.session);
        let below = below(self.root.as_raw_pid(), &processes);
        // If this process is not the reaper of orphans, they leave the tree when the guardian dies.
        // Then only the number of the command's group finds them. While the group has a process, no
        // other group gets that number.
        let orphaned = self.group.filter(|_| self.root != getpid()).map(Pid::as_raw_pid);
        let (ours, others): (Vec<_>, Vec<_>) = processes.into_iter().partition(|process| {
            let is_ours = below.contains(&process.pid) || Some(process.group) == orphaned;
            let is_in_session = Some(process.session) == session;
            is_ours && is_in_session && process.pid != self.guardian.as_raw_pid()
        });
        let shared: HashSet<i32> = others.iter().map(|process| process.group).collect();
        let groups = ours.iter().map(|process| process.group);
        let groups: HashSet<i32> = groups.filter(|group| !shared.contains(group)).collect();
        // If the group is empty, its number may belong to another group by now.
        let group = self.group.filter(|group| groups.contains(&group.as_raw_pid()));
        let is_nobody = ours.iter().all(|process| process.has_ended);
        Descendants { group, processes: ours, groups, is_nobody }
    }
}

/// The children of a process, in the order in which they came.
fn children(parent: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid()));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let lists: String = lists.collect();
    lists.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The numbers of all processes that descend from `root`.
fn below(root: i32, processes: &[Process]) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = HashSet::new();
    let mut unvisited = vec![root];
    while let Some(parent) = unvisited.pop() {
        // A process has one parent, so none is visited twice.
        let children = children.remove(&parent).unwrap_or_default();
        found.extend(&children);
        unvisited.extend(children);
    }
    found
}

/// The processes that were found: the command and those that it has started.
#[derive(Debug, Default)]
pub(crate) struct Descendants {
    /// The command's group, if it is not empty.
    group: Option<Pid>,
    /// These include processes that have ended: no other group gets the number of a group while
    /// their parents have not waited for them.
    processes: Vec<Process>,
    /// The groups of these processes, without groups that also have other processes.
    groups: HashSet<i32>,
    /// Whether it is certain that no process is left.
    pub(crate) is_nobody: bool,
}

impl Descendants {
    fn living(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| !process.has_ended)
    }

    /// Sends a signal to the command's group, if it is not empty.
    pub(crate) fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be empty by now, or its processes may belong to another user.
            let _nobody = kill_process_group(group, signal);
        }
    }

    /// Sends a signal to all these processes. A group gets it in one step, which no fork escapes.
    /// So a process that was forked since the search gets it, too, unless it has made another
    /// group.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.processes.is_empty() {
            self.signal_group(signal);
        }
        let mut signalled = HashSet::new();
        for process in self.processes.iter().filter(|process| process.is_still_there()) {
            // The processes may have ended just now, or belong to another user.
            let _gone_or_denied = match self.groups.contains(&process.group) {
                true if signalled.insert(process.group) => {
                    Pid::from_raw(process.group).map(|group| kill_process_group(group, signal))
                }
                true => None,
                false => Pid::from_raw(process.pid).map(|pid| kill_process(pid, signal)),
            };
        }
    }

    /// One of the remaining processes, for a message. If a process could not be signalled, returns
    /// that one.
    pub(crate) fn example(&self) -> Option<Remaining> {
        self.living().map(remaining).max_by_key(|process| process.is_denied)
    }
}

/// A process that was killed and has not ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Remaining {
    pid: i32,
    program: String,
    /// Its effective user, if that is known.
    user: Option<u32>,
    /// The process belongs to another user, so it could not be sent the signal.
    is_denied: bool,
}

impl Remaining {
    /// Prints the sentence, with the names of the locks.
    pub(crate) fn report(&self, names: &str) {
        Verbosity::default().error(format_args!("{names}: {}", self.sentence()));
    }

    /// A sentence that names the process, and says what follows from it.
    pub(crate) fn sentence(&self) -> String {
        let Self { pid, program, user, is_denied } = self;
        let user = match user.map(Uid::from_raw) {
            None => String::new(),
            Some(uid) => match User::from_uid(uid) {
                Ok(Some(user)) => format!(" of user {}", user.name),
                Ok(None) | Err(_) => format!(" of user {uid}"),
            },
        };
        let process = format!("process {pid} ({program}){user}");
        match is_denied {
            true => format!(
                "{process} cannot be ended: nothing is released while it runs, and a lost lease \
                 ends by itself (write `sudo leasehold run …`, and not `… -- sudo CMD`)"
            ),
            false => format!(
                "{process} was killed and has not ended yet: nothing is released while it is there"
            ),
        }
    }
}

/// All processes at one time.
struct Snapshot {
    processes: Vec<Process>,
    /// Whether the snapshot has every process that existed when it was begun.
    is_complete: bool,
}

impl Snapshot {
    /// Whether a process does nothing: it was stopped, or has ended.
    fn is_still(&self, pid: Pid) -> bool {
        let of_pid = |process: &&Process| process.pid == pid.as_raw_pid();
        self.processes.iter().find(of_pid).is_some_and(|it| it.is_stopped || it.has_ended)
    }

    /// Looks at all processes. Returns `None` if `/proc` is missing, or belongs to another PID
    /// namespace.
    ///
    /// The numbers are read first, so a process without a number in this list began later. A
    /// process that is gone when this function looks at it may have left children that are not in
    /// the list either; then the snapshot is not complete. A parent passes its children on before
    /// it counts as ended, and before its number disappears. So a parent that is missing in the
    /// list has already passed them on, and a parent that ends later is noticed here.
    fn take() -> Option<Self> {
        let myself = fs::read_link("/proc/self").ok()?;
        // In a PID namespace without its own /proc, these numbers belong to other processes.
        if !cfg!(target_os = "linux") || myself.to_str() != Some(&getpid().to_string()) {
            return None;
        }
        let number =
            |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        let numbers: Vec<i32> = fs::read_dir("/proc").ok()?.filter_map(number).collect();
        let mut is_complete = true;
        let read = |pid: &i32| {
            let process = Process::read(*pid);
            // A process that this one may not read was not started by this one.
            let is_denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            is_complete &= process.as_ref().map_or_else(is_denied, |_| true);
            process.ok()
        };
        let processes = numbers.iter().filter_map(read).collect();
        Some(Self { processes, is_complete })
    }
}

fn remaining(process: &Process) -> Remaining {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    // The users are the real one, the effective one, the saved one, and the one for files.
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let user = users.and_then(|users| users.split_whitespace().nth(1)?.parse().ok());
    let tested = Pid::from_raw(process.pid).map(test_kill_process);
    Remaining {
        pid: process.pid,
        program: process.program.clone(),
        user,
        is_denied: tested == Some(Err(rustix::io::Errno::PERM)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, state: &str, parent: i32) -> Process {
        let zeros = "0 ".repeat(16);
        Process::parse(&format!("{pid} (a) {state} {parent} 7 8 {zeros}\n")).unwrap()
    }

    #[test]
    fn descendants_are_found_in_whatever_order_they_stand() {
        let parents = [(9, 3), (3, 2), (2, 1), (5, 1), (4, 9)];
        let found = below(2, &parents.map(|(pid, parent)| process(pid, "S", parent)));
        assert_eq!(found, HashSet::from([3, 4, 9]));
    }

    #[test]
    fn a_process_that_vanishes_is_of_no_matter_once_the_guardian_is_still() {
        let me = getpid();
        let other = Pid::from_raw(me.as_raw_pid() + 1).unwrap();
        let is_nobody = |state, root, guardian: Pid, is_complete| {
            let processes = || vec![process(guardian.as_raw_pid(), state, me.as_raw_pid())];
            let look = || Some(Snapshot { processes: processes(), is_complete });
            Tree { root, guardian, group: None }.scan_by(look).is_nobody
        };
        assert!(is_nobody("S", me, other, true) && is_nobody("S", me, me, false));
        assert!(["T", "t", "Z"].iter().all(|state| is_nobody(state, me, other, false)));
        assert!(!is_nobody("S", me, other, false) && !is_nobody("T", other, other, false));
    }
}
