//! Requests, written as bytes, so that they can be wrong in any way.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::harness::PATIENCE;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(super) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Reads the bytes of a whole answer.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Self { status: status.unwrap_or(0), head: head.to_lowercase(), body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}:");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::trim)
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        whole.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or("");
    }
    whole
}

/// A request line and its headers, `Host` included if it is not among them.
pub(super) fn text(address: SocketAddr, line: &str, headers: &[&str], body: &str) -> String {
    let mut lines = vec![format!("{line} HTTP/1.1")];
    if !headers.iter().any(|header| header.to_lowercase().starts_with("host:")) {
        lines.push(format!("Host: {address}"));
    }
    lines.extend(headers.iter().map(ToString::to_string));
    if !body.is_empty() {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    format!("{}\r\nConnection: close\r\n\r\n{body}", lines.join("\r\n"))
}

pub(super) fn send(address: SocketAddr, line: &str, headers: &[&str], body: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(text(address, line, headers, body).as_bytes()).unwrap();
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    // A client that sends too much is cut off, and may not be able to read the whole answer.
    while let Ok(count @ 1..) = stream.read(&mut some) {
        bytes.extend_from_slice(&some[..count]);
        // The driver keeps the connection open in any case.
        if is_whole(&bytes) {
            break;
        }
    }
    Answer::parse(&bytes)
}

/// Whether an answer with a length is complete.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return false };
    let length = Answer::parse(bytes).header("content-length").and_then(|text| text.parse().ok());
    length.is_some_and(|length: usize| bytes.len() >= head + 4 + length)
}

pub(super) fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, &format!("GET {path}"), &[], "")
}

pub(super) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}
