//! The events of the client that messages need: why a lock is still awaited, why a lease is not
//! renewed, and that a lease was renewed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::event::Event;
use leasehold::{LockName, LossReason};
use tokio::sync::Notify;

/// The events, shared by the observer of the client and its readers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseEvents(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Notified when a lease was renewed.
    renewed: Notify,
    state: Mutex<Reasons>,
}

#[derive(Debug, Default)]
struct Reasons {
    /// The reason of the wait for each name.
    waits: BTreeMap<LockName, WaitReason>,
    /// The reason why the lease of a name is not renewed.
    overdue: BTreeMap<LockName, String>,
    /// The warnings that were not taken yet.
    warnings: Vec<String>,
}

/// The reason of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// Somebody else has the lock. `is_queued` says whether there is a queue.
    Taken { is_queued: bool },
    /// There is trouble with the store: its kind, and the store's message.
    Trouble { kind: &'static str, words: String },
}

impl LeaseEvents {
    /// Records an event.
    pub(super) fn note(&self, event: &Event<'_>) {
        match *event {
            Event::Waiting { request, cause: Some(cause), .. } => {
                let name = request.name;
                let (kind, words) = (cause.kind().as_str(), cause.to_string());
                // The message begins with the name anyway.
                let words = words.strip_prefix(&format!("{name}: ")).unwrap_or(&words).to_owned();
                self.state().waits.insert(name.clone(), WaitReason::Trouble { kind, words });
            }
            Event::Waiting { request, ahead, .. } => {
                let wait = WaitReason::Taken { is_queued: ahead.is_some() };
                self.state().waits.insert(request.name.clone(), wait);
            }
            Event::Granted { lease, .. } => {
                self.state().waits.remove(lease.name);
            }
            Event::Overdue { lease, cause, .. } => {
                self.state().overdue.insert(lease.name.clone(), cause.to_string());
            }
            Event::Renewed { lease, .. } => {
                self.state().overdue.remove(lease.name);
                self.0.renewed.notify_one();
            }
            Event::Warning { text, .. } => self.state().warnings.push(text.to_owned()),
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, Reasons> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a lease was renewed.
    pub(crate) async fn renewed(&self) {
        self.0.renewed.notified().await;
    }

    /// The warning that a restart of a server forgets its locks, once.
    pub(crate) fn take_warning(&self) -> Option<String> {
        let mut state = self.state();
        state.warnings.drain(..).find(|it| it.contains("a restart forgets who holds what"))
    }

    /// The first of these names for which the client waits, and the reason.
    pub(super) fn wait_reason(&self, names: &[LockName]) -> Option<(LockName, WaitReason)> {
        let state = self.state();
        let mut waits = names.iter().filter_map(|name| state.waits.get_key_value(name));
        waits.next().map(|(name, wait)| (name.clone(), wait.clone()))
    }

    /// The end of a sentence, in brackets: why one of these names was not renewed. It is empty if
    /// the lease ends for another reason.
    pub(crate) fn why_not_renewed(&self, names: &[LockName], reason: LossReason) -> String {
        let state = self.state();
        let why = names.iter().find_map(|name| state.overdue.get(name));
        let why = why.filter(|_| reason == LossReason::Expired);
        why.map(|why| format!(" ({why})")).unwrap_or_default()
    }
}
