//! `leasehold ls`: the locks that are held or awaited.

mod changes;
mod listing;
mod watch;

use super::lock_line::{Listing, LockLine};
use super::totals::unreadable_in_words;
use crate::args::{Ls, Sort};
use crate::connection::ask;
use crate::moment::now_ms;
use crate::report::{Failure, Outcome, print, print_json};
use crate::table::room;
use crate::watch::look;

/// The most names that are listed: 10 000, with a request for each. For more names, give a prefix.
const LIMIT: u32 = 10_000;

/// Lists the locks of the store, once or until a signal comes.
pub(crate) fn ls(args: &Ls) -> Outcome {
    if args.watch {
        return watch::watch(args);
    }
    if args.sort == Sort::Entries {
        let why = "--sort entries: entries are counted only while watching: add --watch";
        return Err(Failure::usage(why));
    }
    let verbosity = args.output.store.verbosity;
    let choice = args.output.store.choose()?;
    let locks = ask(&choice, verbosity, async |client| {
        let admin = client.admin();
        let (names, are_all) = first(async |most| match args.all {
            true => admin.list_all(&args.prefix, most).await,
            false => admin.list(&args.prefix, most).await,
        })
        .await?;
        if !are_all {
            verbosity
                .remark(format_args!("only the first {LIMIT} names are listed: give a prefix"));
        }
        let mut locks = Vec::with_capacity(names.len());
        for name in names {
            let look = look(admin.inspect(&name).await)?;
            locks.push(LockLine::seen(name, look, now_ms()));
        }
        Ok(locks)
    })?;
    let unreadable = locks.iter().filter(|line| line.row.unreadable.is_some()).count();
    if let Some(words) = unreadable_in_words(unreadable) {
        verbosity.remark(words);
    }
    let listing = asked(args);
    let locks = listing.of(locks);
    if locks.is_empty() {
        choice.warn_if_local(verbosity);
    }
    if args.output.json {
        print_json(&locks.iter().map(LockLine::view).collect::<Vec<_>>())?;
    } else if locks.is_empty() {
        verbosity.remark(listing::nothing(&listing));
    } else {
        print(listing::rows(&locks, now_ms(), room()))?;
    }
    Ok(0)
}

/// The locks that the arguments select.
fn asked(args: &Ls) -> Listing {
    let (prefix, held_longer_than) = (args.prefix.clone(), args.held_longer_than);
    Listing { prefix, held_longer_than, all: args.all, sort: args.sort }
}

/// The first [`LIMIT`] listed locks, and whether these are all. `list` returns at most as many as
/// it is asked for.
async fn first<T>(
    list: impl AsyncFnOnce(u32) -> leasehold::Result<Vec<T>>,
) -> leasehold::Result<(Vec<T>, bool)> {
    // One lock beyond the limit shows whether there are more.
    let mut listed = list(LIMIT + 1).await?;
    let are_all = listed.len() <= LIMIT as usize;
    listed.truncate(LIMIT as usize);
    Ok((listed, are_all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn exactly_as_many_names_as_are_listed_are_all_and_one_more_is_not() {
        for (there, listed, are_all) in
            [(0, 0, true), (9_999, 9_999, true), (10_000, 10_000, true), (10_001, 10_000, false)]
        {
            let list = async |most| Ok((0..there).take(most as usize).collect());
            let (names, all) = first(list).await.unwrap();
            assert_eq!((names, all), ((0..listed).collect::<Vec<u32>>(), are_all), "of {there}");
        }
    }
}
