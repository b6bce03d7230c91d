//! `leasehold ls`: the locks that are held or awaited, by name.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use leasehold::LockName;
use leasehold::admin::Admin;
use leasehold::time::show_duration;

use super::status_view::{StatusView, foreign_words, token};
use super::totals::unreadable_in_words;
use crate::args::Ls;
use crate::connection::ask;
use crate::moment::{local, now_ms};
use crate::report::{Outcome, print, print_json};
use crate::table::{Column, room, table};
use crate::watch::{Row, look};

/// The most names that are listed: 10 000, with a request for each. For more names, give a prefix.
const LIMIT: u32 = 10_000;

/// How many locks are looked at at the same time: 32, which hides the round trips.
const MOST_LOOKS: usize = 32;

/// The columns of the table. A terminal of 40 characters has room for name, mode, holder, held and
/// waiting.
const COLUMNS: [Column; 9] = [
    Column::of_texts("NAME", 0),
    Column::of_values("MODE", 4),
    Column::of_texts("HOLDER", 1),
    Column::of_values("SINCE", 7),
    Column::of_values("HELD", 2),
    Column::of_values("LEFT", 5),
    Column::of_values("TOKEN", 8),
    Column::of_values("WAITING", 3),
    Column::of_texts("LABEL", 6),
];

/// Lists the locks of the store.
pub(crate) fn ls(args: &Ls) -> Outcome {
    let verbosity = args.output.store.verbosity;
    let choice = args.output.store.choose()?;
    let mut locks = ask(&choice, verbosity, async |client| {
        let (locks, are_all) = look_at_all(&client.admin(), &args.prefix).await?;
        if !are_all {
            verbosity
                .remark(format_args!("only the first {LIMIT} names are listed: give a prefix"));
        }
        Ok(locks)
    })?;
    let unreadable = locks.iter().filter(|(_, row)| row.unreadable.is_some()).count();
    if let Some(words) = unreadable_in_words(unreadable) {
        verbosity.remark(words);
    }
    // A lock that was released between two requests is idle by now.
    let is_old =
        |row: &Row| args.held_longer_than.is_none_or(|least| row.held(row.seen_ms) > Some(least));
    locks.retain(|(_, row)| row.is_used() && is_old(row));
    locks.sort_by(|(one, _), (other, _)| one.cmp(other));
    if locks.is_empty() {
        choice.warn_if_local(verbosity);
    }
    if args.output.json {
        let views = locks.iter().map(|(name, row)| {
            StatusView::new(name, &row.status, row.unreadable.as_ref(), row.seen_ms)
        });
        print_json(&views.collect::<Vec<_>>())?;
    } else if locks.is_empty() {
        verbosity.remark(nothing(args));
    } else {
        let rows: Vec<_> = locks.iter().map(|(name, row)| cells(name, row, now_ms())).collect();
        print(table(&COLUMNS, &rows, room()))?;
    }
    Ok(0)
}

/// Looks at the first [`LIMIT`] locks whose names have this prefix. Returns them, and whether these
/// are all.
pub(super) async fn look_at_all(
    admin: &Admin,
    prefix: &str,
) -> leasehold::Result<(Vec<(LockName, Row)>, bool)> {
    // One lock beyond the limit shows whether there are more.
    let (names, are_all) = first(admin.list(prefix, LIMIT + 1).await?);
    let looks = stream::iter(names).map(async |name| {
        let (look, now_ms) = (look(admin.inspect(&name).await)?, now_ms());
        let mut row = Row::new(now_ms);
        row.saw(look, now_ms);
        leasehold::Result::Ok((name, row))
    });
    Ok((looks.buffered(MOST_LOOKS).try_collect().await?, are_all))
}

/// The message if no lock is listed.
fn nothing(args: &Ls) -> String {
    let is = match args.held_longer_than {
        Some(least) => format!("is held for longer than {}", show_duration(least)),
        None => "is held or awaited".to_owned(),
    };
    match args.prefix.as_str() {
        "" => format!("no lock {is}"),
        prefix => format!("no lock whose name begins with {prefix} {is}"),
    }
}

/// The first [`LIMIT`] of the listed locks, and whether these are all.
fn first<T>(mut listed: Vec<T>) -> (Vec<T>, bool) {
    let are_all = listed.len() <= LIMIT as usize;
    listed.truncate(LIMIT as usize);
    (listed, are_all)
}

fn cells(name: &LockName, row: &Row, now_ms: u64) -> [String; 9] {
    let (name, status) = (name.to_string(), &row.status);
    let (mode, waiting, unknown) = (row.mode(), status.waiting.to_string(), || "-".to_owned());
    if let Some(foreign) = &status.foreign {
        let [holder, left, label] = foreign_words(foreign);
        return [name, mode, holder, unknown(), unknown(), left, unknown(), waiting, label];
    }
    let span = |span: Option<_>| span.map_or_else(unknown, show_duration);
    let since = row.held_since_ms().map(|since_ms| local(since_ms, now_ms));
    [
        name,
        mode,
        row.holder(),
        since.unwrap_or_else(unknown),
        span(row.held(row.seen_ms)),
        span(row.left(row.seen_ms)),
        token(row.token()),
        waiting,
        row.label(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_as_many_names_as_are_listed_are_all_and_one_more_is_not() {
        for (there, listed, are_all) in
            [(0, 0, true), (LIMIT, LIMIT, true), (LIMIT + 1, LIMIT, false)]
        {
            assert_eq!(first((0..there).collect()), ((0..listed).collect(), are_all), "{there}");
        }
    }
}
