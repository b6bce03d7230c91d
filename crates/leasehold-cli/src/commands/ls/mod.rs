//! `leasehold ls`: the locks that are held or awaited.

mod changes;
mod listing;
mod screen;
mod watch;

use self::listing::Listing;
use super::line::Line;
use super::status_view::StatusView;
use crate::args::{Ls, Sort};
use crate::connection::connect;
use crate::moment::now_ms;
use crate::report::{Failure, Outcome, Voice, print, print_json};
use crate::runtime::block_on;
use crate::store_choice;
use crate::table::room;

/// Most names that are listed: 10 000, each one request. Whoever has more gives a prefix.
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
    let voice = Voice::from(args.output.voice);
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let locks = block_on(async {
        let client = connect(&choice, voice).await?;
        let admin = client.admin();
        let names = match args.all {
            true => admin.list_all(&args.prefix, LIMIT).await?,
            false => admin.list(&args.prefix, LIMIT).await?,
        };
        let mut locks = Vec::with_capacity(names.len());
        for name in names {
            let status = admin.inspect(&name).await?;
            locks.push(Line::seen(name, status, now_ms()));
        }
        client.close().await?;
        Ok::<_, Failure>(locks)
    })??;
    if locks.len() == LIMIT as usize {
        voice.remark(format_args!("only the first {LIMIT} names were found: give a prefix"));
    }
    let listing = Listing::new(args);
    let locks = listing.of(locks);
    if locks.is_empty() {
        choice.warn_if_local(voice);
    }
    if args.output.json {
        let views =
            locks.iter().map(|line| StatusView::new(&line.name, &line.status, line.seen_ms));
        print_json(&views.collect::<Vec<_>>())?;
    } else if locks.is_empty() {
        voice.remark(listing.nothing());
    } else {
        print(listing::rows(&locks, now_ms(), room()))?;
    }
    Ok(0)
}
