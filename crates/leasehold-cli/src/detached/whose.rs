//! The text that others read beside a lease that was taken, because nobody knows its process.

use std::time::Duration;

use leasehold::time::show_duration;

use crate::args::Take;
use crate::user::User;

/// On whose behalf it is held, and what for.
pub(super) struct Whose {
    said: Option<String>,
    process: Option<String>,
    user: String,
}

impl Whose {
    pub(super) fn of(args: &Take) -> Self {
        let process = args.pid.map(|pid| format!("while process {} lives", pid.as_raw_nonzero()));
        let user = User::of_this_process().name;
        Self { said: args.lock.label.clone(), process, user }
    }

    /// Before it is held it is not known until when it will be.
    pub(super) fn label_of_a_waiter(&self, for_span: Option<Duration>) -> String {
        self.label(for_span.map(|span| format!("for {}", show_duration(span))))
    }

    /// What was said of it, when it is over, and who took it.
    pub(super) fn label(&self, over: Option<String>) -> String {
        let ends: Vec<_> = over.into_iter().chain(self.process.clone()).collect();
        let ends = format!("{}, by {}", ends.join(" and "), self.user);
        match &self.said {
            Some(said) => format!("{said}; {ends}"),
            None => ends,
        }
    }
}
