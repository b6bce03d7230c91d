//! Deadlocks: cycles of the wait-for graph, in which each client holds a name that the client
//! before it waits for.
//!
//! Renewal keeps deadlocked leases alive for ever, so somebody must report a deadlock. The facts at
//! a store are enough: the holders and waiters of each name, and the clients for which a process
//! acts. A store has no facts about tasks: one task of a process may hold while another waits. So a
//! cycle is only *probably* a deadlock. It is reported if all clients have waited for a while, and
//! each held its name before it began to wait.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::holder::{ClientId, HoldState, Holder, Mode, Status, Waiter};
use crate::name::LockName;
use crate::text::show_duration;

/// The time for which all clients of a cycle must have waited before it counts: 10 s. Shorter waits
/// may be ordinary contention.
pub const LEAST_WAIT: Duration = Duration::from_secs(10);

/// How much later than a wait a hold may seem to begin, although it began earlier: 1 s. The
/// snapshots of the names are not taken at the same time.
const LOOK_ERROR: Duration = Duration::from_secs(1);

/// One name as a store showed it.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The name.
    pub name: &'a LockName,
    /// The holders and the waiters of the name.
    pub status: &'a Status,
    /// The time since the snapshot was taken.
    pub age: Duration,
}

/// Waiters that wait for each other: each for the next, the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The waits of the cycle. There is at least one, and exactly one if a process waits for a
    /// lease under which it was started.
    pub waits: Vec<Wait>,
}

/// One waiter of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The name that is awaited.
    pub name: LockName,
    /// The waiter for the name.
    pub waiter: Waiter,
    /// The holder or the waiter that is in the way.
    pub obstacle: Obstacle,
}

/// The holder or the waiter that is in the way of a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// A holder of the name. The waiter of the next [`Wait`] acts for this holder.
    Holder(Holder),
    /// The waiter of the next [`Wait`], which is before this waiter in the queue of the same name.
    Waiter(Waiter),
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Wait { name, waiter, obstacle }) in self.waits.iter().enumerate() {
            let next = if n == 0 { "" } else { "; " };
            let (who, waited) = (InWords(&waiter.info), show_duration(waiter.waited));
            write!(f, "{next}{who} has waited for {name} for {waited}, ")?;
            match obstacle {
                Obstacle::Holder(holder) => {
                    let (who, held) = (InWords(&holder.info), show_duration(holder.held_for));
                    write!(f, "which {who} has held for {held}")?;
                }
                Obstacle::Waiter(ahead) => write!(f, "behind {}", InWords(&ahead.info))?,
            }
        }
        Ok(())
    }
}

/// A process in words.
struct InWords<'a>(&'a crate::holder::HolderInfo);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.host, self.0.pid)?;
        self.0.label.iter().try_for_each(|label| write!(f, " ({label})"))
    }
}

/// The deadlocks among these names. For each waiter in a deadlock, the result has a shortest cycle
/// through that waiter, unless an earlier cycle already contains the waiter. A waiter that is only
/// queued behind a deadlock is in no cycle.
///
/// A client in a deadlock waits for another client in it. So the search first assumes that all
/// waiters are stuck. Then it removes each waiter that would be served if all holders that are not
/// stuck released. Examples are a reader next to readers, a request for permits if enough become
/// free, and a waiter for a process that is at work.
///
/// The search sees a reader that waits to become the writer as a holder only. It sees no waiters in
/// a store without a queue.
pub fn deadlocks(snapshots: &[Snapshot<'_>]) -> Vec<Deadlock> {
    let mut graph = WaitForGraph::new(snapshots);
    graph.remove_served();
    let mut reported = HashSet::new();
    let mut found = Vec::new();
    for start in 0..graph.waits.len() {
        if !graph.waits[start].is_stuck || reported.contains(&start) {
            continue;
        }
        if let Some(cycle) = graph.shortest_cycle(start) {
            reported.extend(cycle.iter().map(|(wait, _)| *wait));
            let waits = cycle.into_iter().map(|(wait, obstacle)| Wait {
                name: snapshots[graph.waits[wait].snapshot].name.clone(),
                waiter: graph.waits[wait].waiter.clone(),
                obstacle,
            });
            found.push(Deadlock { waits: waits.collect() });
        }
    }
    found
}

/// A waiter, and whether the search still assumes that it is stuck.
struct StuckWait<'a> {
    snapshot: usize,
    waiter: &'a Waiter,
    is_stuck: bool,
}

/// The waits, by name and by client.
struct WaitForGraph<'a> {
    snapshots: &'a [Snapshot<'a>],
    waits: Vec<StuckWait<'a>>,
    /// The waits of each name, in the order of the queue.
    of_look: Vec<Vec<usize>>,
    /// The waits of each client, and of the clients that act for it.
    of_client: HashMap<ClientId, Vec<usize>>,
}

