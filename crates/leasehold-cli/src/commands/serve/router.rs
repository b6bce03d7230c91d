//! What is where, and what all answers have in common.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use tower_http::timeout::TimeoutLayer;

use super::answer::Refused;
use super::app::App;
use super::authorize::{Needs, authorize};
use super::{api, assets, events, login, metrics};

/// Largest body that is read: 4 KiB, more than any request has.
const MOST_BYTES: usize = 4096;

/// How long a request may take, its body included: 10 s.
const LONGEST: Duration = Duration::from_secs(10);

/// What browsers are told with every answer: nothing is fetched from elsewhere, nothing written in
/// the page is run, and no other page may show or read it.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// Everything that is answered.
pub(super) fn router(app: &Arc<App>) -> Router {
    let needing = |needs| from_fn_with_state((Arc::clone(app), needs), authorize);
    let open = Router::new()
        .route("/", get(assets::page))
        .route("/app.js", get(assets::script))
        .route("/style.css", get(assets::style))
        .route("/icon.svg", get(assets::icon))
        .route("/healthz", get(api::healthz))
        .route("/readyz", get(api::readyz))
        .route("/login", post(login::login))
        .route("/logout", post(login::logout))
        .fallback(async || Refused::new(StatusCode::NOT_FOUND, "there is nothing here"))
        .layer(needing(Needs::Nothing));
    let read = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/api/v1/openapi.json", get(assets::openapi))
        .route("/api/v1/state", get(api::state))
        .route("/api/v1/locks", get(api::locks))
        .route("/api/v1/locks/{name}", get(api::lock))
        .route("/api/v1/timeline", get(api::timeline))
        .route("/api/v1/doctor", get(api::doctor))
        .route_layer(needing(Needs::Reading));
    let revoke = Router::new()
        .route("/api/v1/locks/{name}/revoke", post(api::revoke))
        .route_layer(needing(Needs::Revoking));
    // Who listens does so for as long as he likes.
    let listen = Router::new()
        .route("/api/v1/events", get(events::events))
        .route_layer(needing(Needs::Reading));
    open.merge(read)
        .merge(revoke)
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONGEST))
        .merge(listen)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(from_fn(with_headers))
        .with_state(Arc::clone(app))
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        response.headers_mut().insert(name, value);
    }
    response
}
