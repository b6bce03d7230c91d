//! `leasehold show`: who holds one lock and who waits for it.

use leasehold::{
    FencingToken, Foreign, HoldState, Holder, HolderId, LockName, Mode, Status, Waiter,
    show_duration,
};
use serde::Serialize;

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
    let has_ended = if holder.state == HoldState::Kept { " (ended)" } else { "" };
    [
        format!("{}:{}{has_ended}", holder.facts.host, holder.facts.pid),
        mode(holder.mode),
        state(holder.state).to_owned(),
        show_duration(holder.held_for),
        show_duration(holder.ttl_left),
        holder.token.to_string(),
        holder.facts.label.clone().unwrap_or_default(),
    ]
}

/// A holder of which only the value is known, and whether anything ends its hold.
pub(crate) fn foreign_row(foreign: &Foreign) -> [String; 7] {
    let unknown = || "-".to_owned();
    let left = foreign.ttl_left.map_or_else(|| "no end".to_owned(), show_duration);
    let label = format!("value {:?}", foreign.value);
    let holder = "another program".to_owned();
    [
        holder,
        mode(Mode::Exclusive),
        state(HoldState::Claimed).to_owned(),
        unknown(),
        left,
        unknown(),
        label,
    ]
}

fn waiter_row(waiter: &Waiter) -> [String; 5] {
    [
        waiter.position.to_string(),
        format!("{}:{}", waiter.facts.host, waiter.facts.pid),
        mode(waiter.mode),
        show_duration(waiter.waited),
        waiter.facts.label.clone().unwrap_or_default(),
    ]
}

fn mode(mode: Mode) -> String {
    match mode {
        Mode::Permits { count, capacity } => format!("{count}/{capacity}"),
        Mode::Shared => "shared".to_owned(),
        Mode::Upgradable => "upgradable".to_owned(),
        _ => "exclusive".to_owned(),
    }
}

fn state(state: HoldState) -> &'static str {
    match state {
        HoldState::Kept => "kept",
        HoldState::Revoked => "revoked",
        HoldState::Unclaimed => "granted",
        _ => "held",
    }
}

/// One lock as JSON: spans are seconds, tokens are strings.
#[derive(Serialize)]
pub(crate) struct StatusView<'a> {
    name: &'a LockName,
    foreign: Option<ForeignView<'a>>,
    holders: Vec<HolderView<'a>>,
    waiters: Vec<WaiterView<'a>>,
    waiting: u32,
    last_token: Option<FencingToken>,
}

#[derive(Serialize)]
struct ForeignView<'a> {
    value: &'a str,
    left_seconds: Option<f64>,
}

#[derive(Serialize)]
struct HolderView<'a> {
    holder: HolderId,
    mode: String,
    state: &'static str,
    token: FencingToken,
    host: &'a str,
    pid: u32,
    label: Option<&'a str>,
    held_seconds: f64,
    left_seconds: f64,
}

#[derive(Serialize)]
struct WaiterView<'a> {
    waiter: HolderId,
    mode: String,
    position: u32,
    host: &'a str,
    pid: u32,
    label: Option<&'a str>,
    waited_seconds: f64,
}

impl<'a> StatusView<'a> {
    /// The view of one lock.
    pub(crate) fn new(name: &'a LockName, status: &'a Status) -> Self {
        Self {
            name,
            foreign: status.foreign.as_ref().map(ForeignView::new),
            holders: status.holders.iter().map(HolderView::new).collect(),
            waiters: status.waiters.iter().map(WaiterView::new).collect(),
            waiting: status.waiting,
            last_token: status.last_token,
        }
    }
}

impl<'a> ForeignView<'a> {
    fn new(foreign: &'a Foreign) -> Self {
        let left_seconds = foreign.ttl_left.map(|left| left.as_secs_f64());
        Self { value: &foreign.value, left_seconds }
    }
}

impl<'a> HolderView<'a> {
    fn new(holder: &'a Holder) -> Self {
        Self {
            holder: holder.id,
            mode: mode(holder.mode),
            state: state(holder.state),
            token: holder.token,
            host: &holder.facts.host,
            pid: holder.facts.pid,
            label: holder.facts.label.as_deref(),
            held_seconds: holder.held_for.as_secs_f64(),
            left_seconds: holder.ttl_left.as_secs_f64(),
        }
    }
}

impl<'a> WaiterView<'a> {
    fn new(waiter: &'a Waiter) -> Self {
        Self {
            waiter: waiter.id,
            mode: mode(waiter.mode),
            position: waiter.position,
            host: &waiter.facts.host,
            pid: waiter.facts.pid,
            label: waiter.facts.label.as_deref(),
            waited_seconds: waiter.waited.as_secs_f64(),
        }
    }
}
