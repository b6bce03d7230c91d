//! The routes, and the parts that all answers share.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use tower_http::timeout::TimeoutLayer;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Refused;
use super::app::App;
use super::authorize::{Needs, authorize};
use super::views::ChangeView;
use super::{api, assets, events, login, metrics};

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

/// The description of the interface, without the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "leasehold serve",
        version = "1",
        description = "Who holds and who awaits which lock. Spans are seconds, tokens are strings, \
                       times are milliseconds since 1970. `seen_ms` says when the watcher saw the \
                       answer, within its budget.",
    ),
    components(schemas(ChangeView<'_>)),
    security(("token" = []), ()),
    modifiers(&Bearer),
)]
struct Description;

/// Describes how the token is sent.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let why = "The token of --token-file: needed to revoke, and for everything where other \
                   machines can reach this.";
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(why));
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}

/// The router of all requests.
pub(super) fn router(app: &Arc<App>) -> Router {
    let needing = |needs| from_fn_with_state((Arc::clone(app), needs), authorize);
    let open = OpenApiRouter::with_openapi(Description::openapi())
        .route("/", get(assets::page))
        .route("/app.js", get(assets::script))
        .route("/style.css", get(assets::style))
        .route("/icon.svg", get(assets::icon))
        .routes(routes!(api::healthz))
        .routes(routes!(api::readyz))
        .route("/login", post(login::login))
        .route("/logout", post(login::logout))
        .fallback(async || Refused::new(StatusCode::NOT_FOUND, "there is nothing here"))
        .layer(needing(Needs::Nothing));
    let read = OpenApiRouter::default()
        .routes(routes!(metrics::metrics))
        .routes(routes!(api::state))
        .routes(routes!(api::locks))
        .routes(routes!(api::lock))
        .routes(routes!(api::timeline))
        .routes(routes!(api::doctor))
        .route_layer(needing(Needs::Reading));
    let revoke =
        OpenApiRouter::default().routes(routes!(api::revoke)).route_layer(needing(Needs::Revoking));
    // Listeners have no time limit.
    let listen = OpenApiRouter::default()
        .routes(routes!(events::events))
        .route_layer(needing(Needs::Reading));
    let (router, description) = open
        .merge(read)
        .merge(revoke)
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LONGEST))
        .merge(listen)
        .split_for_parts();
    let description = Router::new()
        .route("/api/v1/openapi.json", get(async move || Json(description)))
        .route_layer(needing(Needs::Reading));
    router
        .merge(description)
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
