//! Signing in and out.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::answer::Refused;
use super::app::App;
use super::sessions::LIFE;

/// The token that people type.
#[derive(Deserialize)]
pub(super) struct Login {
    token: String,
}

/// Signs in.
pub(super) async fn login(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    login: Result<Form<Login>, FormRejection>,
) -> Result<Response, Refused> {
    let Form(login) = login?;
    if !app.access.is_token(login.token.trim()) {
        return Err(Refused::new(StatusCode::UNAUTHORIZED, "that is not the token"));
    }
    let sessions = &app.access.sessions;
    let id = sessions.begin().ok_or_else(|| Refused::away("no random numbers: try again"))?;
    let cookie = sessions.cookie(&id, LIFE, app.access.is_by_tls(&headers));
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// Signs out.
pub(super) async fn logout(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let sessions = &app.access.sessions;
    sessions.end(&headers);
    let cookie = sessions.cookie("", Duration::ZERO, app.access.is_by_tls(&headers));
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}
