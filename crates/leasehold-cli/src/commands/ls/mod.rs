//! `leasehold ls`: the locks that are held or awaited.

mod changes;
mod listing;
mod watch;

use self::listing::Listing;
use super::lock_line::LockLine;
use super::totals::unreadable_in_words;
use crate::args::{Ls, Sort};
use crate::connection::ask;
use crate::moment::now_ms;
use crate::report::{Failure, Outcome, print, print_json};
use crate::store_choice;
use crate::table::room;
use crate::watch::look;

/// Most names that are listed: 10 000, each one request. A user with more gives a prefix.
const LIMIT: u32 = 10_000;

/// Lists the locks of the store, once or until a signal comes.
pub(crate) fn ls(args: &Ls) -> Outcome {
    if args.watch {
        return watch::watch(args);
    }
    if args.sort == Sort::Entries {
        let why = "--sort entries: entries are counted while somebody watches: add --watch";
        return Err(Failure::usage(why));
    }
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let locks = ask(&choice, args.output.verbosity, async |client| {
        let admin = client.admin();
        // One more tells whether there are more.
        let mut names = match args.all {
            true => admin.list_all(&args.prefix, LIMIT + 1).await?,
            false => admin.list(&args.prefix, LIMIT + 1).await?,
        };
        if names.len() > LIMIT as usize {
            names.truncate(LIMIT as usize);
            args.output
                .verbosity
                .remark(format_args!("only the first {LIMIT} names are listed: give a prefix"));
        }
        let mut locks = Vec::with_capacity(names.len());
        for name in names {
            let look = look(admin.inspect(&name).await)?;
            locks.push(LockLine::seen(name, look, now_ms()));
        }
        Ok(locks)
    })?;
    let unreadable = locks.iter().filter(|line| line.unreadable.is_some()).count();
    if let Some(words) = unreadable_in_words(unreadable) {
        args.output.verbosity.remark(words);
    }
    let listing = Listing::new(args);
    let locks = listing.of(locks);
    if locks.is_empty() {
        choice.warn_if_local(args.output.verbosity);
    }
    if args.output.json {
        print_json(&locks.iter().map(LockLine::view).collect::<Vec<_>>())?;
    } else if locks.is_empty() {
        args.output.verbosity.remark(listing.nothing());
    } else {
        print(listing::rows(&locks, now_ms(), room()))?;
    }
    Ok(0)
}
