//! The files of the page, which are part of this program.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

pub(super) async fn page() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("page/index.html"))
}

pub(super) async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("page/app.js"))
}

pub(super) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("page/style.css"))
}

pub(super) async fn icon() -> impl IntoResponse {
    ([(CONTENT_TYPE, "image/svg+xml")], include_str!("page/icon.svg"))
}
