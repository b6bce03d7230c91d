//! The interface for programs.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold::LockName;
use leasehold::admin::LeaseId;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::App;
use super::answer::Refused;
use super::views::{self, LockView, PageView, RowView, ScreenView, StateView};
use crate::watch::{Order, Row, Selection};

/// The most locks in one answer, and the default: 1000.
const MOST: usize = 1_000;

/// The most rows of the page in one answer: 200, more than a screen has.
const MOST_SEEN: usize = 200;

/// How long a look may take: 3 s. After that the answer is that the store is away.
const INSPECT: Duration = Duration::from_secs(3);

/// The locks that a request asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    /// Only names with this prefix.
    #[serde(default)]
    prefix: String,
    /// The most names to return; 1000 by default.
    limit: Option<usize>,
    /// The value of `next` in the page before.
    cursor: Option<String>,
}

/// The part of the list that can be seen.
#[derive(Debug, Deserialize)]
pub(super) struct Seen {
    /// Only locks with this text.
    #[serde(default)]
    text: String,
    #[serde(default)]
    order: Order,
    /// The first row.
    #[serde(default)]
    from: usize,
    count: usize,
}

/// The lease that is revoked.
#[derive(Debug, Deserialize)]
pub(super) struct Revoke {
    /// The token of the lease, or the id of its holder. No other lease is revoked.
    lease: String,
    /// Revokes the lease now, although its holder may still be at work. Then two holders may
    /// overlap.
    #[serde(default)]
    force: bool,
}

/// The totals, the first deadlocks, and whether the store answers
pub(super) async fn state(State(app): State<Arc<App>>) -> Json<StateView> {
    Json(StateView::of(&app))
}

/// The locks that are held or awaited, by name
pub(super) async fn locks(
    State(app): State<Arc<App>>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(which) = which?;
    let limit = which.limit.unwrap_or(MOST);
    let refused = |why: String| Refused::new(StatusCode::BAD_REQUEST, why);
    if !(1..=MOST).contains(&limit) {
        return Err(refused(format!("limit: {limit} is out of range: ask for 1 to {MOST}")));
    }
    let after = which.cursor.as_ref().map(LockName::new).transpose();
    let after = after.map_err(|refusal| refused(format!("cursor: {refusal}")))?;
    let (now_ms, picture) = (app.watcher.time.now_ms(), app.watcher.picture());
    let (prefix, order) = (which.prefix, Order::Name);
    let mut rows = picture.list(&Selection { prefix, order, ..Selection::default() });
    rows.retain(|(name, _)| after.as_ref().is_none_or(|after| *name > after));
    let next = rows.get(limit).map(|_| rows[limit - 1].0.to_string());
    rows.truncate(limit);
    let deadlocks = picture.deadlocks();
    let view = |lock| LockView::new(lock, views::MOST, &deadlocks, now_ms);
    let locks = rows.into_iter().map(view).collect();
    Ok(Json(PageView { locks, next }).into_response())
}

/// What the page shows: the totals, and the rows that can be seen
pub(super) async fn screen(
    State(app): State<Arc<App>>,
    seen: Result<Query<Seen>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(Seen { text, order, from, count }) = seen?;
    let state = StateView::of(&app);
    let (now_ms, picture) = (app.watcher.time.now_ms(), app.watcher.picture());
    let total = picture.rows().filter(|(_, row)| row.is_used()).count();
    let rows = picture.list(&Selection { text, order, ..Selection::default() });
    let matching = rows.len();
    let rows = rows.into_iter().skip(from).take(count.min(MOST_SEEN));
    let deadlocks = picture.deadlocks();
    let view = |(name, row)| {
        let lock = LockView::new((name, row), views::MOST, &deadlocks, now_ms);
        RowView { lock, history: &row.history }
    };
    let rows = rows.map(view).collect();
    Ok(Json(ScreenView { state, total, matching, from, rows }).into_response())
}

/// One lock, as it is now
pub(super) async fn lock(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let name = LockName::new(&name?.0)?;
    let Some(client) = app.client.get() else { return Err(away(&app)) };
    let Ok(status) = timeout(INSPECT, client.admin().inspect(&name)).await else {
        return Err(away(&app));
    };
    let status = status.map_err(Refused::from)?;
    let now_ms = app.watcher.time.now_ms();
    let mut row = Row::new(now_ms);
    row.saw(Ok(status), now_ms);
    let picture = app.watcher.picture();
    let view = LockView::new((&name, &row), usize::MAX, &picture.deadlocks(), now_ms);
    Ok(Json(view).into_response())
}

/// The last findings of the doctor
pub(super) async fn doctor(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let mut reports = app.report.subscribe();
    let report = reports.wait_for(Option::is_some).await;
    let report = report.ok().and_then(|report| report.clone());
    let report = report.ok_or_else(|| Refused::away("the doctor is not done yet"))?;
    Ok(Json(&*report).into_response())
}

/// Revokes a lease: its holder stops and releases it
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
    revoke: Result<Json<Revoke>, JsonRejection>,
) -> Result<Response, Refused> {
    let (name, Json(revoke)) = (LockName::new(&name?.0)?, revoke?);
    let Some(client) = app.client.get() else { return Err(away(&app)) };
    let lease: LeaseId = revoke.lease.parse()?;
    let admin = client.admin();
    let outcome = match revoke.force {
        true => admin.revoke_now(&name, lease).await,
        false => admin.revoke(&name, lease).await,
    };
    match outcome {
        Ok(true) => Ok(Json(json!({ "revoked": true })).into_response()),
        Ok(false) => {
            let why = format!("{name}: the lease {lease} does not hold it");
            Err(Refused::new(StatusCode::CONFLICT, why))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether this process answers
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the store answers
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<&'static str, Refused> {
    let is_there = app.watcher.picture().store.is_there;
    // The reason is only for clients that may read.
    let refused = || Refused::away("the store does not answer");
    is_there.then_some("ok\n").ok_or_else(refused)
}

fn away(app: &App) -> Refused {
    let why = app.watcher.picture().store.why.clone();
    let late = || "the lock could not be looked at in time: ask again".to_owned();
    Refused::away(why.unwrap_or_else(late))
}
