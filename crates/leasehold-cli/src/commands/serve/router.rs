//! The routes, the files of the page, and the headers that all answers share.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use tower_http::timeout::TimeoutLayer;

use super::access::{Needs, authorize};
use super::answer::Refused;
use super::{App, api, metrics};

/// The largest body that is read: 4 KiB, more than any request needs.
const MOST_BYTES: usize = 4096;

/// How long a request may take, its body included: 10 s.
const LONGEST: Duration = Duration::from_secs(10);

/// The headers of every answer. They tell browsers to fetch nothing from elsewhere, and to run no
/// script inside the page's HTML. No other page may show or read this one.
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

/// The router of all requests.
pub(super) fn router(app: &Arc<App>) -> Router {
    let needing = |needs| from_fn_with_state((Arc::clone(app), needs), authorize);
    let open = Router::new()
        .route("/", file("text/html", include_str!("page/index.html")))
        .route("/app.js", file("text/javascript", include_str!("page/app.js")))
        .route("/style.css", file("text/css", include_str!("page/style.css")))
        .route("/icon.svg", file("image/svg+xml", include_str!("page/icon.svg")))
        .route("/healthz", get(api::healthz))
        .route("/readyz", get(api::readyz))
        .fallback(async || Refused::new(StatusCode::NOT_FOUND, "there is nothing here"))
        .layer(needing(Needs::Nothing));
    let read = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/api/v1/state", get(api::state))
        .route("/api/v1/screen", get(api::screen))
        .route("/api/v1/locks", get(api::locks))
        .route("/api/v1/locks/{name}", get(api::lock))
        .route("/api/v1/doctor", get(api::doctor))
        .route_layer(needing(Needs::Reading));
    let revoke = Router::new()
        .route("/api/v1/locks/{name}/revoke", post(api::revoke))
        .route_layer(needing(Needs::Revoking));
    open.merge(read)
        .merge(revoke)
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONGEST))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(from_fn(with_headers))
        .with_state(Arc::clone(app))
}

/// The route of a file of the page, which is part of this program.
fn file(kind: &'static str, text: &'static str) -> MethodRouter<Arc<App>> {
    get(async move || ([(CONTENT_TYPE, format!("{kind}; charset=utf-8"))], text))
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        response.headers_mut().insert(name, value);
    }
    response
}
