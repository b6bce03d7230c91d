//! `leasehold take`, `give` and `renew`: a lease that outlives the command that took it.

use std::ffi::OsString;

use leasehold::LockName;

use crate::args::{Give, Renew, StoreArgs, Take};
use crate::connection::{connect, holders, joined};
use crate::detached::{self, Answer, Handle, HeldName, Request, ask};
use crate::report::{Failure, LOST, Outcome, STORE};
use crate::runtime::block_on;
use crate::secrets::Secrets;
use crate::store_choice::{Because, Choice};
use crate::store_url::StoreUrl;

/// Takes and holds the lease in a separate process, and prints the handle.
pub(crate) fn take(args: &Take) -> Outcome {
    if let Some(limit) = &args.lock.max_hold {
        let why = format!("{limit}: a lease that is taken ends with --for; give that instead");
        return Err(Failure::usage(why));
    }
    let mut choice = args.lock.store.choose()?;
    choice.secrets = Secrets::passed_on();
    // The arguments as they were typed: the holder process parses them as this one did.
    let arguments: Vec<OsString> = std::env::args_os().collect();
    block_on(detached::take(&joined(&args.lock.names), arguments, choice))?
}

/// Asks the holder process to release the lease. If that process was killed, or is on another
/// machine, ends the lease at the store.
pub(crate) fn give(args: &Give) -> Outcome {
    let handle = Handle::decode(&args.handle).map_err(Failure::usage)?;
    let store = StoreOf { handle: &handle, args: &args.store };
    block_on(async {
        match ask(handle.client, Request::Give).await {
            Ok(Some(answer)) => store.answered(answer, "given back"),
            Ok(None) => store.or_lost_here(store.check(true).await).map(|()| 0),
            // A holder process that hangs may still renew the lease. It learns of this release when
            // it finds the lease lost.
            Err(_) => store.check(true).await.map(|()| 0),
        }
    })?
}

/// Tells the holder process how long it must hold the lease from now on.
pub(crate) fn renew(args: &Renew) -> Outcome {
    let handle = Handle::decode(&args.handle).map_err(Failure::usage)?;
    let store = StoreOf { handle: &handle, args: &args.store };
    block_on(async {
        match ask(handle.client, Request::Renew { for_span: args.for_span }).await {
            Ok(Some(answer)) => store.answered(answer, "renewed"),
            Ok(None) => match store.or_lost_here(store.check(false).await) {
                Err(failure) if failure.exit == LOST => Err(failure),
                known => Err(not_from_here(&handle, known.err())),
            },
            Err(error) => {
                let why = format!("{}: its holder process: {error}", handle.shown());
                Err(Failure::new(STORE, why))
            }
        }
    })?
}

/// The failure if the holder process cannot be asked: only that process can renew the lease, and
/// only its user on its machine can ask it.
fn not_from_here(handle: &Handle, trouble: Option<Failure>) -> Failure {
    let Handle { host, user, .. } = handle;
    let known = match trouble {
        None => "it is held".to_owned(),
        Some(failure) => format!("whether it is still held is not known ({})", failure.message),
    };
    Failure::usage(format!(
        "{}: {known}, but its holder process cannot be asked from here: renew it on {host}, as \
         {user}, with the same XDG_RUNTIME_DIR; if that process was killed, take the lease again",
        handle.shown()
    ))
}

/// The lease of a handle, and the options that choose its store.
struct StoreOf<'a> {
    handle: &'a Handle,
    args: &'a StoreArgs,
}

impl StoreOf<'_> {
    /// The outcome of what the holder process has answered.
    fn answered(&self, answer: Answer, done: &str) -> Outcome {
        match answer {
            Answer::Done => {
                self.args.verbosity.detail(format_args!("{}: {done}", self.handle.shown()));
                Ok(0)
            }
            Answer::Lost { why } => Err(Failure::new(LOST, why)),
        }
    }

    /// Checks that the store still has the lease, or ends it there.
    ///
    /// # Errors
    ///
    /// [`LOST`] if the lease had ended before.
    async fn check(&self, ends: bool) -> Result<(), Failure> {
        let client = connect(&self.choose()?, self.args.verbosity).await?;
        let (admin, mut ended_before) = (client.admin(), None);
        for HeldName { name, token } in &self.handle.names {
            let status = admin.inspect(name).await?;
            let is_held = self.handle.holds(*token, &status);
            if !is_held || ends && !admin.revoke_now(name, *token).await? {
                ended_before.get_or_insert(ended(name, holders(&status)));
            } else if ends {
                self.args.verbosity.detail(format_args!("{name}: given back"));
            }
        }
        client.close().await?;
        ended_before.map_or(Ok(()), Err)
    }

    /// The outcome if this user has no holder process on this machine. If the handle is from this
    /// machine, its holder process has ended, and nothing renews the lease: that is known even if
    /// the store cannot be asked.
    fn or_lost_here(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        outcome.map_err(|failure| {
            let is_refused = self.args.store.is_some() && failure.exit == crate::report::USAGE;
            if failure.exit == LOST || is_refused || !self.handle.is_from_here() {
                return failure;
            }
            Failure::new(
                LOST,
                format!(
                    "{}: its holder process has ended, so the lease is over or soon will be, and \
                     the store cannot say more: {}",
                    self.handle.shown(),
                    failure.message
                ),
            )
        })
    }

    /// Returns the chosen store if it is the store of the handle, perhaps with a password.
    /// Otherwise the store of the handle without a password, because the handle may be forged.
    fn choose(&self) -> Result<Choice, Failure> {
        let handle = self.handle;
        let taken_in = StoreUrl::from(handle.store.as_str());
        let chosen = self.args.choose();
        let is_it = |choice: &Choice| choice.url.place() == taken_in.place();
        match (chosen, taken_in.remote()) {
            (Ok(choice), _) if is_it(&choice) => Ok(choice),
            (Err(failure), _) if self.args.store.is_some() => Err(failure),
            (_, Some(url)) if self.args.store.is_none() => {
                Ok(Choice { url, because: Because::Handle, secrets: Secrets::Nowhere })
            }
            (chosen, _) => {
                let this =
                    chosen.map_or_else(|_| String::new(), |it| format!(", not in {}", it.url));
                Err(Failure::usage(format!(
                    "{}: it was taken in the store {taken_in}{this}: name that with --store, or \
                     do this on {}, as {}",
                    handle.shown(),
                    handle.host,
                    handle.user
                )))
            }
        }
    }
}

fn ended(name: &LockName, by: Option<String>) -> Failure {
    let by = by.map_or_else(String::new, |by| format!(", and is {by}"));
    let why = "this lease has ended before: it was given back already, or was lost";
    Failure::new(LOST, format!("{name}: {why}{by}"))
}
