//! Ends or checks a lease of `take` at the store, if its holder process cannot be asked.

use leasehold::{Client, LockName};

use crate::args::StoreArgs;
use crate::connection::{connect, holders};
use crate::detached::{Handle, HeldName};
use crate::report::{Failure, LOST};
use crate::secrets::Secrets;
use crate::store_choice::{Because, Choice};
use crate::store_url::StoreUrl;

/// The lease of a handle, and the options that choose its store.
pub(super) struct StoreOf<'a> {
    pub(super) handle: &'a Handle,
    pub(super) args: &'a StoreArgs,
}

impl StoreOf<'_> {
    /// Ends the lease at the store.
    ///
    /// # Errors
    ///
    /// [`LOST`] if the lease had ended before.
    pub(super) async fn end(&self) -> Result<(), Failure> {
        let (verbosity, client) = (self.args.verbosity, self.connect().await?);
        let mut ended_before = Vec::new();
        for HeldName { name, token } in &self.handle.names {
            let admin = client.admin();
            let status = admin.inspect(name).await?;
            if self.handle.holds(*token, &status) && admin.revoke_now(name, *token).await? {
                verbosity.detail(format_args!("{name}: given back"));
            } else {
                ended_before.push(ended(name, holders(&status)));
            }
        }
        client.close().await?;
        ended_before.into_iter().next().map_or(Ok(()), Err)
    }

    /// Checks that the store still has the lease.
    ///
    /// # Errors
    ///
    /// [`LOST`] if the lease has ended.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        let client = self.connect().await?;
        for HeldName { name, token } in &self.handle.names {
            let status = client.admin().inspect(name).await?;
            if !self.handle.holds(*token, &status) {
                return Err(ended(name, holders(&status)));
            }
        }
        client.close().await.map_err(Failure::from)
    }

    /// The outcome if this user has no holder process on this machine. If the handle is from this
    /// machine, its holder process has ended, and nothing renews the lease: that is known even if
    /// the store cannot be asked.
    pub(super) fn or_lost_here(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
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

    async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.choose()?, self.args.verbosity).await
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
