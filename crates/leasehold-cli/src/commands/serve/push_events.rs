//! Sends changes to the listeners.

use serde::Serialize;

use super::app::App;
use super::views::{ChangeView, StateView};
use crate::watch::Update;

/// Sends an update to the listeners.
pub(super) fn push(app: &App, update: Update) {
    if app.messages.receiver_count() == 0 {
        return;
    }
    match update {
        Update::Lock(change) => {
            let picture = app.watcher.picture();
            let now_ms = app.watcher.time.now_ms();
            send(app, "lock", &ChangeView::new(&change, &picture, now_ms));
        }
        Update::Store => push_state(app),
    }
}

/// Sends the present state to the listeners.
pub(super) fn push_state(app: &App) {
    if app.messages.receiver_count() > 0 {
        send(app, "state", &StateView::of(app));
    }
}

fn send(app: &App, event: &str, data: &impl Serialize) {
    if let Some(message) = message(event, data) {
        // There may be no listener any more.
        let _unheard = app.messages.send(message.into());
    }
}

/// One server-sent event. JSON has no line breaks, so its data is one line.
pub(super) fn message(event: &str, data: &impl Serialize) -> Option<String> {
    let data = serde_json::to_string(data).ok()?;
    Some(format!("event: {event}\ndata: {data}\n\n"))
}
