//! `leasehold show`: who holds one lock and who waits for it.

use leasehold::admin::{HoldState, Holder, Status, Waiter};
use leasehold::time::show_duration;
use leasehold::{FencingToken, LockName};

use super::status_view::{StatusView, foreign_row, mode, state};
use crate::args::Show;
use crate::connection::connect;
use crate::report::{Failure, NO, Outcome, Voice, print, print_json};
use crate::runtime::block_on;
use crate::store_choice;
use crate::table::{cut_to_terminal, table};

/// Shows one lock; exit code 1 if it is free, or not held with the token that was given.
pub(crate) fn show(args: &Show) -> Outcome {
    let voice = Voice::from(args.output.voice);
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let status = block_on(async {
        let client = connect(&choice, voice).await?;
        let status = client.admin().inspect(&args.name).await?;
        client.close().await?;
        Ok::<_, Failure>(status)
    })??;
    if status.is_free() {
        choice.warn_if_local(voice);
    }
    if args.output.json {
        print_json(&StatusView::new(&args.name, &status))?;
    } else {
        print_tables(&args.name, &status)?;
    }
    let is_so = match args.token {
        None => !status.is_free(),
        Some(token) => {
            let is_held = is_held_with(token, &status);
            if !is_held {
                let name = &args.name;
                voice.remark(format_args!("{name}: the lease with token {token} does not hold it"));
            }
            is_held
        }
    };
    Ok(if is_so { 0 } else { NO })
}

/// Whether the lease with this token holds the lock, and nobody has told it to stop.
fn is_held_with(token: FencingToken, status: &Status) -> bool {
    let mut holders = status.holders.iter();
    holders.any(|holder| holder.token == token && holder.state == HoldState::Claimed)
}

fn print_tables(name: &LockName, status: &Status) -> Result<(), Failure> {
    if status.is_free() {
        let last = status.last_token.map(|token| format!("; its last token was {token}"));
        let name = crate::report::escaped(name.as_str());
        print(format_args!("{name} is free{}", last.unwrap_or_default()))?;
    } else {
        let foreign = status.foreign.iter().map(foreign_row);
        let rows: Vec<_> = status.holders.iter().map(holder_row).chain(foreign).collect();
        let titles = ["HOLDER", "MODE", "STATE", "HELD", "LEFT", "TOKEN", "LABEL"];
        print(cut_to_terminal(table(titles, &rows)))?;
    }
    if status.waiting > 0 {
        let rows: Vec<_> = status.waiters.iter().map(waiter_row).collect();
        let waiters = table(["#", "WAITER", "MODE", "WAITED", "LABEL"], &rows);
        print(format_args!("\n{}", cut_to_terminal(waiters)))?;
        let unseen = status.waiting as usize - status.waiters.len().min(status.waiting as usize);
        if unseen > 0 {
            print(format_args!("and {unseen} more"))?;
        }
    }
    Ok(())
}

fn holder_row(holder: &Holder) -> [String; 7] {
    let has_ended = if holder.state == HoldState::Cooldown { " (ended)" } else { "" };
    [
        format!("{}:{}{has_ended}", holder.info.host, holder.info.pid),
        mode(holder.mode),
        state(holder.state).to_owned(),
        show_duration(holder.held_for),
        show_duration(holder.ttl_left),
        holder.token.to_string(),
        holder.info.label.clone().unwrap_or_default(),
    ]
}

fn waiter_row(waiter: &Waiter) -> [String; 5] {
    [
        waiter.position.to_string(),
        format!("{}:{}", waiter.info.host, waiter.info.pid),
        mode(waiter.mode),
        show_duration(waiter.waited),
        waiter.info.label.clone().unwrap_or_default(),
    ]
}
