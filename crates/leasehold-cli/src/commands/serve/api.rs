//! The interface for programs.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold::{Error, FencingToken, LockName};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::answer::{ErrorView, Refused};
use super::app::App;
use super::views::{LockView, PageView, StateView, TimelineView};
use crate::commands::doctor::Checkup;
use crate::watch::{Availability, Picture, Row};

/// The most locks in one answer, and the default: 1000.
const MOST: usize = 1_000;

/// How long a look may take: 3 s. After that the answer is that the store is away.
const INSPECT: Duration = Duration::from_secs(3);

/// The locks that a request asks for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only names with this prefix.
    #[serde(default)]
    prefix: String,
    /// The most names to return; 1000 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The value of `next` in the page before.
    cursor: Option<String>,
}

/// The lease that is revoked.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Revoke {
    /// The token of the lease. No other lease is revoked.
    #[schema(value_type = String)]
    token: FencingToken,
    /// Revokes the lease now, although its holder may still be at work. Then two holders may
    /// overlap.
    #[serde(default)]
    force: bool,
}

/// The lease was revoked.
#[derive(Serialize, ToSchema)]
struct Revoked {
    revoked: bool,
}

/// The totals, the first deadlocks, and whether the store answers
#[utoipa::path(get, path = "/api/v1/state", responses(
    (status = 200, description = "Done.", body = StateView),
    Refused,
))]
pub(super) async fn state(State(app): State<Arc<App>>) -> Json<StateView> {
    Json(StateView::of(&app))
}

/// The locks that are held or awaited, by name
#[utoipa::path(get, path = "/api/v1/locks", params(Which), responses(
    (status = 200, description = "Done.", body = PageView<LockView<'_>>),
    (status = 400, description = "A parameter is wrong.", body = ErrorView),
    Refused,
))]
pub(super) async fn locks(
    State(app): State<Arc<App>>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(which) = which?;
    let (now_ms, picture) = (app.watcher.time.now_ms(), app.watcher.picture());
    let used = page(&picture, &which, |name, row| {
        row.is_used().then(|| LockView::brief(name, row, &picture, now_ms))
    });
    Ok(Json(used?).into_response())
}

/// Who held the locks in the last 10 minutes, and when, and how many waited
#[utoipa::path(get, path = "/api/v1/timeline", params(Which), responses(
    (status = 200, description = "Done.", body = PageView<TimelineView<'_>>),
    (status = 400, description = "A parameter is wrong.", body = ErrorView),
    Refused,
))]
pub(super) async fn timeline(
    State(app): State<Arc<App>>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(which) = which?;
    let picture = app.watcher.picture();
    let all = page(&picture, &which, |name, row| Some(TimelineView::new(name, row)));
    Ok(Json(all?).into_response())
}

fn page<'a, T>(
    picture: &'a Picture,
    which: &Which,
    view: impl Fn(&'a LockName, &'a Row) -> Option<T>,
) -> Result<PageView<T>, Refused> {
    let limit = which.limit.unwrap_or(MOST);
    if !(1..=MOST).contains(&limit) {
        let why = format!("limit: {limit} is out of range: ask for 1 to {MOST}");
        return Err(Refused::new(StatusCode::BAD_REQUEST, why));
    }
    let after = which.cursor.as_ref().map(LockName::new).transpose();
    let after = after
        .map_err(|refusal| Refused::new(StatusCode::BAD_REQUEST, format!("cursor: {refusal}")))?;
    let rows: Box<dyn Iterator<Item = (&LockName, &Row)>> = match &after {
        None => Box::new(picture.rows()),
        Some(after) => Box::new(picture.rows_after(after)),
    };
    let (mut locks, mut last, mut next) = (Vec::new(), None, None);
    for (name, row) in rows.filter(|(name, _)| name.as_str().starts_with(&which.prefix)) {
        let Some(lock) = view(name, row) else { continue };
        if locks.len() == limit {
            next = last.map(ToString::to_string);
            break;
        }
        locks.push(lock);
        last = Some(name);
    }
    Ok(PageView { locks, next })
}