impl<'a> WaitForGraph<'a> {
    fn new(snapshots: &'a [Snapshot<'a>]) -> Self {
        let (mut waits, mut of_client) = (Vec::new(), HashMap::<_, Vec<usize>>::new());
        let mut of_look = vec![Vec::new(); snapshots.len()];
        for (snapshot, Snapshot { status, .. }) in snapshots.iter().enumerate() {
            for waiter in &status.waiters {
                let wait = waits.len();
                waits.push(StuckWait { snapshot, waiter, is_stuck: waiter.waited >= LEAST_WAIT });
                of_look[snapshot].push(wait);
                for client in acts_for(waiter) {
                    of_client.entry(client).or_default().push(wait);
                }
            }
        }
        Self { snapshots, waits, of_look, of_client }
    }

    /// The stuck waits because of which this holder does not release its lease.
    fn why_held(&self, snapshot: usize, holder: &Holder) -> impl Iterator<Item = usize> {
        let age = self.snapshots[snapshot].age;
        let held_for = holder.held_for + age + LOOK_ERROR;
        // Holds in other states have no client behind them, or end by themselves.
        let is_kept_alive = holder.state == HoldState::Claimed;
        let of_client = self.of_client.get(&holder.id.client).filter(|_| is_kept_alive);
        of_client.into_iter().flatten().copied().filter(move |wait| {
            let StuckWait { snapshot: of, waiter, is_stuck } = &self.waits[*wait];
            // Two tasks of one client that want the same name are ordinary contention.
            let is_contention = *of == snapshot && waiter.id.client == holder.id.client;
            let waited = waiter.waited + self.snapshots[*of].age;
            *is_stuck && !is_contention && held_for >= waited
        })
    }

    fn is_stuck(&self, snapshot: usize, holder: &Holder) -> bool {
        self.why_held(snapshot, holder).next().is_some()
    }

    /// How much of a name's capacity stuck clients hold: for a semaphore, a number of permits.
    fn stuck_weight(&self, snapshot: usize) -> u64 {
        let stuck =
            self.snapshots[snapshot].status.holders.iter().filter(|h| self.is_stuck(snapshot, h));
        stuck.map(|holder| u64::from(holder.mode.weight())).sum()
    }

    /// Removes each waiter that would be served if all holders that are not stuck released, until
    /// no such waiter is left.
    fn remove_served(&mut self) {
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for snapshot in 0..self.snapshots.len() {
                let taken = self.stuck_weight(snapshot);
                let mut is_behind = false;
                for at in 0..self.of_look[snapshot].len() {
                    let wait = self.of_look[snapshot][at];
                    if !self.waits[wait].is_stuck {
                        continue;
                    }
                    is_behind |= !self.fits(snapshot, self.waits[wait].waiter.mode, taken);
                    if !is_behind {
                        self.waits[wait].is_stuck = false;
                        has_changed = true;
                    }
                }
            }
        }
    }

    /// Whether a mode can be granted in addition to the weight that is taken.
    fn fits(&self, snapshot: usize, mode: Mode, taken: u64) -> bool {
        // A waiter for another capacity waits until nobody holds.
        let holders = &self.snapshots[snapshot].status.holders;
        let is_same = holders.iter().all(|holder| holder.mode.capacity() == mode.capacity());
        let room = if is_same { u64::from(mode.capacity()) } else { u64::from(mode.weight()) };
        taken + u64::from(mode.weight()) <= room
    }

    /// The waits that must end before this one, each with the obstacle.
    fn waits_for(&self, wait: usize) -> Vec<(usize, Obstacle)> {
        let StuckWait { snapshot, waiter, .. } = &self.waits[wait];
        let (status, taken) = (self.snapshots[*snapshot].status, self.stuck_weight(*snapshot));
        if self.fits(*snapshot, waiter.mode, taken) {
            // The waiter would fit, but a waiter before it does not.
            let before =
                self.of_look[*snapshot].iter().copied().take_while(|before| *before != wait);
            let in_the_way = before.filter(|before| {
                let StuckWait { waiter, is_stuck, .. } = &self.waits[*before];
                *is_stuck && !self.fits(*snapshot, waiter.mode, taken)
            });
            let last = in_the_way.last();
            return last
                .map(|before| (before, Obstacle::Waiter(self.waits[before].waiter.clone())))
                .into_iter()
                .collect();
        }
        let holders = status.holders.iter();
        let next = holders.flat_map(|holder| {
            let obstacle = Obstacle::Holder(holder.clone());
            self.why_held(*snapshot, holder).map(move |next| (next, obstacle.clone()))
        });
        next.collect()
    }

    /// A shortest cycle that begins with this wait: each wait, and the obstacle between it and the
    /// next.
    fn shortest_cycle(&self, start: usize) -> Option<Vec<(usize, Obstacle)>> {
        let mut reached_from: HashMap<usize, (usize, Obstacle)> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(wait) = queue.pop_front() {
            for (next, obstacle) in self.waits_for(wait) {
                if next == start {
                    let mut cycle = vec![(wait, obstacle)];
                    let mut at = wait;
                    while let Some((before, obstacle)) = reached_from.remove(&at) {
                        cycle.push((before, obstacle));
                        at = before;
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                reached_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    (wait, obstacle)
                });
            }
        }
        None
    }
}

/// The clients that release nothing before this waiter is served.
fn acts_for(waiter: &Waiter) -> impl Iterator<Item = ClientId> {
    let others = waiter.info.on_behalf_of().iter().copied();
    std::iter::once(waiter.id.client).chain(others.filter(|other| *other != waiter.id.client))
}

#[cfg(test)]
mod tests;
