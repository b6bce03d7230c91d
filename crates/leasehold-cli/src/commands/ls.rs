//! `leasehold ls`: the locks that are held or awaited.

use leasehold::LockName;
use leasehold::admin::{HoldState, Status};
use leasehold::lease::Mode;
use leasehold::time::show_duration;

use super::status_view::{StatusView, foreign_row};
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
    let others = match status.holders.len() - 1 {
        0 => String::new(),
        others => format!(" +{others}"),
    };
    // That process has ended: nobody should look for it.
    let cooldown = if first.state == HoldState::Cooldown { "cooldown of " } else { "" };
    [
        name,
        use_of(status),
        format!("{cooldown}{}:{}{others}", first.info.host, first.info.pid),
        show_duration(first.held_for),
        show_duration(first.ttl_left),
        first.token.to_string(),
        waiting,
        first.info.label.clone().unwrap_or_default(),
    ]
}

/// What a lock is held as: `w` by one alone, `r` or `r×2` by readers, with `u` if one of them is
/// upgradable, `3/4` of its permits.
fn use_of(status: &Status) -> String {
    if let Some(foreign) = &status.foreign {
        // How many read in other languages is not known.
        return if foreign.mode == Mode::Shared { "r" } else { "w" }.to_owned();
    }
    let taken = status.holders.iter().map(|holder| u64::from(holder.mode.weight())).sum::<u64>();
    let upgradable = status.holders.iter().any(|holder| holder.mode == Mode::Upgradable);
    let u = if upgradable { "u" } else { "" };
    match (status.holders.first().map(|first| first.mode), status.holders.len()) {
        (Some(Mode::Shared | Mode::Upgradable), 1) => format!("r{u}"),
        (Some(Mode::Shared | Mode::Upgradable), readers) => format!("r{u}×{readers}"),
        (Some(Mode::Permits { capacity, .. }), _) => format!("{taken}/{capacity}"),
        _ => "w".to_owned(),
    }
}