/// One lock, as it is now or was at most a second ago
#[utoipa::path(get, path = "/api/v1/locks/{name}", params(
    ("name" = String, Path, description = "The name of the lock, percent-encoded, a slash as %2F."),
), responses(
    (status = 200, description = "Done.", body = LockView<'_>),
    (status = 400, description = "That is no name.", body = ErrorView),
    (
        status = 502,
        description = "The store cannot read its record; `kind` says why.",
        body = ErrorView,
    ),
    (status = 503, description = "The store does not answer.", body = ErrorView),
    Refused,
))]
pub(super) async fn lock(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Refused> {
    let name = checked(&name?)?;
    let Ok(row) = timeout(INSPECT, app.watcher.inspect(&name)).await else {
        return Err(away(&app));
    };
    if let Some(error) = &row.unreadable {
        return Err(Refused::by_store(error));
    }
    let (now_ms, picture) = (app.watcher.time.now_ms(), app.watcher.picture());
    Ok(Json(LockView::whole(&name, &row, &picture, now_ms)).into_response())
}

/// The last findings of the doctor
#[utoipa::path(get, path = "/api/v1/doctor", responses(
    (status = 200, description = "Done.", body = Checkup),
    Refused,
))]
pub(super) async fn doctor(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let mut reports = app.report.subscribe();
    let report = reports.wait_for(Option::is_some).await;
    let report = report.ok().and_then(|report| report.clone());
    let report = report.ok_or_else(|| Refused::away("the doctor is not done yet"))?;
    Ok(Json(&*report).into_response())
}

/// Revokes a lease: its holder stops and releases it
#[utoipa::path(post, path = "/api/v1/locks/{name}/revoke", security(("token" = [])), params(
    ("name" = String, Path, description = "The name of the lock, percent-encoded, a slash as %2F."),
), request_body = Revoke, responses(
    (
        status = 200,
        description = "Its holder is asked to stop, or with `force` has lost it.",
        body = Revoked,
    ),
    (status = 400, description = "That is no name.", body = ErrorView),
    (status = 409, description = "Nobody holds it with this token.", body = ErrorView),
    (status = 503, description = "The store does not answer.", body = ErrorView),
    Refused,
))]
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
    revoke: Result<Json<Revoke>, JsonRejection>,
) -> Result<Response, Refused> {
    let (name, Json(revoke)) = (checked(&name?)?, revoke?);
    let Some(client) = app.client.get() else { return Err(away(&app)) };
    let (admin, token) = (client.admin(), revoke.token);
    let outcome = match revoke.force {
        true => admin.revoke_now(&name, token).await,
        false => admin.revoke(&name, token).await,
    };
    match outcome {
        Ok(true) => Ok(Json(Revoked { revoked: true }).into_response()),
        Ok(false) => {
            let why = format!("{name}: nobody holds it with token {token}");
            Err(Refused::new(StatusCode::CONFLICT, why))
        }
        Err(Error::Store(error)) if error.kind().is_outage() => {
            Err(Refused::away(error.to_string()))
        }
        Err(Error::Store(error)) => Err(Refused::by_store(&error)),
        Err(error) => Err(Refused::new(StatusCode::BAD_GATEWAY, error.to_string())),
    }
}

/// Whether this process answers
#[utoipa::path(get, path = "/healthz", security(()), responses(
    (status = 200, description = "It does.", body = String),
))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the store answers
#[utoipa::path(get, path = "/readyz", security(()), responses(
    (status = 200, description = "It does.", body = String),
    (status = 503, description = "It does not.", body = ErrorView),
))]
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<&'static str, Refused> {
    let is_there = *app.watcher.picture().store() == Availability::There;
    // The reason is only for clients that may read.
    let refused = || Refused::away("the store does not answer");
    is_there.then_some("ok\n").ok_or_else(refused)
}

fn checked(name: &str) -> Result<LockName, Refused> {
    LockName::new(name)
        .map_err(|refusal| Refused::new(StatusCode::BAD_REQUEST, refusal.to_string()))
}

fn away(app: &App) -> Refused {
    let why = app.watcher.picture().store().why().map(str::to_owned);
    let late = || "the lock could not be looked at in time: ask again".to_owned();
    Refused::away(why.unwrap_or_else(late))
}
