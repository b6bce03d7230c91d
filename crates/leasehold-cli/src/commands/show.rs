//! `leasehold show`: who holds one lock, who waits for it, and which run succeeded last.

use std::time::Duration;

use leasehold::admin::{ForeignHolder, HoldState, Holder, Status, Waiter};
use leasehold::time::show_duration;
use leasehold::{FencingToken, LockName};
use tokio::time::sleep;

use super::status_view::{StatusView, foreign_words, mode, state, token};
use crate::args::Show;
use crate::connection::{ask, holders};
use crate::moment::{began_ms, local, now_ms};
use crate::report::{NO, Outcome, escaped, print, print_json};
use crate::table::{Column, room, table};

/// The columns of the holders.
const HOLDERS: [Column; 8] = [
    Column::of_texts("HOLDER", 0),
    Column::of_values("MODE", 2),
    Column::of_values("STATE", 5),
    Column::of_values("SINCE", 7),
    Column::of_values("HELD", 1),
    Column::of_values("LEFT", 4),
    Column::of_values("TOKEN", 3),
    Column::of_texts("LABEL", 6),
];

/// The columns of the waiters.
const WAITERS: [Column; 6] = [
    Column::of_values("#", 1),
    Column::of_texts("WAITER", 0),
    Column::of_values("MODE", 3),
    Column::of_values("SINCE", 5),
    Column::of_values("WAITED", 2),
    Column::of_texts("LABEL", 4),
];

/// How long a holder may take to tell the store its token: 100 ms, and the time for that.
const TELLING: Duration = Duration::from_millis(500);

/// Shows one lock; exit code 1 if it is free, or not held with the given token.
pub(crate) fn show(args: &Show) -> Outcome {
    let verbosity = args.output.store.verbosity;
    let choice = args.output.store.choose()?;
    let (status, seen_ms) = ask(&choice, verbosity, async |client| {
        let mut status = client.admin().inspect(&args.name).await?;
        let is_new = |it: &Holder| it.token.is_none() && it.state == HoldState::Claimed;
        if args.token.is_some() && status.holders.iter().any(is_new) {
            sleep(TELLING).await;
            status = client.admin().inspect(&args.name).await?;
        }
        Ok((status, now_ms()))
    })?;
    if status.is_free() {
        choice.warn_if_local(verbosity);
    }
    if args.output.json {
        print_json(&StatusView::new(&args.name, &status, None, seen_ms))?;
    } else {
        print(tables(&args.name, &status, seen_ms, room()))?;
    }
    let is_so = args.token.map_or(!status.is_free(), |token| is_held_with(token, &status));
    if let (Some(token), false) = (args.token, is_so) {
        let name = &args.name;
        verbosity.remark(format_args!("{name}: the lease with token {token} does not hold it"));
    }
    Ok(if is_so { 0 } else { NO })
}

/// Whether the lease with this token holds the lock, and nobody has told its holder to stop.
fn is_held_with(token: FencingToken, status: &Status) -> bool {
    let mut holders = status.holders.iter();
    holders.any(|holder| holder.token == Some(token) && holder.state == HoldState::Claimed)
}

/// The holders and the waiters of a lock, in lines for people.
pub(super) fn tables(
    name: &LockName,
    status: &Status,
    seen_ms: u64,
    room: Option<usize>,
) -> String {
    let mut text = if status.is_free() {
        let last = status.last_holder.as_ref().map_or_else(String::new, |last| format!("; {last}"));
        let held_back = holders(status).unwrap_or_else(|| "free".to_owned());
        escaped(&format!("{name} is {held_back}{last}"))
    } else {
        let foreign = status.foreign.iter().map(foreign_row);
        let holders = status.holders.iter().map(|holder| holder_row(holder, seen_ms));
        table(&HOLDERS, &holders.chain(foreign).collect::<Vec<_>>(), room)
    };
    if status.waiting > 0 {
        let waiters = status.waiters.iter().map(|waiter| waiter_row(waiter, seen_ms));
        text += "\n\n";
        text += &table(&WAITERS, &waiters.collect::<Vec<_>>(), room);
        let unseen = (status.waiting as usize).saturating_sub(status.waiters.len());
        if unseen > 0 {
            text += &format!("\nand {unseen} more");
        }
    }
    text
}

fn holder_row(holder: &Holder, seen_ms: u64) -> [String; 8] {
    let has_ended = if holder.state == HoldState::Cooldown { " (ended)" } else { "" };
    [
        format!("{}{has_ended}", holder.info.process(holder.id)),
        mode(holder.mode),
        state(holder.state).to_owned(),
        local(began_ms(seen_ms, holder.held_for), seen_ms),
        show_duration(holder.held_for),
        show_duration(holder.ttl_left),
        token(holder.token),
        holder.info.label.clone().unwrap_or_default(),
    ]
}

fn foreign_row(foreign: &ForeignHolder) -> [String; 8] {
    let ([holder, left, label], unknown) = (foreign_words(foreign), || "-".to_owned());
    let (mode, state) = (mode(foreign.mode), state(HoldState::Claimed).to_owned());
    [holder, mode, state, unknown(), unknown(), left, unknown(), label]
}

fn waiter_row(waiter: &Waiter, seen_ms: u64) -> [String; 6] {
    [
        waiter.position.to_string(),
        waiter.info.process(waiter.id),
        mode(waiter.mode),
        local(began_ms(seen_ms, waiter.waited), seen_ms),
        show_duration(waiter.waited),
        waiter.info.label.clone().unwrap_or_default(),
    ]
}
