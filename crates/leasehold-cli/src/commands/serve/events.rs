//! Server-sent events: changes, as they are noticed.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::answer::{ErrorView, Refused};
use super::app::App;
use super::push_events::message;
use super::views::StateView;

/// A listener.
struct Listener {
    /// The first message.
    first: Option<String>,
    messages: Receiver<Arc<str>>,
    _place: OwnedSemaphorePermit,
}

/// Server-sent events: `state` every 2 s, `lock` for each change, `resync` after lost changes
///
/// The data of `state` is a State, that of `lock` a Change. After `resync`, read all locks again.
#[utoipa::path(get, path = "/api/v1/events", responses(
    (status = 200, description = "Done.", body = String, content_type = "text/event-stream"),
    (status = 503, description = "Too many listen already.", body = ErrorView),
    Refused,
))]
pub(super) async fn events(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let Ok(place) = Arc::clone(&app.listeners).try_acquire_owned() else {
        let why = "too many listen already: ask for /api/v1/locks now and then instead";
        return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let listener = Listener {
        messages: app.messages.subscribe(),
        first: message("state", &StateView::of(&app)),
        _place: place,
    };
    let body = Body::from_stream(stream::unfold(listener, next));
    let headers = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    Ok((headers, body).into_response())
}

async fn next(mut listener: Listener) -> Option<(Result<Bytes, Infallible>, Listener)> {
    let text = match listener.first.take() {
        Some(first) => first,
        None => match listener.messages.recv().await {
            Ok(message) => message.to_string(),
            Err(RecvError::Lagged(_)) => "event: resync\ndata: {}\n\n".to_owned(),
            Err(RecvError::Closed) => return None,
        },
    };
    Some((Ok(Bytes::from(text)), listener))
}
