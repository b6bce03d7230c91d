//! A queue. All append entries to it. The holder of a lock ends them one by one, each with a unique
//! result.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use leasehold::{Client, Guard};
use leasehold_data::{Data, Id, Progress, Queue};

use super::{AT_ONCE, Asked, LAST_TRIES, TRIES, ask};
use crate::plan::QUEUE;
use crate::promise::{Log, now_ns, read_logs};

/// The check that fails for a violation.
const CHECK: &str = "queue";

/// How many entries are taken in one call.
const TAKEN: usize = 16;

/// The queue of one round.
#[derive(Clone)]
pub(crate) struct Entries {
    queue: Queue,
    log: Arc<Log>,
}

impl Entries {
    pub(super) fn new(data: &Data, name: &str, log: Arc<Log>) -> Self {
        Self { queue: data.queue(name), log }
    }

    /// Appends a unique entry.
    pub(crate) async fn append_one(&self) {
        let id = self.log.fresh(0).to_string();
        self.log.entry(&format!("new {id} {}", now_ns()));
        self.append(&id, TRIES).await;
    }

    async fn append(&self, id: &str, tries: u32) {
        let pushed = ask(&self.log, CHECK, tries, || self.queue.push(id, "")).await;
        if let Asked::Answered(_) = pushed {
            self.log.entry(&format!("pushed {id} {}", now_ns()));
        }
    }

    /// The oldest entries, as the holder of their lock sees them.
    pub(crate) async fn take(&self, guard: &Guard) -> Vec<Id> {
        let (drain, asked) = (self.queue.open(guard), now_ns());
        let taken = ask(&self.log, CHECK, TRIES, || drain.take(TAKEN)).await;
        let Asked::Answered(entries) = taken else { return Vec::new() };
        let ids: Vec<Id> = entries.into_iter().map(|entry| entry.id).collect();
        let words = ids.iter().map(|id| format!(" {id}")).collect::<String>();
        self.log.entry(&format!("taken {} {asked} {}{words}", guard.token().get(), now_ns()));
        ids
    }

    /// Ends an entry with a result. Returns whether to go on.
    pub(crate) async fn finish(&self, guard: &Guard, id: &Id) -> bool {
        let (drain, result) = (self.queue.open(guard), self.log.fresh(0));
        self.log.entry(&format!("ends {result} {id} {} {}", guard.token().get(), now_ns()));
        let finish = || drain.finish([(id.clone(), result.to_string())]);
        match ask(&self.log, CHECK, TRIES, finish).await {
            Asked::Answered(1) => {
                self.log.event("entry");
                self.log.entry(&format!("ended {result} {}", now_ns()));
            }
            // The try before may have ended it.
            Asked::Answered(_) | Asked::Open => {}
            Asked::Refused => {
                self.log.entry(&format!("refused {result}"));
                return false;
            }
        }
        true
    }

    /// At the end, appends again the entries that may be missing, and ends all that are left.
    /// Records the result of each entry.
    pub(super) async fn audit(&self, client: &Client, directory: &Path) {
        let ids = ids(directory);
        let append = async |id: &String| self.append(id, LAST_TRIES).await;
        stream::iter(&ids).for_each_concurrent(AT_ONCE, append).await;
        let guard = match client.mutex(QUEUE).acquire().await {
            Ok(guard) => guard,
            Err(error) => return self.log.violation(&format!("{CHECK} {error:?}")),
        };
        loop {
            let left = self.take(&guard).await;
            if left.is_empty() {
                break;
            }
            for id in left {
                self.finish(&guard, &id).await;
            }
        }
        drop(guard.release().await);
        let tell = async |id: &String| {
            let progress = ask(&self.log, CHECK, LAST_TRIES, || self.queue.progress(id)).await;
            let result = match progress {
                Asked::Answered(Some(Progress::Done(result))) => {
                    String::from_utf8_lossy(&result).into_owned()
                }
                _ => "0".to_owned(),
            };
            self.log.entry(&format!("result {id} {result}"));
        };
        stream::iter(&ids).for_each_concurrent(AT_ONCE, tell).await;
    }
}

/// The ids of all entries that a process was about to append.
fn ids(directory: &Path) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for (_, lines) in read_logs(directory) {
        let new = lines.lines().filter_map(|line| line.strip_prefix("i new ")?.split(' ').next());
        ids.extend(new.map(str::to_owned));
    }
    ids
}
