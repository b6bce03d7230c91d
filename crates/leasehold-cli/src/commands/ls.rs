//! `leasehold ls`: the locks that are held or awaited.

use leasehold::LockName;
use leasehold::admin::Status;
use leasehold::time::show_duration;

use super::status_view::{StatusView, foreign_row, holder_in_words, use_of};
use crate::args::Ls;
use crate::connection::connect;
use crate::report::{Failure, Outcome, Voice, print, print_json};
use crate::runtime::block_on;
use crate::store_choice;
use crate::table::{cut_to_terminal, table};

/// Most names that are listed: 10 000, each one request. Whoever has more gives a prefix.
const LIMIT: u32 = 10_000;

/// Lists the locks of the store, by name.
pub(crate) fn ls(args: &Ls) -> Outcome {
    let voice = Voice::from(args.output.voice);
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let mut locks = block_on(async {
        let client = connect(&choice, voice).await?;
        let admin = client.admin();
        let names = match args.all {
            true => admin.list_all(&args.prefix, LIMIT).await?,
            false => admin.list(&args.prefix, LIMIT).await?,
        };
        let mut locks = Vec::with_capacity(names.len());
        for name in names {
            let status = admin.inspect(&name).await?;
            locks.push((name, status));
        }
        client.close().await?;
        Ok::<_, Failure>(locks)
    })??;
    if locks.len() == LIMIT as usize {
        voice.remark(format_args!("only the first {LIMIT} names were found: give a prefix"));
    }
    // What was let go between the two requests is idle by now.
    locks.retain(|(_, status)| args.all || !status.is_free() || status.waiting > 0);
    locks.sort_by(|(one, _), (other, _)| one.cmp(other));
    if locks.is_empty() {
        choice.warn_if_local(voice);
    }
    if args.output.json {
        let views = locks.iter().map(|(name, status)| StatusView::new(name, status));
        print_json(&views.collect::<Vec<_>>())?;
    } else if locks.is_empty() {
        let is = if args.all { "is remembered" } else { "is held or awaited" };
        match args.prefix.as_str() {
            "" => voice.remark(format_args!("no lock {is}")),
            prefix => voice.remark(format_args!("no lock whose name begins with {prefix} {is}")),
        }
    } else {
        let rows: Vec<_> = locks.iter().map(|(name, status)| row(name, status)).collect();
        let titles = ["NAME", "MODE", "HOLDER", "HELD", "LEFT", "TOKEN", "WAITING", "LABEL"];
        print(cut_to_terminal(table(titles, &rows)))?;
    }
    Ok(0)
}

fn row(name: &LockName, status: &Status) -> [String; 8] {
    let (name, waiting) = (name.to_string(), status.waiting.to_string());
    if let Some(foreign) = &status.foreign {
        let [holder, _, _, held, left, token, label] = foreign_row(foreign);
        return [name, use_of(status), holder, held, left, token, waiting, label];
    }
    let Some(first) = status.holders.first() else {
        let token = status.last_token.map(|token| format!("({token})")).unwrap_or_default();
        let free = || "-".to_owned();
        return [name, free(), free(), free(), free(), token, waiting, String::new()];
    };
    [
        name,
        use_of(status),
        holder_in_words(status),
        show_duration(first.held_for),
        show_duration(first.ttl_left),
        first.token.to_string(),
        waiting,
        first.info.label.clone().unwrap_or_default(),
    ]
}
